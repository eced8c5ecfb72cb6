"""What must be true of owners and routers, on true time, whatever the coordinator believes.

Decides what a violation is. It sees only what users of the kit see: which callbacks run, and what
`may_act`, `lease_left_s`, `epoch` and a router's table say. Must not know faults or nodes.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from client.router import Router
from client.shard import Shard
from tests.sim.system.loop import Process
from tests.sim.world import World

LINES_MAX: Final = 400
"""Of the history, kept for whoever looks at a failure."""


@dataclass(eq=False, slots=True)
class Life:
    """One life of a shard in one process, as its callbacks see it."""

    process: Process
    executor: str
    shard: Shard
    is_started: bool = False
    """`on_start` has come to its end."""
    is_over: bool = False
    """No callback of it runs, and none will."""


class Witness:
    """Sees every process that may act on shards."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.violation: str | None = None
        self.starts = 0
        self.moves = 0
        self.lines: list[str] = []
        self._digest = hashlib.blake2b(digest_size=8)
        self._lives: dict[str, dict[Life, None]] = {}
        self._of: dict[Process, dict[Life, None]] = {}
        self._epochs: dict[str, tuple[int, Process]] = {}
        """The highest epoch under which a shard was started, and where."""
        self._fences: dict[str, int] = {}
        """The highest epoch under which anybody acted: what a store downstream remembers."""
        self._owner: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """Of everything that was noted: equal seeds, equal digests."""
        return self._digest.hexdigest()

    def fail(self, what: str) -> None:
        """The first violation counts."""
        if self.violation is None:
            self.violation = f"{self.world.now:.3f} s: {what}"
            self.note(f"VIOLATION {what}")

    def note(self, line: str) -> None:
        """One line of the history."""
        told = f"{self.world.now:.6f} {line}"
        self._digest.update(told.encode())
        self.lines.append(told)
        if len(self.lines) > LINES_MAX:
            del self.lines[: LINES_MAX // 2]

    # What callbacks tell.

    def begins(self, process: Process, executor: str, shard: Shard) -> Life:
        """`on_start` was called: nobody else may be in the way."""
        key, epoch = shard.key, shard.epoch
        self.note(f"{process.name} starts {key} under {epoch}")
        self.starts += 1
        lives = self._lives.setdefault(key, {})
        for other in list(lives):
            if other.is_over or other.shard is shard:
                continue
            if other.process is process:
                self.fail(f"{process.name} starts {key} twice")
            elif other.shard.lease_left_s > 0.0:
                self.fail(
                    f"{process.name} starts {key} under {epoch} while {other.process.name} has "
                    f"{other.shard.lease_left_s:.3f} s of its lease under {other.shard.epoch} left"
                )
        highest, where = self._epochs.get(key, (0, process))
        if epoch < highest or (epoch == highest and where is not process):
            self.fail(f"{process.name} starts {key} under {epoch} after {highest} on {where.name}")
        self._epochs[key] = (max(epoch, highest), process)
        if self._owner.setdefault(key, executor) != executor:
            self.moves += 1
            self._owner[key] = executor
        life = next((life for life in lives if life.shard is shard), None)
        if life is None:
            life = Life(process, executor, shard)
            lives[life] = None
            self._of.setdefault(process, {})[life] = None
        life.is_over = False
        return life

    def started(self, life: Life) -> None:
        """`on_start` is through."""
        life.is_started = True
        self.note(f"{life.process.name} runs {life.shard.key}")

    def ends(self, life: Life) -> None:
        """The last callback of a life is about to return."""
        self.note(f"{life.process.name} stopped {life.shard.key}")
        life.is_over = True

    def life_of(self, process: Process, shard: Shard) -> Life | None:
        """The life that this handle stands for."""
        return next((one for one in self._of.get(process, {}) if one.shard is shard), None)

    def is_gone(self, process: Process) -> None:
        """The process acts no more, whatever it held."""
        for life in self._of.pop(process, {}):
            life.is_over = True
            self._lives[life.shard.key].pop(life, None)

    # What is seen after each turn of a process.

    def look(self, process: Process) -> None:
        """No two may act on a shard; nobody acts under an older epoch, or after its last word."""
        mine = self._of.get(process)
        if not mine:
            return
        for life in list(mine):
            shard = life.shard
            if not shard.may_act():
                if life.is_over:
                    del mine[life]
                    del self._lives[shard.key][life]
                continue
            if life.is_over:
                self.fail(f"{process.name} may act on {shard.key} although its callbacks are over")
            self._check_alone(life)
            fence = self._fences.get(shard.key, 0)
            if shard.epoch < fence:
                self.fail(f"{process.name} acts on {shard.key} under {shard.epoch} after {fence}")
            self._fences[shard.key] = max(fence, shard.epoch)

    def _check_alone(self, life: Life) -> None:
        for other in self._lives[life.shard.key]:
            if other is not life and other.process.is_alive and other.shard.may_act():
                self.fail(
                    f"{life.process.name} (epoch {life.shard.epoch}) and {other.process.name} "
                    f"(epoch {other.shard.epoch}) may both act on {life.shard.key}"
                )

    def acting(self) -> dict[str, tuple[str, int]]:
        """Shard -> executor and epoch, of all that run and may act now."""
        return {
            key: (life.executor, life.shard.epoch)
            for key, lives in self._lives.items()
            for life in lives
            if life.is_started and not life.is_over and life.shard.may_act()
        }


class TableWatch:
    """One router's table never goes back: not its cursor, and not the epoch of any shard."""

    def __init__(self, witness: Witness, name: str) -> None:
        self._witness = witness
        self._name = name
        self._cluster_id = ""
        self._revision = -1
        self._epochs: dict[str, int] = {}
        self.router: Callable[[], Router | None] = lambda: None

    def look(self) -> None:
        """The table has changed."""
        router = self.router()
        if router is None or router.cursor is None:
            return
        cursor = router.cursor
        if cursor.cluster_id == self._cluster_id and cursor.revision < self._revision:
            self._witness.fail(
                f"the table of {self._name} went back to {cursor.revision} from {self._revision}"
            )
        self._cluster_id, self._revision = cursor.cluster_id, cursor.revision
        for key, owner in router.owners().items():
            known = self._epochs.get(key, 0)
            if owner.epoch < known:
                self._witness.fail(
                    f"{self._name} is told epoch {owner.epoch} of {key} after {known}"
                )
            self._epochs[key] = owner.epoch
        self._witness.note(f"{self._name} is at {cursor.revision}")
