"""Requests of the express lane that wait: for a quorum's word, or for news. None holds a task.

Decides what becomes of one when the wait is over. It must not know routes, nor how an answer is
written.
"""

from collections.abc import Callable
from typing import Protocol

from aiohttp.streams import StreamReader

from coordinator.api.asked import Asked
from coordinator.leadership import Confirmed


class Talk(Protocol):
    """The connection that a request came over."""

    def answered(self, answer: bytes | None) -> None:
        """The answer of what waited; None: the ordinary way is to give it."""


class Forgettable(Protocol):
    """What would tell when the wait is over."""

    def forget(self) -> None:
        """Nobody wants to be told any more."""


class Waiting:
    """A request whose answer waits."""

    __slots__ = ("_answer", "_awaited", "asked", "is_short", "payload", "talk")

    def __init__(
        self,
        asked: Asked,
        payload: StreamReader,
        talk: Talk,
        answer: Callable[[], bytes | None],
        *,
        is_short: bool,
    ) -> None:
        self.asked = asked
        self.payload = payload
        self.talk = talk
        self.is_short = is_short
        """Whether it is over so soon that whatever the caller sends next can wait for it unread."""
        self._answer = answer
        self._awaited: Forgettable | None = None

    def wait(self, awaited: Forgettable) -> None:
        """From now on."""
        self._awaited = awaited

    def forget(self) -> None:
        """Whoever asked is gone, or is answered by the ordinary way."""
        if self._awaited is not None:
            self._awaited.forget()

    def confirmed(self, confirmed: Confirmed | None) -> None:
        """A quorum's word came, or there is none. The body is decoded only now.

        The records of all who wait for the same word would push each other out of the processor's
        caches, and its first use would be as slow as to decode it.
        """
        if confirmed is None:
            self.talk.answered(None)
            return
        self.asked.confirmed = confirmed
        if self.asked.decode is not None:
            self.asked.payload = self.payload.read_nowait()
        self.talk.answered(self._answer())

    def looked(self, *, has_news: bool) -> None:
        """A long poll is over: news are the ordinary way's to tell."""
        self.talk.answered(None if has_news else self._answer())
