"""What came of a decision: measured when its moves are made and loads have had time to tell.

Decides when that is. For a dry run it measures what the fleet would be like by now, with the loads
that its shards have by now. Must not know what becomes of the figures.
"""

from math import fsum
from typing import Final

from coordinator.core.controller.decisions import Decision, Realised, hypothetical
from coordinator.core.controller.fleet import Fleet, see
from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import fleet_figures

AFTER_MIN_S: Final = 60.0
"""A window of the budget: what a decision led to is then not only its own handoffs."""

AFTER_MAX_S: Final = 900.0
"""Later passes have changed more by then than one decision did."""


def measure_effects(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> None:
    """Measure those decisions for which it is time."""
    quarter_s = namespace.info.policy.balancer.smoothing_horizon_s / 4
    after_s = min(max(AFTER_MIN_S, quarter_s), AFTER_MAX_S)
    due = [
        one
        for one in mind.decisions.pending()
        if now - one.at >= after_s and (one.is_dry or not _is_under_way(namespace, one))
    ]
    if not due:
        return
    fleet = see(namespace, mind, now)
    for one in due:
        mind.decisions.realise(one.id, _realised(namespace, mind, fleet, one, at_ms))


def _is_under_way(namespace: NamespaceState, decision: Decision) -> bool:
    return any(move.key in namespace.in_flight for move in decision.plan.moves)


def _realised(
    namespace: NamespaceState, mind: Mind, fleet: Fleet, decision: Decision, at_ms: int
) -> Realised:
    rooms = {seat.executor: seat.capacity for seat in fleet.seats}
    weights = {
        move.key: mind.load_of(namespace.shards[move.key], fleet.median)
        for move in decision.plan.moves
        if move.key in namespace.shards
    }
    figures = fleet_figures(fleet.loads, rooms)
    if decision.is_dry:
        there = {
            move.key: weights[move.key]
            for move in decision.plan.moves
            if move.key in weights and namespace.shards[move.key].executor == move.source
        }
        figures = hypothetical(fleet.loads, rooms, decision.plan, there)
    return Realised(at_ms, figures, fsum(weights.values()))
