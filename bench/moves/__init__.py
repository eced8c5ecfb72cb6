"""How long a shard answers nobody while it changes hands; see `__main__`."""
