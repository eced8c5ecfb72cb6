"""What must be true of the whole cluster, seen from outside, after every step of any node.

Decides what a violation is. Must not know how the cluster is driven. Everything here is what a
client or a comparison of nodes can see: it holds no matter how consensus works inside.
"""

from typing import Any


class Violation(AssertionError):  # noqa: N818 - what a checker raises
    """An invariant does not hold; the text says which and where."""


class Ledger:
    """Everything that was ever promised, by any node to anyone."""

    def __init__(self) -> None:
        self.leaders: dict[int, str] = {}
        self.ready_s: dict[int, float] = {}
        self.entries: dict[int, Any] = {1: None}
        self.hashes: dict[int, bytes] = {}
        self.acknowledged: dict[int, int] = {}
        self.refused: set[int] = set()
        self.highest_acknowledged = 0
        self.confirmed_terms: int = 0

    def leads(self, life: str, term: int) -> None:
        """One leader per term, and a term is led by one life of a node."""
        former = self.leaders.setdefault(term, life)
        if former != life:
            raise Violation(f"two leaders in term {term}: {former} and {life}")

    def is_ready(self, term: int, now_s: float) -> None:
        """Notes when the leadership of a term became able to commit."""
        self.ready_s.setdefault(term, now_s)

    def applied(self, life: str, index: int, entry: Any) -> None:
        """An entry that was applied once is the entry of its index for ever."""
        former = self.entries.setdefault(index, entry)
        if former != entry:
            raise Violation(
                f"{life} replaces the committed entry {index}: {former!r:.60} by {entry!r:.60}"
            )

    def holds(self, life: str, index: int, digest: bytes) -> None:
        """Equal applied index, equal state."""
        if self.hashes.setdefault(index, digest) != digest:
            raise Violation(f"{life} holds another state than others at index {index}")

    def acknowledges(self, command: int, index: int) -> None:
        """A client was told that its command is applied at this index."""
        self.acknowledged[command] = index
        self.highest_acknowledged = max(self.highest_acknowledged, index)

    def refuses(self, command: int) -> None:
        """A client was told that its command never will be applied."""
        self.refused.add(command)

    def confirms(
        self, life: str, term: int, *, asked_s: float, must_hold: int, applied: int
    ) -> None:
        """A confirmed leader was not yet replaced when it was asked, and misses nothing."""
        later = [t for t, at in self.ready_s.items() if t > term and at < asked_s]
        if later:
            raise Violation(f"{life} confirmed term {term} when term {min(later)} was leading")
        if applied < must_hold:
            raise Violation(f"{life} confirmed at {applied}, but {must_hold} was acknowledged")
        self.confirmed_terms += 1

    def settles(self, life: str, commands: set[int]) -> None:
        """At the end: everything acknowledged is there, nothing refused is."""
        missing = sorted(set(self.acknowledged) - commands)
        if missing:
            raise Violation(f"{life} lost {len(missing)} acknowledged commands, first {missing[0]}")
        present = sorted(self.refused & commands)
        if present:
            raise Violation(f"{life} applied the refused command {present[0]}")
