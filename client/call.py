"""One request to a coordinator as a value, and the few forms that requests have.

Decides how a path is spelled, and which requests go to the leader or carry an idempotency key. It
must not know single requests, nodes, sockets or retries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar
from urllib.parse import quote, urlencode

from client import protocol as wire

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request, independent of the node it goes to."""

    method: str
    path: str
    answer: type[T]
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    needs_leader: bool = False  # goes straight to the leader when it is known, else to any node
    is_mutation: bool = False  # an operator's change: carries an idempotency key
    if_match: str = ""

    @property
    def target(self) -> str:
        """Path and query as sent."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    def asking(self, **query: str | int | None) -> "Call[T]":
        """The same request with these query parameters; those that are None or empty are left."""
        extra = tuple(
            (name, str(value)) for name, value in query.items() if value not in {None, ""}
        )
        return replace(self, query=self.query + extra)


def segment(text: str) -> str:
    """A name as one segment of a path."""
    # A segment of dots alone would be taken for "here" or "one up" and be folded away.
    return text.replace(".", "%2E") if text in {".", ".."} else quote(text, safe="")


def within(namespace: str) -> str:
    """The path of a namespace."""
    return f"/v1/namespaces/{segment(namespace)}"


def read(path: str, answer: type[T]) -> Call[T]:
    """A read that any node answers."""
    return Call(method="GET", path=path, answer=answer)


def look(path: str, answer: type[T]) -> Call[T]:
    """An operator's read: of the leader, which has the loads and what was changed just now."""
    return replace(read(path, answer), needs_leader=True)


def change(
    method: str, path: str, answer: type[T], body: Mapping[str, object] | None = None
) -> Call[T]:
    """An operator's change; what is None is left out of the body."""
    sent = None if body is None else {k: v for k, v in body.items() if v is not None}
    return Call(
        method=method,
        path=path,
        answer=answer,
        body=None if sent is None else wire.encoded(sent),
        needs_leader=True,
        is_mutation=True,
    )
