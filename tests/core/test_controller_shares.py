"""One step of the leader finds homes for so many shards and no more; the rest follows."""

from coordinator.core import commands as c
from coordinator.core.controller import Controller
from coordinator.core.controller.homes import PLANNED_MAX
from coordinator.core.routing import changes_after
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import Claim, NamespaceKind, Placement, Policy
from tests.core.builders import NS, applied, bootstrapped, close_window, join, space

EACH = 2_600
LEASE_S = 10.0
KEYS = [f"k{number}" for number in range(6 * EACH)]


def large(executors: int, *, placed: bool, first: int = 0) -> ClusterState:
    """Many shards, vacant or spread evenly behind what the first one has anyway."""
    state = bootstrapped()
    policy = Policy(lease_ttl_s=LEASE_S, mass_failure_ratio=1.0, initial_hold_s=0.0)
    applied(
        state,
        c.CreateNamespace(
            namespace=NS, kind=NamespaceKind.OPEN, shard_count=0, policy=policy, at_ms=0
        ),
    )
    close_window(state)
    names = [f"e{number}" for number in range(executors)]
    for name in names:
        applied(state, join(name))
    applied(state, c.DeclareShards(namespace=NS, keys=tuple(KEYS)))
    if placed:
        homes = tuple(
            Placement(key, names[0 if n < first else n % executors]) for n, key in enumerate(KEYS)
        )
        applied(state, c.AssignShards(namespace=NS, placements=homes, cause=Cause.PLACED, at_ms=0))
    return state


def carried_out(state: ClusterState, controller: Controller, now: float) -> list[c.Command]:
    """One step and its outcomes."""
    step = controller.step(state, now, 0)
    for command in step.commands:
        outcome = state.apply(command)
        assert isinstance(outcome, c.Applied), outcome
        controller.learn(command, outcome, state, now)
    return [*step.commands]


def test_of_many_that_are_lost_at_once_a_step_ends_as_many_as_it_may_and_none_is_forgotten() -> (
    None
):
    state = large(6, placed=True)
    controller = Controller(state, 0.0)
    carried_out(state, controller, 0.0)
    mind = controller.mind(space(state), 0.0)
    mind.leases.renew("e5", space(state).executors["e5"].incarnation, LEASE_S, 9.0)
    ended = 0
    passed_on: list[int] = []
    revision = space(state).revision
    while commands := carried_out(state, controller, 10.2):
        ended += sum(isinstance(one, c.CloseIncarnation) for one in commands)
        changed = changes_after(space(state), revision)
        passed_on.append(len(changed.owners) + len(changed.removed))
        revision = space(state).revision
    assert ended == 5
    assert max(passed_on) <= PLANNED_MAX
    assert not space(state).vacant
    assert [*space(state).executors] == ["e5"]
    assert len(space(state).owned("e5")) == len(KEYS)


def test_one_that_holds_more_than_a_step_may_place_is_ended_by_itself() -> None:
    state = large(2, placed=True, first=3 * PLANNED_MAX)
    assert len(space(state).owned("e0")) > 3 * PLANNED_MAX
    controller = Controller(state, 0.0)
    mind = controller.mind(space(state), 0.0)
    mind.leases.renew("e1", space(state).executors["e1"].incarnation, LEASE_S, 9.0)
    assert [type(one) for one in carried_out(state, controller, 10.2)] == [c.CloseIncarnation]
    assert [type(one) for one in carried_out(state, controller, 10.2)] == [c.ContinueEnding]
    while carried_out(state, controller, 10.2):
        pass
    assert len(space(state).owned("e1")) == len(KEYS)


def test_very_many_vacant_shards_are_placed_in_shares_that_level_the_fleet() -> None:
    state = large(4, placed=False)
    controller = Controller(state, 0.0)
    shares: list[int] = []
    while commands := carried_out(state, controller, 1.0):
        assert all(isinstance(one, c.AssignShards) for one in commands)
        shares.append(
            sum(len(one.placements) for one in commands if isinstance(one, c.AssignShards))
        )
    assert sum(shares) == len(KEYS)
    assert max(shares) == PLANNED_MAX
    assert {len(space(state).owned(e)) for e in space(state).executors} == {len(KEYS) // 4}


def given_and_failed(state: ClusterState, keys: list[str]) -> None:
    """The only executor was given these and could start none of them."""
    placements = tuple(Placement(key, "e0") for key in keys)
    applied(
        state,
        c.AssignShards(namespace=NS, placements=placements, cause=Cause.PLACED, at_ms=0),
    )
    applied(
        state,
        c.Acknowledge(
            namespace=NS,
            executor="e0",
            incarnation=space(state).executors["e0"].incarnation,
            released=(),
            prepared=(),
            failed=tuple(Claim(key, space(state).shards[key].epoch) for key in keys),
            at_ms=0,
        ),
    )


def test_a_share_of_which_none_can_be_placed_does_not_hold_up_the_next() -> None:
    state = large(1, placed=False)
    controller = Controller(state, 0.0)
    resting = [key for part in space(state).vacant.parts for key in sorted(part)][:PLANNED_MAX]
    given_and_failed(state, resting)
    carried_out(state, controller, 1.0)
    assert len(space(state).owned("e0")) == PLANNED_MAX
    assert not set(resting) & set(space(state).owned("e0"))


def test_where_none_can_be_placed_at_all_nothing_is_done_until_they_have_rested() -> None:
    state = large(1, placed=False)
    controller = Controller(state, 0.0)
    given_and_failed(state, KEYS)
    assert carried_out(state, controller, 1.0) == []
    assert len(space(state).vacant) == len(KEYS)
