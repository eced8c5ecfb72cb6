"""The client kit of Shard Coordinator."""
