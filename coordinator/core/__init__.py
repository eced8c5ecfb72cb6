"""The rules, pure: standard library only; no clock, loop, socket, chance, log or environment."""
