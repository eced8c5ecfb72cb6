"""How even the fleet is, noted every few seconds: what a picture of the last hour is drawn from.

Decides when a point is taken and what it may cost. Nothing is ever planned on it.
"""

from typing import Final

from coordinator.core.balance_series import BalancePoint
from coordinator.core.controller.fleet import Fleet, see, shares_of
from coordinator.core.controller.mind import Mind
from coordinator.core.controller.tallies import held_keys, moving_out
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import FleetFigures, best_possible

SAMPLE_S: Final = 5.0
"""From one point to the next: an hour in `RECENT_MAX` of them."""

SEEN_MAX: Final = 20_000
"""Shards that are counted for a point: 8 ms where all of them were reported anew. Of more, the
figures of the last pass are taken, or of whoever looks at the placement: both count in slices."""

BOUND_MAX: Final = 2_000
"""Shards of which the best possible is looked for with each point: a millisecond. Of more, what the
last pass found is taken."""


def take_sample(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> None:
    """Note a point if it is time for one and there is anything to see."""
    if now - mind.sampled_at < SAMPLE_S or not namespace.executors or not len(mind.loads):
        return
    plan = None if mind.last_pass is None else mind.last_pass.plan
    bound = None if plan is None else plan.bound.max
    if len(namespace.shards) > SEEN_MAX:
        if plan is None:
            return
        figures = plan.before
    else:
        fleet = see(namespace, mind, now)
        shares = shares_of(fleet)
        figures = shares.figures
        if len(namespace.shards) <= BOUND_MAX:
            bound = _bound(namespace, mind, fleet, shares.open_rooms)
    note_figures(namespace, mind, figures, bound, now=now, at_ms=at_ms)


def note_figures(
    namespace: NamespaceState,
    mind: Mind,
    figures: FleetFigures,
    bound: float | None,
    *,
    now: float,
    at_ms: int,
) -> None:
    """Note figures that somebody has worked out, if it is time for a point."""
    if now - mind.sampled_at >= SAMPLE_S:
        mind.sampled_at = now
        mind.recent.add(_point(namespace, mind, figures, bound, at_ms))


def _bound(
    namespace: NamespaceState, mind: Mind, fleet: Fleet, rooms: dict[str, float]
) -> float | None:
    """The hottest one under the best placement; None where nobody may be given shards."""
    leaving = moving_out(namespace)
    keys = [key for executor in fleet.loads for key in held_keys(namespace, executor, leaving)]
    loads = mind.loads.loads_of(keys)
    known = {
        key: fleet.median if load is None else load for key, load in zip(keys, loads, strict=True)
    }
    return best_possible(known, list(rooms.values())).max if rooms else None


def _point(
    namespace: NamespaceState,
    mind: Mind,
    figures: FleetFigures,
    bound: float | None,
    at_ms: int,
) -> BalancePoint:
    hashed = mind.yardstick
    return BalancePoint(
        at_ms=at_ms,
        hottest=figures.hottest_utilisation,
        mean=figures.mean,
        coldest=figures.coldest_utilisation,
        spread=figures.spread,
        executors=len(namespace.executors),
        best_possible=bound,
        static_hash=None if hashed is None else hashed.modulo.hottest_utilisation,
    )
