"""One method over one series: loads are smoothed, a cycle runs each step, the window is judged.

Decides what is measured over time. The loads that a method sees are this project's own smoothed
means, the same for all; a method never sees the step that it is planning for. Before the switch is
turned on everybody has the hashed placement, and one window after that the judging begins.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from time import perf_counter

from bench.balance.fleet import Fleet, executor_name, executor_number
from bench.balance.rules import Rule
from bench.replay.series import Series
from coordinator.core.load import LoadBook
from coordinator.core.planner import hash_place, waterfill


@dataclass(frozen=True, slots=True)
class Setting:
    """How a method is run."""

    executors: int
    horizon_s: float
    cooldown_s: float
    on_after: int
    """Steps before the switch is turned on."""


@dataclass(slots=True)
class Played:
    """What came of it."""

    excess: list[float] = field(default_factory=list)
    """Of each judged step: the hottest executor over the best possible one, minus 1."""
    track: list[tuple[float, float, float]] = field(default_factory=list)
    """Hottest, mean and coldest executor in the trailing window of every step."""
    moves: int = 0
    moved_load: float = 0.0
    """In multiples of all load at the time of each move."""
    moves_again: int = 0
    """Moves of a shard that was moved before."""
    seconds: float = 0.0


def play(series: Series, rule: Rule | None, setting: Setting) -> Played:
    """The whole series under one rule; None leaves the hashed placement."""
    return _Player(series, rule, setting).played()


class _Player:
    """The fleet while the series goes on."""

    def __init__(self, series: Series, rule: Rule | None, setting: Setting) -> None:
        self._series = series
        self._rule = rule
        self._setting = setting
        names = [executor_name(at) for at in range(setting.executors)]
        placed = hash_place(series.keys, names)
        self._where = {key: executor_number(name) for key, name in placed.items()}
        self._book = LoadBook(setting.horizon_s, series.step_s)
        self._window: deque[Mapping[str, float]] = deque()
        self._sums = dict.fromkeys(series.keys, 0.0)
        self._moved_at: dict[str, int] = {}
        self._found = Played()

    def played(self) -> Played:
        series, setting = self._series, self._setting
        for step, loads in enumerate(series.steps):
            self._hear(step, loads)
            self._judge(step)
            if self._rule is not None and step >= setting.on_after:
                self._plan(step, self._rule)
        return self._found

    def _hear(self, step: int, loads: Mapping[str, float]) -> None:
        """Every executor reports all its shards, as with each heartbeat."""
        owned: list[dict[str, float]] = [{} for _ in range(self._setting.executors)]
        for key, at in self._where.items():
            owned[at][key] = loads.get(key, 0.0)
        now = (step + 1) * self._series.step_s
        for at, report in enumerate(owned):
            self._book.fold(executor_name(at), report, report, now)
        for key, load in loads.items():
            self._sums[key] += load
        self._window.append(loads)
        if len(self._window) > self._series.window:
            for key, load in self._window.popleft().items():
                self._sums[key] = max(0.0, self._sums[key] - load)

    def _judge(self, step: int) -> None:
        on = [0.0] * self._setting.executors
        for key, load in self._sums.items():
            on[self._where[key]] += load
        mean = fsum(on) / len(on)
        self._found.track.append((max(on), mean, min(on)))
        if step >= self._setting.on_after + self._series.window and mean > 0.0:
            best = waterfill(self._sums, len(on)).max
            self._found.excess.append(max(on) / best - 1.0)

    def _plan(self, step: int, rule: Rule) -> None:
        rest = self._setting.cooldown_s / self._series.step_s
        held = {key for key, at in self._moved_at.items() if step - at < rest}
        fleet = Fleet(self._book.means(), self._where, self._setting.executors)
        began = perf_counter()
        moved = rule.cycle(fleet, held)
        self._found.seconds += perf_counter() - began
        self._where = fleet.where
        self._found.moves += len(moved)
        self._found.moved_load += fleet.tally.load / (fsum(fleet.totals) or 1.0)
        self._found.moves_again += sum(key in self._moved_at for key in moved)
        self._moved_at.update(dict.fromkeys(moved, step))


def mean(values: Sequence[float]) -> float:
    """Of judged steps; 0 for a series too short to judge."""
    return fsum(values) / len(values) if values else 0.0
