"""After total loss: who lives on keeps its shards, and nobody is placed before that is known."""

import random
from dataclasses import replace

import pytest

from coordinator.core import commands as c
from coordinator.core.claims import Standing
from coordinator.core.commands import Reason
from coordinator.core.controller import Beat, Controller, Mind, Need
from coordinator.core.controller import claim_book as claim_book_module
from coordinator.core.controller.claim_book import (
    CLAIM_BYTES_MAX,
    chunks,
    highest_claim,
    not_won,
)
from coordinator.core.controller.facts import balance_facts
from coordinator.core.controller.window import window_ends_at
from coordinator.core.names import key_fault
from coordinator.core.state import ClusterState
from coordinator.core.types import (
    BalancerMode,
    Claim,
    NamespaceKind,
    Policy,
)
from tests.core.builders import (
    AT_MS,
    EPOCH_BASE,
    applied,
    claim,
    close_window,
    cordon,
    empty,
    epoch,
    evict,
    fleet,
    join,
    leaving,
    move,
    owners,
    profile,
    set_policy,
    space,
)
from tests.core.controller_world import EPOCHS_OF_A_LIFE, Held, World, quick, settled

LEASE_S = Policy().lease_ttl_s
WINDOW_S = LEASE_S * 1.01
OFF = quick(mode=BalancerMode.OFF)
NOW = 1000.0


# -- a fleet and a cluster that forgot it --------------------------------------------------------


def running(executors: int = 4, shards: int = 16, **options: object) -> World:
    world = World(executors, shards, policy=OFF, **options)  # type: ignore[arg-type]
    world.run_until(World.is_settled, 20)
    return world.run(3)


def is_recovered(world: World) -> bool:
    return world.space.info.window is None and world.is_settled()


@pytest.mark.parametrize("kind", list(NamespaceKind))
def test_a_fleet_that_never_lost_its_lease_goes_on_without_a_stop(kind: NamespaceKind) -> None:
    world = running(kind=kind)
    before, epochs = world.owners, {key: one.epoch for key, one in world.space.shards.items()}
    world.lose_cluster(back_after_s=2)
    for _ in range(round(WINDOW_S * 2 / 0.1)):
        world.tick()
        assert all(world.runs(key) == [owner] for key, owner in before.items())
    assert world.owners == before
    assert all(one.epoch > epochs[key] for key, one in world.space.shards.items())
    assert {m.number for m in world.members.values()} == {1}


@pytest.mark.parametrize("kind", list(NamespaceKind))
def test_a_fleet_that_lost_its_lease_gets_back_what_it_held(kind: NamespaceKind) -> None:
    world = running(kind=kind)
    before = world.owners
    world.lose_cluster(back_after_s=3 * LEASE_S)
    assert not any(world.runs(key) for key in before)
    took_s = world.run_until(is_recovered, 20)
    assert took_s == pytest.approx(WINDOW_S, abs=0.5)
    assert world.owners == before
    assert world.moved(world.now - took_s + WINDOW_S / 2) == sorted(before)
    assert {m.number for m in world.members.values()} == {1}


def test_what_the_dead_and_the_cut_off_held_waits_for_the_last_of_their_leases() -> None:
    world = running()
    before = world.owners
    world.members["e1"].is_cut_off = True
    world.members["e2"].is_alive = False
    world.lose_cluster(back_after_s=1)
    world.run(WINDOW_S - 0.5)
    assert {owner for owner in world.owners.values() if owner} == {"e3", "e4"}
    assert not any("e1" in world.runs(key) for key in before)
    world.run_until(is_recovered, 10)
    kept = {key: owner for key, owner in before.items() if owner in {"e3", "e4"}}
    assert {key: world.owners[key] for key in kept} == kept


def test_one_that_comes_back_late_finds_its_shards_given_away_and_starts_anew() -> None:
    world = running()
    world.members["e1"].is_cut_off = True
    world.lose_cluster(back_after_s=1)
    world.run_until(World.is_settled, 30)
    world.members["e1"].is_cut_off = False
    world.run(5)
    assert (world.members["e1"].number, world.members["e1"].last_word) == (2, "expired")


def test_one_that_leaves_takes_its_shards_with_it_and_hands_them_over() -> None:
    world = running()
    before = [key for key, owner in world.owners.items() if owner == "e1"]
    world.members["e1"].say_leaving()
    world.members["e1"].hangs_on = set(before[:1])
    world.lose_cluster()
    world.run(WINDOW_S - 0.5)
    assert [key for key, owner in world.owners.items() if owner == "e1"] == before
    world.run(2)
    assert [key for key, owner in world.owners.items() if owner == "e1"] == before[:1]


