"""A parser of requests that lets some of them be taken before aiohttp sees them.

Decides only what is offered: a request that came alone, while nothing else was read with it. It
must not know who takes it, nor why.
"""

from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import StreamReader


class Sieve:
    """aiohttp's parser, which hands on only what was not taken."""

    def __init__(self, parser: Any, takes: Callable[[Any, StreamReader], bool]) -> None:
        self._parser = parser
        self._takes = takes
        self.message_consumed = parser.message_consumed
        self.set_upgraded = parser.set_upgraded
        self.pause_reading = parser.pause_reading

    def feed_data(self, data: bytes) -> tuple[Sequence[Any], bool, bytes]:
        """The requests that are whole up to their bodies, as aiohttp's."""
        found: tuple[Sequence[Any], bool, bytes] = self._parser.feed_data(data)
        messages, is_upgraded, tail = found
        if len(messages) == 1 and not is_upgraded and self._takes(*messages[0]):
            self._parser.message_consumed()
            return (), False, tail
        return found
