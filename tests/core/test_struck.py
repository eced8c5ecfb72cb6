"""What is counted of struck shards is what looking at all of them would find."""

import sys
from collections import Counter
from types import FrameType

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core import commands as c
from coordinator.core.controller import Controller
from coordinator.core.shard import Cause, Fate, Shard, ShardState
from coordinator.core.strikes import Strike, StrikeKind
from coordinator.core.struck import AGAIN, Struck, crashes_of
from coordinator.core.types import CloseCause, NamespaceKind, Placement
from tests.core.builders import NS, applied, empty, join, space

strikes = st.lists(
    st.builds(
        Strike,
        kind=st.sampled_from(StrikeKind),
        executor=st.sampled_from(["a", "b"]),
        at_ms=st.integers(0, 2),
    ),
    max_size=4,
).map(tuple)
records = st.builds(
    Shard,
    key=st.sampled_from(["s", "t", "u", "v"]),
    state=st.sampled_from([ShardState.VACANT, ShardState.OWNED]),
    executor=st.sampled_from([None, "a", "b"]),
    reserved=st.sampled_from([None, "a"]),
    fate=st.sampled_from([None, Fate.PARKED, Fate.RETIRED]),
    cause=st.sampled_from([Cause.PLACED, Cause.FAILED]),
    strikes=strikes,
)


def brute(there: list[Shard]) -> dict[str, object]:
    struck = [shard for shard in there if shard.strikes]
    waiting = [s for s in struck if s.state is ShardState.VACANT and s.reserved is None]
    runs = [shard for shard in struck if shard.fate is None]
    told = {
        (one.executor, one.at_ms)
        for shard in struck
        for one in shard.strikes
        if one.kind is StrikeKind.CRASH
    }
    return {
        "keys": {shard.key for shard in struck},
        "owned": {s.key for s in struck if s.executor == "a"},
        "met": {n: {s.key for s in struck if crashes_of(s) == n} for n in (AGAIN, 3, 4)},
        "at_least": [sum(crashes_of(s) >= n for s in runs) for n in range(5)],
        "suspected": [
            sum(max(crashes_of(s), len(s.strikes) - crashes_of(s)) >= n for s in runs)
            for n in range(5)
        ],
        "waiting": len(waiting),
        "most_waiting": max(map(crashes_of, waiting), default=0),
        "crashes": len(told),
        "by_executor": Counter(executor for executor, _ in told),
        "failed": {s.key for s in waiting if s.cause is Cause.FAILED},
        "parked": sum(shard.fate is Fate.PARKED for shard in struck),
    }


def counted(struck: Struck) -> dict[str, object]:
    return {
        "keys": set(struck),
        "owned": set(struck.owned("a")),
        "met": {n: set(struck.met(n)) for n in (AGAIN, 3, 4)},
        "at_least": [struck.at_least(n) for n in range(5)],
        "suspected": [struck.suspected(n) for n in range(5)],
        "waiting": struck.waiting,
        "most_waiting": struck.most_waiting,
        "crashes": struck.crashes,
        "by_executor": struck.crashes_by_executor(),
        "failed": set(struck.failed),
        "parked": struck.parked,
    }


@given(st.lists(records, max_size=30))
def test_counts_follow_every_change(changes: list[Shard]) -> None:
    struck, there = Struck(), dict[str, Shard]()
    for record in changes:
        if record.key in there:
            struck.remove(there[record.key])
        there[record.key] = record
        struck.add(record)
        assert counted(struck) == brute(list(there.values()))
    assert len(struck) == sum(bool(shard.strikes) for shard in there.values())
    assert all(("s" in struck) == bool(there["s"].strikes) for _ in there if "s" in there)
    fresh = Struck()
    for record in there.values():
        fresh.add(record)
    assert fresh == struck
    for record in there.values():
        struck.remove(record)
    assert struck == Struck()
    assert not any(struck.tables())
    assert struck != there


def steps_after_a_loss(shards: int) -> int:
    """Python calls in the longest step of a leader while shards that met one crash are placed."""
    state = empty(kind=NamespaceKind.OPEN)
    for name in ("e1", "e2", "e3"):
        applied(state, join(name))
    for first in range(0, shards, 1_000):
        keys = tuple(f"{number}" for number in range(first, first + 1_000))
        applied(state, c.DeclareShards(namespace=NS, keys=keys))
        # One keeps its owner, or the placements would wait for a quiet time.
        homes = tuple(Placement(key, "e2" if key == "0" else "e1") for key in keys)
        applied(state, c.AssignShards(namespace=NS, placements=homes, cause=Cause.PLACED, at_ms=0))
    close = c.CloseIncarnation(
        namespace=NS,
        executor="e1",
        incarnation="e1-1",
        cause=CloseCause.EXPIRED,
        placements=(),
        at_ms=0,
        is_crash=True,
    )
    applied(state, close)
    while "e1" in space(state).executors:
        applied(
            state,
            c.ContinueEnding(
                namespace=NS, executor="e1", incarnation="e1-1", placements=(), at_ms=0
            ),
        )
    assert len(space(state).struck) == len(space(state).vacant) == shards - 1
    controller, calls = Controller(state, 0.0), 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    most = 0
    for _ in range(3):
        calls = 0
        sys.setprofile(count)
        step = controller.step(state, 1.0, 0)
        sys.setprofile(None)
        most = max(most, calls)
        assert step.commands
        for command in step.commands:
            controller.learn(command, applied(state, command), state, 1.0)
    return most


def test_a_step_looks_at_as_many_shards_however_many_met_a_crash() -> None:
    """A leader of a million once stood still for longer than an election, at each of its steps."""
    assert steps_after_a_loss(9_000) < 1.2 * steps_after_a_loss(4_000)
