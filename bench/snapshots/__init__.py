"""How long the loop stands still while a large state is written, sent and read."""