def test_a_new_leader_starts_the_wait_again_and_is_told_again_what_was_last_held() -> None:
    world = running()
    before = world.owners
    world.lose_cluster(back_after_s=3 * LEASE_S)
    world.run(WINDOW_S - 1)
    world.lose_leader()
    world.run(1)
    world.elect()
    world.run(WINDOW_S - 0.5)
    assert not any(world.owners.values())
    world.run_until(World.is_settled, 3)
    assert world.owners == before


def test_time_in_which_the_leader_stood_still_does_not_count() -> None:
    world = running()
    world.lose_cluster()
    world.run(WINDOW_S - 1)
    assert world.controller is not None
    world.controller.stood_still(3)
    world.wake_at = world.now
    world.run(3)
    assert world.space.info.window is not None
    world.run(1.5)
    assert world.space.info.window is None


def test_outcomes_that_stay_unknown_do_not_cost_a_shard() -> None:
    world = running()
    before = world.owners
    world.trouble = random.Random(1)
    world.lose_cluster(back_after_s=3 * LEASE_S)
    world.run_until(is_recovered, 30)
    assert world.owners == before


def test_a_recovered_fleet_is_not_levelled_by_what_is_just_heard() -> None:
    loads = {str(number): 1.0 + 9.0 * (number < 4) for number in range(16)}
    world = World(4, 16, policy=quick(mode=BalancerMode.OFF), load=lambda key: loads[key])
    world.run_until(World.is_settled, 20)
    applied(world.state, set_policy(quick(mode=BalancerMode.ON)))
    before = world.owners
    world.lose_cluster()
    world.run(WINDOW_S + LEASE_S)
    assert world.space.info.window is None
    assert world.owners == before
    assert not world.sent(c.StartHandoffs)


def test_a_first_boot_pays_one_lease_and_its_initial_hold_in_the_same_time() -> None:
    world = World(2, 4, policy=replace(OFF, initial_hold_s=5.0), is_recovering=True)
    took_s = world.run_until(World.is_settled, 20)
    assert took_s == pytest.approx(WINDOW_S, abs=0.5)
    assert world.busiest < 6


# -- what a heartbeat is worth in a window -------------------------------------------------------


def beat(executor: str = "e1", **changes: object) -> Beat:
    first = Beat(
        executor=executor,
        incarnation=f"{executor}-1",
        sequence=1,
        joining=False,
        profile=profile(executor),
        shards={},
        received_at=NOW,
        at_ms=AT_MS,
    )
    return replace(first, **changes)  # type: ignore[arg-type]


def holding(**epochs: int) -> dict[str, Held]:
    return {key.removeprefix("s"): Held(epoch, None) for key, epoch in epochs.items()}


def recovering(shards: int = 3, *, kind: NamespaceKind = NamespaceKind.FIXED) -> ClusterState:
    state = empty(shards, kind=kind, is_recovering=True)
    applied(state, join("e1"))
    applied(state, join("e2"))
    return state


def begun(state: ClusterState) -> Mind:
    return Mind.begin(space(state), NOW)


def owed(state: ClusterState, mind: Mind, one: Beat) -> list[str]:
    return [claim.key for claim in mind.claims.owed(space(state), one)]


def adopt(state: ClusterState, mind: Mind, one: Beat) -> c.Applied:
    """As the leader does before it answers."""
    claims = tuple(mind.claims.owed(space(state), one))
    command = replace(claim(one.executor, incarnation=one.incarnation), claims=claims)
    outcome = applied(state, command)
    mind.learn_claims(space(state), command, outcome, NOW)
    return outcome


def test_an_unknown_incarnation_comes_in_by_its_claim_and_only_by_that() -> None:
    state = recovering()
    mind = begun(state)
    assert mind.judge(space(state), beat("e9", shards=holding(s0=7))) is Need.JOIN
    assert mind.judge(space(state), beat("e9")) is Need.JOIN
    silent = mind.judge(space(state), beat("e9", shards=None))
    assert isinstance(silent, c.Refused)
    assert silent.cause == "expired"
    close_window(state)
    late = mind.judge(space(state), beat("e9", shards=holding(s0=7)))
    assert isinstance(late, c.Refused)
    assert late.cause == "expired"


def test_a_longer_lease_from_before_is_committed_before_the_heartbeat_is_answered() -> None:
    state = recovering()
    mind = begun(state)
    waits_s = window_s(state)
    assert mind.judge(space(state), beat(lease_s=waits_s)) is None
    assert mind.judge(space(state), beat(joining=True, lease_s=60.0)) is None  # never had one
    one = beat(shards={}, lease_s=60.0)
    assert mind.judge(space(state), one) is Need.CLAIM
    applied(state, replace(claim("e1"), lease_s=60.0))
    assert window_s(state) == 60.0
    assert mind.judge(space(state), one) is None
    applied(state, replace(claim("e2"), lease_s=30.0))
    assert window_s(state) == 60.0
    assert window_ends_at(space(state), mind, NOW) == pytest.approx(NOW + 60.6)
    close_window(state)
    assert mind.judge(space(state), replace(one, lease_s=90.0)) is None


