"""Cursors: how far a reader has seen, as the opaque text "<cluster id>:<revision>".

Decides what a cursor means to a node at a given revision. It must not know what changed since,
nor how anybody waits.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from coordinator.core.types import EPOCH_MAX

TEXT_MAX: Final = 128
"""Longer than any cursor that was ever given out."""

REVISION_MAX: Final = EPOCH_MAX
"""Revisions stay exact in JSON as well."""


class Standing(Enum):
    """Where a reader stands against this node."""

    NEW = "new"
    """No cursor, or one of another cluster: everything it knows is void."""
    BEHIND = "behind"
    LEVEL = "level"
    AHEAD = "ahead"
    """It has seen what this node has not yet: answering now would lead it back."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A revision of a cluster."""

    cluster_id: str
    revision: int

    def __str__(self) -> str:
        return f"{self.cluster_id}:{self.revision}"

    def standing(self, cluster_id: str, revision: int) -> Standing:
        """Where the bearer of this cursor stands against a node at `revision`."""
        if self.cluster_id != cluster_id:
            return Standing.NEW
        if self.revision > revision:
            return Standing.AHEAD
        return Standing.LEVEL if self.revision == revision else Standing.BEHIND


def parse(text: str) -> Cursor | None:
    """The cursor of a text; None if it never was one."""
    if len(text) > TEXT_MAX:
        return None
    cluster_id, colon, digits = text.rpartition(":")
    if not colon or not cluster_id or not (digits.isascii() and digits.isdigit()):
        return None
    if len(digits) > 16 or int(digits) > REVISION_MAX:
        return None
    return Cursor(cluster_id, int(digits))
