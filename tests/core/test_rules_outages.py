"""The alarm of a mass failure as state: raised, proceeded with, over, each once."""

from dataclasses import replace

from coordinator.core import commands as c
from coordinator.core.events import EventKind, position_at
from coordinator.core.state import ClusterState
from coordinator.core.types import Incarnation, MassFailure
from tests.core.builders import AT_MS, NS, applied, fleet, join, refused, space

RAISE = c.RaiseMassFailure(namespace=NS, silent=3, total=4, executors=("e1", "e2"), at_ms=AT_MS)
END = c.EndMassFailure(namespace=NS, at_ms=AT_MS + 2)


def proceed(*executors: str, number: int = 1) -> c.ProceedMassFailure:
    return c.ProceedMassFailure(
        namespace=NS,
        given_up=tuple(Incarnation(name, f"{name}-{number}") for name in executors),
        reason="rack 4",
        by="ops",
        at_ms=AT_MS + 1,
    )


def alarm(state: ClusterState) -> MassFailure | None:
    return space(state).info.mass_failure


def given_up(state: ClusterState) -> list[str]:
    return [record.id for record in space(state).executors.values() if record.given_up]


def kinds(state: ClusterState, since: int) -> list[EventKind]:
    return [event.kind for event in space(state).events.after(position_at(since))]


def test_an_alarm_is_raised_once_and_says_how_many_and_who() -> None:
    state = fleet(4, 4)
    assert applied(state, RAISE).created
    assert alarm(state) == MassFailure(since_ms=AT_MS, silent=3, total=4, executors=("e1", "e2"))
    at = space(state).revision
    later = replace(RAISE, silent=4, at_ms=AT_MS + 9)
    assert applied(state, later) == c.Applied(resource=NS)
    assert space(state).revision == at
    (event,) = (e for e in space(state).events if e.kind is EventKind.MASS_FAILURE_RAISED)
    assert event.detail == "3 of 4 executors are silent"


def test_proceeding_gives_up_the_named_incarnations_only() -> None:
    state = fleet(4, 4)
    applied(state, RAISE)
    applied(state, join("e2", "e2-2"))
    assert applied(state, proceed("e1", "e2", "e9")).count == 1
    assert given_up(state) == ["e1"]
    now = alarm(state)
    assert now is not None
    assert (now.is_holding, now.by, now.reason, now.proceeded_ms) == (
        False,
        "ops",
        "rack 4",
        AT_MS + 1,
    )
    at = space(state).revision
    assert applied(state, proceed("e1")) == c.Applied(resource=NS)
    assert space(state).revision == at
    assert applied(state, proceed("e3")).count == 1
    assert given_up(state) == ["e1", "e3"]


def test_proceeding_when_nobody_is_silent_any_more_still_ends_the_holding() -> None:
    state = fleet(4, 4)
    applied(state, RAISE)
    assert applied(state, proceed()).count == 0
    now = alarm(state)
    assert now is not None
    assert not now.is_holding


def test_without_an_alarm_there_is_nothing_to_proceed_with_and_nothing_to_end() -> None:
    state = fleet(4, 4)
    before = state.image()
    for command in (proceed("e1"), END):
        assert applied(state, command) == c.Applied(resource=NS)
    assert state.image() == before


def test_an_alarm_proceeded_with_is_raised_anew_and_who_was_given_up_stays_so() -> None:
    state = fleet(4, 4)
    applied(state, RAISE)
    applied(state, proceed("e1"))
    at = space(state).revision
    assert applied(state, replace(RAISE, at_ms=AT_MS + 5)).created
    now = alarm(state)
    assert now is not None
    assert now.is_holding
    assert now.since_ms == AT_MS + 5
    assert given_up(state) == ["e1"]
    assert kinds(state, at) == [EventKind.MASS_FAILURE_RAISED]


def test_the_end_of_an_alarm_counts_on_everybody_again() -> None:
    state = fleet(4, 4)
    applied(state, RAISE)
    applied(state, proceed("e1"))
    at = space(state).revision
    applied(state, END)
    assert alarm(state) is None
    assert given_up(state) == []
    assert kinds(state, at) == [EventKind.MASS_FAILURE_OVER]


def test_a_restart_is_not_given_up() -> None:
    state = fleet(4, 4)
    applied(state, RAISE)
    applied(state, proceed("e1"))
    applied(state, join("e1", "e1-2"))
    assert given_up(state) == []


def test_an_alarm_of_an_unknown_namespace_is_refused() -> None:
    state = fleet(1, 1)
    outcome = refused(state, replace(RAISE, namespace="other"))
    assert outcome.reason is c.Reason.NAMESPACE_NOT_FOUND
