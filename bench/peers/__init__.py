"""Other programs, driven in the environment .venv-peers: `python -m bench.peers.<name>`."""
