"""What a fleet costs that only lives: heartbeats with loads and open polls, and nothing changes."""
