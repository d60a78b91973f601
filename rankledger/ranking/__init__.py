"""Ranks, ties and metrics: Arrow and NumPy in, Arrow and NumPy out; no benchmark and no file."""
