"""Benchmarks of the project: `python -m bench.<goal>`, see README.md."""
