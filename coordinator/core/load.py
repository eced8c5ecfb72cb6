"""How heavy each shard is: smoothed loads of one namespace, and executors' saturation signals.

Decides what a report means for the mean of each shard. Means add up and peaks do not, so a
shard's load is an exponentially weighted mean over a horizon of the mean loads reported. It
belongs to the shard and goes with it when it moves. Must not know where shards are placed or what
the figures are used for; an executor's report touches only the shards on record as its own.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp, inf
from typing import Final, cast

from coordinator.core.means import RUN_MAX, Mean, MeanTable, Run, observed_s, weight_of

# A report above this is cut to it: sums of a million such loads, and their squares, stay finite,
# so that one absurd figure cannot stop the planner. Real units are cores or calls a second.
LOAD_MAX = 1e15

# Two reports closer than this are one: nothing can be measured in between, and weights that small
# would lose their digits.
WINDOW_MIN_S = 1e-6

# Of more shards than this the median is taken of those measured first: to sort a million takes a
# second, and four thousand are within a percent of the middle.
MEDIAN_OF_MAX = 4_096

# An event loop that is late by this much in the mean has more to do than it can.
STRAINED_LAG_S = 0.1

# So many bad reports in a row are no coincidence: with the usual interval, six seconds.
STRAINED_REPORTS = 3

# Stands for "not in the report" where None means "held, but no news of its load".
_ABSENT = -1.0


_UNMEASURED: Final[Mean] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ProcessSignals:
    """An executor process's own word on saturation, which the cap on its load cannot clip."""

    cpu_cores: float | None = None
    event_loop_lag_s: float | None = None
    backlog: float | None = None


def _is_strained(before: ProcessSignals | None, signals: ProcessSignals) -> bool:
    """Its loop is late, or work is waiting and does not get less."""
    if (signals.event_loop_lag_s or 0.0) >= STRAINED_LAG_S:
        return True
    was = 0.0 if before is None else before.backlog or 0.0
    return (signals.backlog or 0.0) >= was > 0.0


@dataclass(frozen=True, slots=True)
class Sheet:
    """The shards of one report that named a load of each, and their means: as they are now."""

    _run: Run

    @property
    def keys(self) -> Sequence[str]:
        """Their names."""
        return self._run.keys

    @property
    def means(self) -> Sequence[float]:
        """Beside the keys. A million floats in lists take 30 ms to let go of, in arrays nothing."""
        return self._run.means

    @property
    def total(self) -> float:
        """The sum of the means."""
        return self._run.total

    @property
    def heard_at(self) -> float:
        """No window of any of them ended before."""
        return self._run.heard_at


