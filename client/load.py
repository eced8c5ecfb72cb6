"""How much of this process's CPU each shard used: exact for the process, split by busy time.

Decides how a window's CPU is divided. The kernel says exactly what the process used; which shard
used it nobody can say where tasks interleave on one loop, so it is divided in proportion to the
wall time that each shard's sections were open (a section that is open twice counts twice). Means of
this add up, which peaks never do. It must not know heartbeats or HTTP.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from client.forks import give_up_in_child
from client.shard import Shard

# Handles kept for reuse; beyond, those without an open section are made again when needed.
HANDLES_MAX: Final = 100_000

_Name = tuple[str, str]  # namespace and shard key


@dataclass(frozen=True, slots=True)
class Window:
    """What the process used between two looks, and whose it was. CPU in seconds."""

    cpu_s: float
    wall_s: float
    shares: dict[_Name, float] = field(default_factory=dict)
    """By namespace and shard key; together with `unattributed_s` they add up to `cpu_s`."""
    unattributed_s: float = 0.0
    """Used while no section was open in the whole window."""


class Busy:
    """The sections of one shard. Enter it around whatever works for the shard."""

    __slots__ = ("_at", "_busy", "_clock", "_name", "_open", "_recorder", "_wall_s")

    def __init__(self, recorder: "LoadRecorder", name: _Name) -> None:
        self._name: Final = name
        self._recorder: Final = recorder
        self._clock: Final = recorder._clock  # noqa: SLF001 - two halves of one thing
        self._busy: Final = recorder._busy  # noqa: SLF001
        self._open = 0
        self._at = 0.0
        self._wall_s = 0.0

    def __enter__(self) -> None:
        with self._recorder._lock:  # noqa: SLF001
            now = self._clock()
            if self._open:
                self._wall_s += self._open * (now - self._at)
            else:
                self._busy[self] = None
            self._at = now
            self._open += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._recorder._lock:  # noqa: SLF001
            now = self._clock()
            self._wall_s += self._open * (now - self._at)
            self._at = now
            self._open -= 1

    def _settle(self, now: float) -> tuple[float, bool]:
        """Wall seconds since the last window, and whether a section is open; under the lock."""
        self._wall_s += self._open * (now - self._at)
        self._at = now
        wall_s, self._wall_s = self._wall_s, 0.0
        return wall_s, self._open > 0


class LoadRecorder:
    """Measures what each shard costs this process. One for the process; usable from any thread.

        recorder = LoadRecorder()
        with recorder.busy("orders"):
            ...

    Give it to the executors of the process (`Executor(..., recorder=recorder)`): each reports its
    shards' mean use of CPU, in cores, which is the unit to state `capacity` in. Sections may
    overlap in tasks and threads; the shares of a window always add up to what the process used.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock: Final = clock
        self._cpu_clock: Final = cpu_clock
        self._lock = threading.Lock()
        self._handles: dict[_Name, Busy] = {}
        self._busy: dict[Busy, None] = {}  # with time in this window
        self._began_at = clock()
        self._cpu_s = cpu_clock()
        self._kept: dict[str, dict[str, float]] = {}
        give_up_in_child(self, LoadRecorder._survive_fork)

    def busy(self, shard: Shard | str, namespace: str = "") -> Busy:
        """A section of work for a shard, named by its handle, or by its key and namespace.

        The namespace may be left out in a process with a single one.
        """
        name = (namespace, shard) if type(shard) is str else _name_of(shard, namespace)
        return self._handles.get(name) or self._made(name)

    def _survive_fork(self) -> None:
        self._lock = threading.Lock()  # whoever held it in the parent never frees this copy

    def _made(self, name: _Name) -> Busy:
        if len(self._handles) >= HANDLES_MAX:
            self._handles.clear()  # open sections hold their own handle
            with self._lock:
                self._keep()  # or handles with time pile up where nobody takes
        handle = self._handles[name] = Busy(self, name)
        return handle

    def window(self) -> Window:
        """What was used since the last look, by whomever; a new window begins."""
        with self._lock:
            return self._close()

    def take(self, namespace: str) -> dict[str, float]:
        """CPU seconds by shard key since this namespace was taken last; "" is anyone's."""
        with self._lock:
            self._keep()
            taken = self._kept.pop(namespace, {})
            for key, cpu_s in self._kept.pop("", {}).items():
                taken[key] = taken.get(key, 0.0) + cpu_s
            return taken

    def _keep(self) -> None:
        for (owner, key), cpu_s in self._close().shares.items():
            kept = self._kept.setdefault(owner, {})
            if key in kept or len(kept) < HANDLES_MAX:  # nobody takes this namespace
                kept[key] = kept.get(key, 0.0) + cpu_s

    def _close(self) -> Window:
        now, cpu_s = self._clock(), self._cpu_clock()
        window_cpu_s = max(0.0, cpu_s - self._cpu_s)
        window_s = max(0.0, now - self._began_at)
        self._began_at, self._cpu_s = now, cpu_s
        walls: dict[_Name, float] = {}
        for handle in list(self._busy):
            wall_s, is_open = handle._settle(now)  # noqa: SLF001
            if not is_open:
                del self._busy[handle]
            walls[handle._name] = walls.get(handle._name, 0.0) + wall_s  # noqa: SLF001
        total_s = sum(walls.values())
        if total_s <= 0.0:
            return Window(window_cpu_s, window_s, dict.fromkeys(walls, 0.0), window_cpu_s)
        shares = {name: window_cpu_s * (wall_s / total_s) for name, wall_s in walls.items()}
        return Window(window_cpu_s, window_s, shares)


def _name_of(shard: Shard | str, namespace: str) -> _Name:
    return (namespace, shard) if isinstance(shard, str) else (shard.namespace, shard.key)
