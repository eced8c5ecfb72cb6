"""The HTTP API of a node: one table of routes, one module per audience."""

from coordinator.api.app import DESK, EXPRESS, SHELF, make_app
from coordinator.api.door import Door
from coordinator.api.listen import Listener
from coordinator.api.port import Port
from coordinator.api.tls import ApiTls, TlsRefused, read_tls
from coordinator.api.tokens import TokenBook, TokensRefused, read_book

__all__ = [
    "DESK",
    "EXPRESS",
    "SHELF",
    "ApiTls",
    "Door",
    "Listener",
    "Port",
    "TlsRefused",
    "TokenBook",
    "TokensRefused",
    "make_app",
    "read_book",
    "read_tls",
]
