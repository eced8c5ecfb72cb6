"""How long writes stop when the leader is killed."""
