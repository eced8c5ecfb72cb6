"""Who owned a shard when: exact where it is known, and honest where it is not."""

import pytest

from coordinator.codec import decode_snapshot, encode_snapshot
from coordinator.core import commands as c
from coordinator.core import tenures
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.tenures import Owned, Tenure, TenureRing
from coordinator.core.types import CloseCause, Placement
from tests.core.builders import (
    AT_MS,
    NS,
    applied,
    close,
    declare,
    empty,
    epoch,
    fleet,
    inherit,
    join,
    release,
    retire,
    shard,
    space,
    start,
)


def at(state: ClusterState, moment_ms: int, key: str = "0") -> Owned:
    namespace = space(state)
    return namespace.tenures.owner_at(shard(state, key), namespace.info, moment_ms)


def give(state: ClusterState, key: str, executor: str, at_ms: int) -> int:
    applied(
        state,
        c.AssignShards(
            namespace=NS,
            placements=(Placement(key, executor),),
            cause=Cause.PLACED,
            at_ms=at_ms,
        ),
    )
    return epoch(state, key)


def lose(state: ClusterState, executor: str, at_ms: int) -> None:
    applied(
        state,
        c.CloseIncarnation(
            namespace=NS,
            executor=executor,
            incarnation=f"{executor}-1",
            cause=CloseCause.EXPIRED,
            placements=(),
            at_ms=at_ms,
        ),
    )


def test_each_time_has_the_owner_of_then_with_epoch_and_bounds() -> None:
    state = fleet(2, 1, are_placed=False)
    first = give(state, "0", "e1", AT_MS + 10)
    lose(state, "e1", AT_MS + 20)
    second = give(state, "0", "e2", AT_MS + 30)
    for moment, owner, number, since, until in (
        (0, None, 0, 0, 10),
        (9, None, 0, 0, 10),
        (10, "e1", first, 10, 20),
        (19, "e1", first, 10, 20),
        (20, None, 0, 20, 30),
        (30, "e2", second, 30, None),
        (9_999, "e2", second, 30, None),
    ):
        assert at(state, AT_MS + moment) == Owned(
            is_known=True,
            executor=owner,
            epoch=number,
            since_ms=AT_MS + since,
            until_ms=None if until is None else AT_MS + until,
            known_from_ms=AT_MS,
        )


def test_before_the_namespace_nothing_is_known() -> None:
    state = fleet(1, 1)
    assert at(state, AT_MS - 1) == Owned(is_known=False, known_from_ms=AT_MS)


def test_a_handoff_changes_owners_when_it_is_acknowledged_and_a_restart_the_epoch() -> None:
    state = fleet(2, 2)
    before = len(space(state).tenures)
    start(state, "0", "e2")
    assert len(space(state).tenures) == before
    release(state)
    assert len(space(state).tenures) == before + 1
    applied(state, join("e2", "e2-2"))
    applied(state, inherit("e2"))
    kept = [one for one in space(state).tenures.kept() if one.key == "0"]
    assert [one.executor for one in kept] == ["e1", "e2", "e2"]
    assert kept[-1].epoch == epoch(state) > kept[-2].epoch


def test_a_shard_that_was_retired_had_nobody_until_it_was_declared_and_placed_again() -> None:
    state = empty()
    applied(state, join("e1"))
    applied(state, declare("a"))
    first = give(state, "a", "e1", AT_MS)
    applied(state, retire("a"))
    release(state, "a")
    applied(state, declare("a"))
    second = give(state, "a", "e1", AT_MS + 1)
    assert [one[1:3] for one in space(state).tenures.kept()] == [
        ("e1", first),
        (None, 0),
        ("e1", second),
    ]


def test_what_fell_out_is_said_not_to_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenures, "TENURES_MAX", 2)
    state = fleet(2, 3, are_placed=False)
    for number, moment in enumerate((10, 20, 30)):
        give(state, str(number), "e1", AT_MS + moment)
    assert len(space(state).tenures) == 2
    assert space(state).tenures.forgotten_ms == AT_MS + 10
    # Of an owner that still is the record itself tells since when.
    still = at(state, AT_MS + 10)
    assert (still.executor, still.since_ms) == ("e1", AT_MS + 10)
    assert at(state, AT_MS + 9) == Owned(is_known=False, known_from_ms=AT_MS + 10)
    # Of a shard whose change is kept nothing is known of before it.
    assert at(state, AT_MS + 19, "1") == Owned(is_known=False, known_from_ms=AT_MS + 20)


def test_a_shard_without_owner_has_had_none_since_the_ring_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenures, "TENURES_MAX", 1)
    state = fleet(2, 3, are_placed=False)
    for number in (0, 1):
        give(state, str(number), "e1", AT_MS + 10 + number)
    nobody = at(state, AT_MS + 10, "2")
    assert (nobody.is_known, nobody.executor, nobody.since_ms) == (True, None, AT_MS + 10)
    assert at(state, AT_MS + 9, "2") == Owned(is_known=False, known_from_ms=AT_MS + 10)


def test_the_ring_is_bounded() -> None:
    ring = TenureRing()
    ring.load(Tenure(f"k{n}", "e", n, n) for n in range(tenures.TENURES_MAX + 5))
    assert len(ring) == tenures.TENURES_MAX
    assert ring.forgotten_ms == 4


def test_a_snapshot_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenures, "TENURES_MAX", 3)
    state = fleet(2, 6)
    applied(state, close("e1"))
    restored = decode_snapshot(encode_snapshot(state.image()))
    assert restored.image() == state.image()
    assert space(restored).tenures.kept() == space(state).tenures.kept()
    assert space(restored).tenures.forgotten_ms is not None
    assert shard(restored) == shard(state)