class LoadBook:
    """Smoothed load of every shard of one namespace.

    Per shard it keeps a sum of past windows under exponential weights, the total of those weights,
    and when the last window ended. Their quotient is the mean with its bias corrected: a shard
    seen for one window has that window's load, it does not ease in from zero.
    """

    def __init__(self, horizon_s: float, interval_s: float) -> None:
        """`interval_s` is the heartbeat interval: the window assumed of an unheard executor."""
        self._horizon_s = horizon_s
        self._interval_s = interval_s
        self._reported_at: dict[str, float] = {}
        self._process: dict[str, ProcessSignals] = {}
        self._strained: dict[str, int] = {}
        self._means = MeanTable()
        self._runs: dict[str, Run] = {}
        # Of each executor whose last report had a load of every shard: those shards, side by side.
        self._folds = 0
        self._folded: dict[str, int] = {}
        self._restores = 0

    def __len__(self) -> int:
        return len(self._means)

    @property
    def horizon_s(self) -> float:
        """The time over which the past fades to 1/e."""
        return self._horizon_s

    def set_horizon(self, horizon_s: float) -> None:
        """Smooth over another horizon from now on; means and observed times are kept."""
        if horizon_s == self._horizon_s:
            return
        self._means.rescale(horizon_s, self._horizon_s)
        self._horizon_s = horizon_s

    def set_interval(self, interval_s: float) -> None:
        """Take another heartbeat interval as the window of a first report."""
        self._interval_s = interval_s

    def fold(
        self,
        executor: str,
        loads: Mapping[str, float | None],
        owned: Collection[str],
        now: float,
    ) -> None:
        """Take in a report that lists what `executor` holds; `owned` is what it has on record.

        Owned and listed with a load: that was its mean over the window. Listed with None, or with
        a figure that is negative or not finite: no news, the mean stays. Owned and not listed: a
        window of zero. Listed and not owned: ignored, which bounds the book by the shards on
        record. A report without a list changes nothing: do not call this for it.

        The window runs from the executor's last report. Where there is none (a new leader, a new
        incarnation) it is one heartbeat interval, the only length that can be presumed. A clock
        that stands still or runs back folds nothing.
        """
        fresh = self._window(executor, now)
        if fresh is None:
            return
        kept = 1.0 - fresh
        means = self._means
        keys: list[str] = []
        totals: list[float] = []
        weights: list[float] = []
        for key in owned:
            load = loads.get(key, _ABSENT)
            if load is None:
                continue
            if load is _ABSENT:
                load = 0.0
            elif not 0.0 <= load < inf:
                continue
            elif load > LOAD_MAX:
                load = LOAD_MAX
            total, weight, _ = means.get(key) or _UNMEASURED
            keys.append(key)
            totals.append(total * kept + fresh * load)
            weights.append(weight * kept + fresh)
        if keys:  # a report of nothing changes nothing
            self._folded[executor] = self._folds
        if 0 < len(keys) == len(owned) <= RUN_MAX:
            self._runs[executor] = means.lay(tuple(owned), totals, weights, now)
            return
        self._runs.pop(executor, None)
        for key, total, weight in zip(keys, totals, weights, strict=True):
            means.put(key, (total, weight, now))

    def fold_again(
        self, executor: str, keys: tuple[str, ...], loads: list[float | None], now: float
    ) -> bool:
        """`fold` of a report that names the same shards in the same order, and a load of each.

        All must be on record as this executor's. So nearly all reports are, and it takes a third
        of the time. False, and nothing is taken in, when it is not one of these.
        """
        run = self._runs.get(executor)
        if run is None or not run.is_of(keys):
            return False
        figures = cast("list[float]", loads)
        try:  # One sum says that all are figures, and finite: what is not makes a sum that is not.
            if not sum(figures) <= LOAD_MAX or min(figures) < 0.0:
                return False
        except TypeError:
            return False
        fresh = self._window(executor, now)
        if fresh is not None:
            run.fold(figures, 1.0 - fresh, fresh, now)
            self._folded[executor] = self._folds
        return True

    def sheet(self, executor: str) -> Sheet | None:
        """The shards of the executor's last report, if all were measured and none elsewhere since.

        What it owns may be more by now.
        """
        run = self._runs.get(executor)
        return None if run is None or not run.is_whole else Sheet(run)

    def _window(self, executor: str, now: float) -> float | None:
        """The weight of the window that a report closes; None for one too short to count."""
        window_s = now - self._reported_at.get(executor, now - self._interval_s)
        if window_s < WINDOW_MIN_S:
            return None
        self._reported_at[executor] = now
        self._folds += 1
        return weight_of(window_s, self._horizon_s)

    def restart(self, executor: str) -> None:
        """A new incarnation, or none: the next report of that name counts as a first one."""
        self._reported_at.pop(executor, None)
        self._process.pop(executor, None)
        self._strained.pop(executor, None)
        self._folded.pop(executor, None)
        self._runs.pop(executor, None)

    def let_go(self) -> Iterator[None]:
        """Forget all means, in slices: nobody asks any more."""
        self._runs.clear()
        yield from self._means.let_go()

    def version(self, executor: str) -> tuple[int, int]:
        """Changes whenever the mean of a shard may have, of those on record as this executor's."""
        return (self._restores, self._folded.get(executor, 0))

    def forget(self, key: str) -> None:
        """The shard was retired."""
        self._means.remove(key)

    def smoothed(self, key: str) -> float | None:
        """The shard's mean load; None while it was never measured."""
        mean = self._means.get(key)
        return None if mean is None else mean[0] / mean[1]

    def known(self) -> tuple[str, ...]:
        """The keys of all measured shards."""
        return tuple(self._means)

    def loads_of(self, keys: Sequence[str]) -> list[float | None]:
        """The mean loads of these shards, in their order; None for one never measured."""
        found = self._means.means_of(keys)  # nearly always all were
        return [self.smoothed(key) for key in keys] if found is None else [*found]

    def look_up(self, keys: Sequence[str], oldest: float) -> tuple[list[float], int] | None:
        """The mean loads, and how many were measured at or after that time.

        None if one of the shards was never measured.
        """
        return self._means.look_up(keys, oldest)

    def heard_since(self, keys: Iterable[str], oldest: float) -> int:
        """How many of these shards were measured at or after that time."""
        return self._means.heard_since(keys, oldest)

    def means(self) -> dict[str, float]:
        """The mean load of every measured shard."""
        keys = self.known()
        return dict(zip(keys, self._means.means_of(keys) or (), strict=True))

    def measured_s(self, key: str) -> float:
        """For how many seconds in all the shard's load was reported, fading like the load does."""
        mean = self._means.get(key)
        return 0.0 if mean is None else observed_s(mean[1], self._horizon_s)

    def is_settled(self, key: str, after_s: float) -> bool:
        """Whether it was observed for long enough for its mean to be acted upon."""
        mean = self._means.get(key)
        return mean is not None and mean[1] >= weight_of(after_s, self._horizon_s)

    def median(self) -> float:
        """The middle one of all measured loads, to stand for an unmeasured shard; 0 if none is.

        Of very many shards only the first are looked at.
        """
        ordered = sorted(self._means.means_of(list(islice(self._means, MEDIAN_OF_MAX))) or ())
        if not ordered:
            return 0.0
        middle = len(ordered) // 2
        return (ordered[middle] + ordered[~middle]) / 2.0

    def stale_ratio(self, keys: Collection[str], now: float, older_than_s: float) -> float:
        """Share of `keys` that were never measured, or not within the last `older_than_s`."""
        if not keys:
            return 0.0
        return 1.0 - self.heard_since(keys, now - older_than_s) / len(keys)

    @property
    def folds(self) -> int:
        """How many reports came in: the same number, the same means."""
        return self._folds

    def entries(self, keys: Iterable[str]) -> list[tuple[str, float, float]]:
        """(key, mean, weight) of those that were measured: all that a new leader needs."""
        found = [(key, self._means.get(key)) for key in keys]
        return [
            (key, mean[0] / mean[1], min(1.0, mean[1])) for key, mean in found if mean is not None
        ]

    def restore(
        self, entries: Iterable[tuple[str, float, float]], now: float, *, age_s: float = 0.0
    ) -> None:
        """Put behind what was measured here what another leader knew so long ago; once each.

        What is behind counts as if the windows that were measured here had followed it, and what
        went by unmeasured counts for nothing. Loads not yet measured here count as reported at
        `now`: usable at once, and stale again if nothing follows.
        """
        self._restores += 1
        faded = exp(-age_s / self._horizon_s)
        for key, value, known in entries:
            if not (0.0 < known <= 1.0 and 0.0 <= value <= LOAD_MAX):
                continue
            total, here, at = self._means.get(key) or (0.0, 0.0, now)
            behind = known * faded * (1.0 - here)
            if behind > 0.0:
                self._means.put(key, (total + value * behind, here + behind, at))

    def observe_process(self, executor: str, signals: ProcessSignals) -> None:
        """Keep an executor's latest saturation signals, and how often in a row they were bad."""
        is_bad = _is_strained(self._process.get(executor), signals)
        self._strained[executor] = self._strained.get(executor, 0) + 1 if is_bad else 0
        self._process[executor] = signals

    def is_saturated(self, executor: str) -> bool:
        """Whether its load is clipped: it would do more than what it reports if it could.

        By its event loop's lag and its backlog, which no ceiling clips; never by its load, of
        which the ceiling is a part.
        """
        return self._strained.get(executor, 0) >= STRAINED_REPORTS

    def process(self, executor: str) -> ProcessSignals | None:
        """Its latest saturation signals, if it sent any."""
        return self._process.get(executor)
