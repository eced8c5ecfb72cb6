"""The HTTP API of a node: one table of routes, one module per audience."""

from coordinator.api.app import make_app

__all__ = ["make_app"]
