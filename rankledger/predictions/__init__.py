"""The prediction contract: what a run may look like, how it is read, checked and converted."""
