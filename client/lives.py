"""The life of one shard in this process, and what is remembered of lives that are over.

Records with a few questions that they answer of themselves; what happens next is decided in
`reconcile`. It must not know clocks, callbacks or sets.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# A start is tried three times in a little over a second: enough for a dependency that hiccups,
# soon enough for another executor to have a go.
START_TRIES_MAX: Final = 3
START_RETRY_S: Final = 0.25  # and four times that before the third try
# Between the release by its owner and the grant, a shard may stand in no set of its target: what
# was warmed up is kept that long. The contract's default for a release that hangs.
PREPARED_LINGER_S: Final = 30.0
# A stop that goes on so long after its shard was assigned here again, and for a lease in any case,
# is taken to hang: others are to have the shard.
HUNG_STOP_S: Final = 5.0
HUNG_STOP: Final = "on_stop of the life before has not ended"
ERROR_TEXT_MAX: Final = 256  # of an error in an acknowledgement, so that a batch stays small
# Epochs acknowledged as released are remembered, the latest of so many shards, whatever sets arrive
# in between: nodes do not name them again, and this is for when one does.
RELEASED_MAX: Final = 65_536


class Phase(enum.Enum):
    """Where a life stands."""

    PREPARING = enum.auto()  # callback under way
    PREPARED = enum.auto()
    STARTING = enum.auto()  # callback under way
    RUNNING = enum.auto()
    STOPPING = enum.auto()  # callback under way
    RESTING = enum.auto()  # a start failed, another try follows
    FAILED = enum.auto()  # no more tries under this epoch


UNDER_WAY: Final = (Phase.PREPARING, Phase.STARTING, Phase.STOPPING)
LIVE: Final = (*UNDER_WAY, Phase.PREPARED, Phase.RUNNING)


@dataclass(slots=True)
class Life:
    """From the first callback of a shard to the end of its stop."""

    key: str
    epoch: int
    phase: Phase
    is_orphan: bool = False  # began under an incarnation that was closed since
    is_revoked: bool = False  # lost its permission while its start was under way
    was_prepared: bool = False
    was_started: bool = False
    tries: int = 0
    # RESTING: of the next try; PREPARED and STOPPING: of the end of patience
    retry_at: float = 0.0
    was_withheld: bool = False  # its own lease has run out, or will
    was_cut: bool = False  # the lease was lost under it, and may have been won again
    awaited: int = 0  # STOPPING: the epoch that waits for the end of this stop
    error: str = ""

    @property
    def is_running(self) -> bool:
        """Whether it was started with success and its stop has not ended."""
        return self.was_started and self.phase in {Phase.RUNNING, Phase.STOPPING}

    def is_past(self, epoch: int) -> bool:
        """Whether it stops without any permission left while the shard is to run.

        Under a newer epoch, or the same one once more if the lease was lost and won again.
        """
        has_ended = self.is_orphan or self.was_withheld or self.was_cut
        is_due = epoch >= self.epoch if self.was_cut else epoch > self.epoch
        return self.phase is Phase.STOPPING and has_ended and is_due

    def has_hung(self, epoch: int, now: float, patience_s: float) -> bool:
        """Whether its stop has kept this assignment waiting for too long."""
        if self.awaited != epoch:
            self.awaited, self.retry_at = epoch, now + patience_s
        return now >= self.retry_at

    @property
    def is_held(self) -> bool:
        """Whether the coordinator must reckon with it.

        From the beginning of its start, since that is when it may be acted on, to the end of its
        stop. What lost its permission counts no more: somebody else may own it by now.
        """
        if self.is_orphan:
            return False
        return self.is_running or (self.phase is Phase.STARTING and not self.is_revoked)

    def fail(self, error: str, now: float) -> bool:
        """Its start failed; whether another try follows."""
        self.was_prepared = False  # a start that fails cleans up after both callbacks
        self.tries += 1
        self.give_up(error)
        if self.tries < START_TRIES_MAX:
            self.phase = Phase.RESTING
            self.retry_at = now + START_RETRY_S * 4.0 ** (self.tries - 1)
        return self.phase is Phase.RESTING

    def give_up(self, error: str) -> None:
        """No more tries under this epoch."""
        self.phase, self.error = Phase.FAILED, error[:ERROR_TEXT_MAX]


class Forgone:
    """The epochs that this executor has given up."""

    def __init__(self) -> None:
        self._released: dict[str, int] = {}  # the highest epoch acknowledged as released
        self._last_held: dict[str, int] = {}  # given up because the lease was lost

    def release(self, key: str, epoch: int) -> None:
        """Never start this epoch or a lower one again."""
        self._released[key] = max(epoch, self._released.pop(key, -1))
        if len(self._released) > RELEASED_MAX:
            del self._released[next(iter(self._released))]
        self._last_held.pop(key, None)

    def may_start(self, key: str, epoch: int) -> bool:
        """Whether this epoch was not released."""
        return epoch > self._released.get(key, -1)

    def lose(self, lives: Iterable[Life]) -> None:
        """The lease is over: what is held of these was last held under its epoch."""
        self._last_held |= {life.key: life.epoch for life in lives if life.is_held}

    def settle(self) -> None:
        """The coordinator has said what is to be held: what was held before is of no more use."""
        self._last_held.clear()

    def last_held(self, held: Iterable[str]) -> dict[str, int]:
        """What was given up for want of a lease and is not held again."""
        again = set(held)
        return {key: epoch for key, epoch in self._last_held.items() if key not in again}
