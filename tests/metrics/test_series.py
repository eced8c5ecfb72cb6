"""However many namespaces and executors users make, a node's series are bounded."""

from dataclasses import replace

from coordinator.core import commands as c
from coordinator.core.state import ClusterState
from coordinator.core.types import NamespaceKind, Policy
from coordinator.metrics import series
from coordinator.metrics.series import (
    EXECUTORS_MAX,
    NAMESPACES_MAX,
    listed_executors,
    listed_namespaces,
)
from tests.core.builders import AT_MS, applied, bootstrapped, fleet, join, space


def named(state: ClusterState, *names: str) -> None:
    for name in names:
        applied(
            state,
            c.CreateNamespace(
                namespace=name,
                kind=NamespaceKind.OPEN,
                shard_count=0,
                policy=Policy(),
                at_ms=AT_MS,
            ),
        )


def test_namespaces_made_later_take_nobodys_series_away_whatever_their_names() -> None:
    state = bootstrapped()
    first = [f"n{number:03}" for number in range(NAMESPACES_MAX)]
    named(state, *first)
    assert listed_namespaces(state.namespaces) == first
    named(state, "a-newcomer", "zz-another")
    assert listed_namespaces(state.namespaces) == first


def test_executors_beyond_the_room_left_are_those_that_joined_last() -> None:
    state = fleet(executors=0)
    for number, name in enumerate(("e3", "e1", "e2")):
        applied(state, replace(join(name), at_ms=AT_MS + number))
    assert listed_executors(space(state), 3) == ["e1", "e2", "e3"]
    assert listed_executors(space(state), 2) == ["e1", "e3"]
    assert listed_executors(space(state), 0) == []
    assert listed_executors(space(state), -1) == []


def test_the_bounds_are_what_their_reasons_say() -> None:
    per_namespace, per_executor = 80, 4
    assert NAMESPACES_MAX * per_namespace <= 8_000
    assert EXECUTORS_MAX * per_executor <= 4_000
    assert series.__doc__
