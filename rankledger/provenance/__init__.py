"""What the others wrote down, read again: where a number comes from, what moved it, how a subset is described."""