def window_s(state: ClusterState) -> float:
    window = space(state).info.window
    assert window is not None
    return window.lease_s


def test_what_a_join_claims_is_the_highest_epoch_it_brings() -> None:
    assert highest_claim(beat(joining=True, shards=holding(s0=7))) is None
    assert highest_claim(beat(shards=None)) == 0
    assert highest_claim(beat(shards=holding(s0=7, s1=9), last_held={"2": 8})) == 9
    assert highest_claim(beat(shards={}, last_held={"2": 8})) == 8


def test_a_heartbeat_is_not_acknowledged_before_what_it_holds_is_adopted() -> None:
    state = recovering()
    mind = begun(state)
    one = beat(shards=holding(s0=7, s1=8))
    assert mind.judge(space(state), one) is Need.CLAIM
    assert adopt(state, mind, one).count == 2
    assert mind.judge(space(state), one) is None
    assert mind.claims.totals[Standing.ADOPTED] == 2


def test_what_comes_to_nothing_is_told_once() -> None:
    state = recovering()
    mind = begun(state)
    adopt(state, mind, beat("e2", shards=holding(s0=9)))
    one = beat(shards=holding(s0=7, nowhere=7))
    assert owed(state, mind, one) == ["0", "nowhere"]
    assert adopt(state, mind, one).count == 0
    assert mind.judge(space(state), one) is None
    assert (mind.claims.totals[Standing.LOST], mind.claims.totals[Standing.REFUSED]) == (1, 1)


def test_what_was_not_won_is_not_renewed_as_long_as_no_set_can_say_so() -> None:
    state = recovering()
    mind = begun(state)
    adopt(state, mind, beat("e2", shards=holding(s0=9)))
    one = beat(shards=holding(s0=7, s1=7, nowhere=7))
    adopt(state, mind, one)
    assert not_won(space(state), one) == ["0", "nowhere"]
    assert not_won(space(state), beat("e2", shards=holding(s0=9))) == []
    close_window(state)
    assert not_won(space(state), one) == []


def test_no_more_vain_claims_are_told_than_anybody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_book_module, "TOLD_MAX", 1)
    state = recovering()
    mind = begun(state)
    one = beat(shards=holding(nowhere=7, elsewhere=7))
    adopt(state, mind, one)
    assert mind.judge(space(state), one) is None


def test_claims_beyond_the_room_of_an_open_namespace_do_not_hold_up_the_rest() -> None:
    state = recovering(0, kind=NamespaceKind.OPEN)
    applied(state, set_policy(Policy(max_shards=1)))
    mind = begun(state)
    one = beat(shards=holding(a=7, b=7))
    assert adopt(state, mind, one).count == 1
    assert mind.judge(space(state), one) is None
    assert list(space(state).shards) == ["a"]


def test_an_epoch_that_no_cluster_can_have_given_is_not_acknowledged() -> None:
    state = recovering()
    mind = begun(state)
    verdict = mind.judge(space(state), beat(shards=holding(s0=2**52)))
    assert isinstance(verdict, c.Refused)
    assert verdict.reason is Reason.INVALID
    close_window(state)
    assert mind.judge(space(state), beat(shards=holding(s0=2**52))) is None


def test_a_successor_that_waits_claims_nothing_and_is_answered() -> None:
    state = recovering()
    mind = begun(state)
    adopt(state, mind, beat(shards=holding(s0=7)))
    applied(state, join("e1", "e1-2"))
    assert mind.judge(space(state), beat(incarnation="e1-2", shards=holding(s0=7))) is None


# -- what was last held --------------------------------------------------------------------------


def last_held(state: ClusterState, mind: Mind, executor: str, **epochs: int) -> None:
    keys = {key.removeprefix("s"): epoch for key, epoch in epochs.items()}
    assert mind.hear(space(state), beat(executor, last_held=keys))


def test_the_highest_epoch_of_what_was_last_held_counts() -> None:
    state = recovering()
    mind = begun(state)
    last_held(state, mind, "e1", s0=7, s1=9)
    last_held(state, mind, "e2", s0=8, s1=8, s2=2**52)
    waiting = mind.claims.waiting(space(state))
    assert waiting == {"e1": [Claim("1", 9)], "e2": [Claim("0", 8)]}


