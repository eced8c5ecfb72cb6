"""The HTTP API of a node: one table of routes, one module per audience."""

from coordinator.api.app import make_app
from coordinator.api.listen import Listener

__all__ = ["Listener", "make_app"]
