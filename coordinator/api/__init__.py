"""The HTTP API of a node: one table of routes, one module per audience."""
