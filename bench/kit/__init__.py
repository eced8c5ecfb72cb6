"""What the client kit costs the process that uses it; see `__main__`."""
