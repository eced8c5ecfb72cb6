"""How plans, decisions and fleets that are not there are told.

Decides nothing but that: which figures, and which words for them.
"""

from coordinator.api.call import timestamp
from coordinator.api.operators.balance import SHOWN_MAX, blocked_why, move_view
from coordinator.api.operators.outlook_records import (
    CapacityRow,
    DecisionView,
    FleetView,
    PassRow,
    PlanAnswer,
    RealisedView,
    RejectedMove,
    SeatView,
)
from coordinator.core.controller import words
from coordinator.core.controller.decisions import Decision, Inputs, PassEntry
from coordinator.core.planner import Aims, FleetFigures, Outlook, Plan, Rejection, Seat


def plan_answer(
    made: Plan,
    aims: Aims,
    passed_over: list[Rejection],
    executors: int,
    *,
    skipped: str = "",
) -> PlanAnswer:
    """A plan in figures and in words."""
    return PlanAnswer(
        start_gap=aims.start_gap,
        stop_gap=aims.stop_gap,
        budget=aims.budget,
        moves=len(made.moves),
        moved=[move_view(move) for move in made.moves[:SHOWN_MAX]],
        moved_load=made.moved_load,
        held_back=len(made.held_back),
        rejected=[_rejected(one) for one in passed_over],
        stopped=made.stop.value,
        stopped_why=words.STOPS[made.stop],
        blocked=None if made.blocked is None else made.blocked.reason.value,
        blocked_why=blocked_why(made),
        skipped=skipped or None,
        skipped_why=words.SKIPS.get(skipped),
        before=_fleet(made.before, executors),
        after=_fleet(made.after, executors),
        best_possible=made.bound.spread,
        best_possible_hottest=made.bound.max,
    )


def _rejected(one: Rejection) -> RejectedMove:
    return RejectedMove(
        key=one.key,
        source=one.source,
        target=one.target,
        load=one.load,
        rule=one.rule.value,
        why=words.why_not(one),
        worth=one.worth,
    )


def _fleet(figures: FleetFigures, executors: int) -> FleetView:
    return FleetView(
        executors=executors,
        hottest=figures.hottest_utilisation,
        hottest_executor=figures.hottest,
        mean=figures.mean,
        coldest=figures.coldest_utilisation,
        coldest_executor=figures.coldest,
        spread=figures.spread,
    )


def capacity_row(one: Outlook, mark: float | None) -> CapacityRow:
    """A number of executors and how they would do."""
    planned = one.plan.after.hottest_utilisation
    return CapacityRow(
        executors=one.executors,
        mean=one.plan.after.mean,
        best_possible=one.plan.bound.max,
        planned=planned,
        static_hash=one.hashed.modulo.hottest_utilisation,
        moves=one.owed + len(one.plan.moves),
        spread=one.plan.after.spread,
        is_enough=None if mark is None else planned <= mark,
    )


def pass_row(entry: PassEntry) -> PassRow:
    """A pass, or several that came to the same."""
    return PassRow(
        first_at=timestamp(entry.first_ms),
        last_at=timestamp(entry.last_ms),
        count=entry.count,
        outcome=entry.outcome,
        why=words.STOPS.get(entry.outcome) or words.SKIPS.get(entry.outcome, ""),
        moves=entry.moves,
        decision=entry.decision,
        blocked=entry.blocked or None,
    )


def decision_view(one: Decision) -> DecisionView:
    """A decision and what came of it."""
    before, after, realised = one.plan.before, one.plan.after, one.realised
    return DecisionView(
        id=one.id,
        at=timestamp(one.at_ms),
        dry_run=one.is_dry,
        moves=len(one.plan.moves) - len(one.left_out),
        moved_load=one.plan.moved_load,
        stopped=one.plan.stop.value,
        spread_before=before.spread,
        spread_predicted=after.spread,
        hottest_before=before.hottest_utilisation,
        hottest_predicted=after.hottest_utilisation,
        effect=one.effect.value,
        realised=None
        if realised is None
        else RealisedView(
            at=timestamp(realised.at_ms),
            spread=realised.figures.spread,
            hottest=realised.figures.hottest_utilisation,
            hottest_executor=realised.figures.hottest,
            moved_load=realised.moved_load,
        ),
        repeats=one.repeats,
    )


def seat_view(inputs: Inputs, seat: Seat) -> SeatView:
    """An executor as a plan saw it."""
    stack = inputs.holdings.stacks.get(seat.executor)
    return SeatView(
        executor=seat.executor,
        capacity=seat.capacity,
        load=0.0 if stack is None else stack.total,
        shards=0 if stack is None else len(stack.keys),
        may_receive=seat.is_open,
        may_be_relieved=seat.is_source,
        in_flight=seat.in_flight,
    )
