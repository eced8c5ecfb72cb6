"""Balancing over time: real load series replayed under each rule."""