def test_what_cannot_be_given_back_is_passed_over() -> None:
    state = recovering()
    mind = begun(state)
    last_held(state, mind, "e1", s0=7, s1=7)
    last_held(state, mind, "e2", s2=7)
    adopt(state, mind, beat("e2", shards=holding(s0=8)))
    applied(state, leaving("e2"))
    assert mind.claims.waiting(space(state)) == {"e1": [Claim("1", 7)]}
    applied(state, evict("e1"))
    assert mind.claims.waiting(space(state)) == {}


def test_what_can_come_to_nothing_is_not_even_remembered() -> None:
    state = recovering()
    mind = begun(state)
    adopt(state, mind, beat("e2", shards=holding(s0=8)))
    last_held(state, mind, "e1", s0=7, nowhere=7)
    assert mind.claims.last_held == {}


def test_what_was_last_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_book_module, "SHARDS_MAX", 1)
    state = recovering()
    mind = begun(state)
    last_held(state, mind, "e1", s0=7, s1=7)
    assert list(mind.claims.last_held) == ["0"]


def test_the_window_closes_after_what_was_last_held_is_back() -> None:
    state = recovering()
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    for name in ("e1", "e2"):
        assert mind.hear(space(state), beat(name, received_at=NOW + 5, last_held={"0": 7}))
    assert controller.step(state, NOW + WINDOW_S - 0.1, AT_MS).commands == ()
    end = NOW + WINDOW_S + 0.01
    (back,) = controller.step(state, end, AT_MS).commands
    assert isinstance(back, c.AdoptClaims)
    controller.learn(back, None, state, end)
    assert controller.step(state, end, AT_MS).commands == (back,)
    controller.learn(back, state.apply(back), state, end)
    (last,) = controller.step(state, end, AT_MS).commands
    assert isinstance(last, c.CloseWindow)
    controller.learn(last, state.apply(last), state, end)
    assert owners(state)["0"] == "e1"
    assert window_ends_at(space(state), mind, end) is None
    assert mind.claims.last_held == {}
    assert mind.next_pass_at > end + LEASE_S


def test_a_window_that_is_opened_again_is_waited_for_from_then_on() -> None:
    state = fleet(1, 1)
    mind = begun(state)
    assert window_ends_at(space(state), mind, NOW) is None
    twin = empty(1, is_recovering=True)
    assert window_ends_at(space(twin), mind, NOW + 50) == pytest.approx(NOW + 50 + WINDOW_S)
    mind.claims.add_pause(2)
    assert window_ends_at(space(twin), mind, NOW + 60) == pytest.approx(NOW + 52 + WINDOW_S)
    mind.claims.close()
    mind.claims.add_pause(2)
    mind.claims.close()


def test_what_is_asked_of_the_balance_in_a_window_says_so() -> None:
    state = recovering()
    assert balance_facts(space(state), begun(state), NOW, AT_MS).skipped == "recovering"


# -- sizes ---------------------------------------------------------------------------------------


def test_a_large_report_takes_commands_of_bounded_size() -> None:
    claims = [Claim(f"shard-{number:06}", 7) for number in range(5_000)]
    made = list(chunks(claims))
    assert [one for chunk in made for one in chunk] == claims
    assert len(made) == 10
    assert max(sum(4 * len(one.key) + 16 for one in chunk) for chunk in made) <= CLAIM_BYTES_MAX
    assert list(chunks([])) == []


def test_a_key_says_what_is_wrong_with_it() -> None:
    assert key_fault("\ud800") == "is not UTF-8"
    assert key_fault("é") == ""


def test_the_epoch_of_a_claim_is_adopted_for_who_is_on_record_only() -> None:
    state = recovering()
    mind = begun(state)
    assert owed(state, mind, beat("e9", shards=holding(s0=7))) == []
    adopt(state, mind, beat(shards=holding(s0=7)))
    assert epoch(state) > 7


@pytest.mark.parametrize("order", [None, cordon("e1")])
def test_what_a_survivor_gives_to_who_released_it_to_lost_members_runs_again(
    order: c.Command | None,
) -> None:
    world = settled(World(2, 6, policy=OFF))
    kept = ClusterState.from_image(world.state.image())
    key = next(iter(world.space.owned("e1")))
    world.order(move(key, "e2"))
    world.run_until(lambda w: w.runs(key) == ["e2"], 5)
    world.members["e2"].die(world.now)
    # The only member that is left knew nothing of the move.
    world.state, world._owners = kept, {}
    base = EPOCH_BASE + EPOCHS_OF_A_LIFE
    world.order(c.ForceNewCluster(cluster_id="c2", former_id="cluster", epoch_base=base, at_ms=0))
    if order is not None:
        world.order(order)
    world.elect()
    world.run(1.5 * LEASE_S)
    assert world.runs(key) == ["e1"]
    assert world.space.shards[key].epoch >= base
    others = [one for one in world.space.owned("e1") if one != key]
    assert all(world.runs(one) == ["e1"] for one in others)
