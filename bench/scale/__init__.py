"""A thousand executors and up to a million shards: what they cost, and how it grows."""
