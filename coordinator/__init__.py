"""Shard Coordinator: decides which process owns which shard, and proves it."""

__version__ = "0.1.0"
