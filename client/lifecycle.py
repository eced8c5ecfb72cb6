"""What the machine of `reconcile` is told, and what it wants done.

Two closed unions of frozen records. They decide nothing; a new case breaks the type check in the
machine and in its shell.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Duty = Literal["run", "prepare", "release"]

# Digits of a revision; more than any counter reaches, and cheap to parse.
_REVISION_DIGITS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the history of a namespace in one cluster."""

    cluster_id: str
    revision: int

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """The cursor in `"<cluster id>:<revision>"`; raises ValueError on anything else."""
        cluster_id, colon, digits = text.rpartition(":")
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= _REVISION_DIGITS_MAX
        if not colon or not cluster_id or not is_number:
            raise ValueError(f"not a cursor: {text[:100]!r}")
        return cls(cluster_id, int(digits))

    def __str__(self) -> str:
        return f"{self.cluster_id}:{self.revision}"


@dataclass(frozen=True, slots=True)
class AssignmentSet:
    """All that an executor is to do with each of its shards, at one cursor."""

    cursor: Cursor
    duties: Mapping[str, tuple[int, Duty]]  # key -> epoch, duty

    def runs(self, key: str, since: Cursor) -> bool:
        """Whether it is newer than a cursor and gives this shard to be run."""
        is_newer = self.cursor.revision > since.revision
        is_newer = is_newer and self.cursor.cluster_id == since.cluster_id
        duty = self.duties.get(key) if is_newer else None
        return duty is not None and duty[1] == "run"


# ---------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Renewed:
    """A heartbeat was acknowledged."""

    cursor: Cursor
    overdue: frozenset[str] = frozenset()  # shards that should have been released by now
    is_late: bool = False  # so late that the lease is SUSPENDED all the same
    ttl_s: float = 0.0  # how long it lets the executor act at most


@dataclass(frozen=True, slots=True)
class Suspended:
    """Renewals fail; the lease still holds."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is over, or so nearly that stops must begin."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The coordinator ended the incarnation; what comes next happens under another one."""


@dataclass(frozen=True, slots=True)
class SetArrived:
    """An assignment set was received, or confirmed to be still the newest."""

    assigned: AssignmentSet


@dataclass(frozen=True, slots=True)
class CallbackEnded:
    """A start, stop or prepare that the machine asked for has ended; `error` if it raised."""

    key: str
    error: str | None = None
    was_begun: bool = True  # False: it was given up while it still waited for its turn


@dataclass(frozen=True, slots=True)
class Leaving:
    """The executor is on its way out: start nothing more; with `stops_all` stop everything."""

    stops_all: bool = False


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing happened but time."""


Event = Renewed | Suspended | Lost | Closed | SetArrived | CallbackEnded | Leaving | TimePassed

# --------------------------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True)
class Prepare:
    """Warm a shard up; report its end with `CallbackEnded`."""

    key: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Start:
    """Start a shard; report its end with `CallbackEnded`."""

    key: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Adopt:
    """A shard that runs goes on under a higher epoch, without stop and start."""

    key: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Revoke:
    """Nobody may act on a shard any more whose start is under way; it goes on to its end."""

    key: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a shard that was started or prepared; report its end with `CallbackEnded`.

    From the moment this is returned, nobody may act on the shard here.
    """

    key: str
    epoch: int


class Outcome(enum.Enum):
    """What an acknowledgement tells."""

    RELEASED = "released"
    PREPARED = "prepared"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Tell the coordinator; repeated until it has answered."""

    outcome: Outcome
    key: str
    epoch: int
    error: str = ""


Action = Prepare | Start | Adopt | Revoke | Stop | Acknowledge
