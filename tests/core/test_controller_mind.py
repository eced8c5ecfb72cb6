"""What a leader remembers and answers by itself: heartbeats, loads, deadlines, facts, reasons."""

import gc
from dataclasses import replace
from itertools import pairwise

import pytest

from coordinator.core import commands as c
from coordinator.core.commands import Reason
from coordinator.core.controller import Beat, Controller, Need
from coordinator.core.controller.balance import STALE_AFTER_INTERVALS, why_skipped
from coordinator.core.controller.facts import balance_facts, executor_facts, facts_of, shard_facts
from coordinator.core.controller.failures import FailureBook
from coordinator.core.controller.fleet import see
from coordinator.core.controller.handoffs import CLAIMS_MAX
from coordinator.core.controller.homes import COMMAND_BYTES_MAX, PLANNED_MAX, fitting
from coordinator.core.controller.mind import HEARING_MAX_S, Mind
from coordinator.core.controller.picture import taking_picture
from coordinator.core.load import ProcessSignals
from coordinator.core.means import LET_GO_MAX
from coordinator.core.planner import Stop, finished
from coordinator.core.shard import Cause, Shard
from coordinator.core.state import ClusterState
from coordinator.core.types import (
    BalancerMode,
    CloseCause,
    HandoffStart,
    NamespaceKind,
    Placement,
    Policy,
)
from tests.core.builders import (
    NS,
    applied,
    assign,
    balancer,
    close,
    create,
    declare,
    drain,
    empty,
    epoch,
    evict,
    fleet,
    join,
    leaving,
    move,
    overdue,
    owners,
    park,
    pin,
    profile,
    release,
    retire,
    set_policy,
    shard,
    space,
    start,
)
from tests.core.controller_world import Held, World, quick, settled

NOW = 1000.0
AT_MS = 5_000


def begun(state: ClusterState) -> Mind:
    return Mind.begin(space(state), NOW)


def beat(executor: str = "e1", sequence: int = 1, **changes: object) -> Beat:
    first = Beat(
        executor=executor,
        incarnation=f"{executor}-1",
        sequence=sequence,
        joining=False,
        profile=profile(executor),
        shards=None,
        received_at=NOW,
        at_ms=AT_MS,
    )
    return replace(first, **changes)  # type: ignore[arg-type]


def forced(state: ClusterState) -> ClusterState:
    """As a survivor goes on: a claim window over the table that it had."""
    force = c.ForceNewCluster(cluster_id="c2", former_id="cluster", epoch_base=1 << 40, at_ms=AT_MS)
    applied(state, force)
    return state


def report(**loads: float | None) -> dict[str, Held]:
    return {key.removeprefix("s"): Held(1, load) for key, load in loads.items()}


# -- judging heartbeats ------------------------------------------------------------------------


def test_in_a_window_nobody_is_renewed_who_leaves_out_what_it_holds_before_it_said_it() -> None:
    state = forced(fleet(1, 1))
    mind = begun(state)
    unsaid = mind.judge(space(state), beat())
    assert isinstance(unsaid, c.Refused)
    assert unsaid.reason is Reason.RECOVERING
    said = beat(shards={"0": Held(epoch(state), None)})
    assert mind.judge(space(state), said) is None
    assert mind.hear(space(state), said)
    assert mind.judge(space(state), beat(sequence=2)) is None
    assert begun(fleet(1, 1)).judge(space(fleet(1, 1)), beat()) is None


def test_in_a_window_a_process_that_has_just_started_holds_nothing_without_saying_so() -> None:
    state = forced(fleet(1, 0))
    mind = begun(state)
    first = beat(joining=True)
    assert mind.judge(space(state), first) is None
    assert mind.hear(space(state), first)
    assert mind.judge(space(state), beat(sequence=2)) is None


def test_a_heartbeat_of_the_incarnation_on_record_may_be_acknowledged() -> None:
    state = fleet(1, 0)
    assert begun(state).judge(space(state), beat()) is None


def test_a_new_incarnation_joins_and_one_that_never_said_so_is_told_that_it_expired() -> None:
    state = fleet(1, 0)
    mind = begun(state)
    assert mind.judge(space(state), beat(incarnation="e1-2", joining=True)) is Need.JOIN
    assert mind.judge(space(state), beat("e9", joining=True)) is Need.JOIN
    unknown = mind.judge(space(state), beat("e9"))
    assert isinstance(unknown, c.Refused)
    assert (unknown.reason, unknown.cause) == (Reason.INCARNATION_CLOSED, "expired")


def test_news_of_itself_is_committed_before_the_heartbeat_is_acknowledged() -> None:
    state = fleet(1, 0)
    verdict = begun(state).judge(space(state), beat(profile=profile("e1", zone="b")))
    assert verdict is Need.UPDATE


def test_a_closed_incarnation_is_told_its_cause_even_if_only_its_record_remembers() -> None:
    state = fleet(2, 0)
    applied(state, evict("e1"))
    mind = begun(state)
    for closed in ({("e1", "e1-1"): CloseCause.EVICTED}, {}):
        space(state).closed = dict(closed)
        verdict = mind.judge(space(state), beat(joining=True))
        assert isinstance(verdict, c.Refused)
        assert verdict.cause == "evicted"


def test_while_an_incarnation_is_being_closed_its_heartbeats_wait_and_renew_nothing() -> None:
    state = fleet(1, 0)
    mind = begun(state)
    mind.leases.close("e1", "e1-1")
    assert mind.judge(space(state), beat()) is Need.WAIT
    assert not mind.hear(space(state), beat(received_at=NOW + 5))
    assert mind.leases.deadline("e1", "e1-1") == pytest.approx(NOW + 10.1)


def test_an_older_heartbeat_than_the_last_is_stale_and_the_same_again_is_not() -> None:
    state = fleet(1, 0)
    mind = begun(state)
    assert mind.hear(space(state), beat(sequence=5))
    stale = mind.judge(space(state), beat(sequence=4))
    assert isinstance(stale, c.Refused)
    assert stale.reason is Reason.STALE_SEQUENCE
    assert mind.judge(space(state), beat(sequence=5)) is None


# -- taking in loads ---------------------------------------------------------------------------


def test_reported_loads_are_taken_in_and_a_repeated_heartbeat_is_counted_once() -> None:
    state = fleet(1, 2)
    mind = begun(state)
    mind.hear(space(state), beat(sequence=1, shards=report(s0=2.0, s1=None)))
    mind.hear(space(state), beat(sequence=1, shards=report(s0=9.0), received_at=NOW + 1))
    assert mind.loads.smoothed("0") == pytest.approx(2.0)
    assert mind.loads.smoothed("1") is None


def test_a_shard_reported_once_and_then_left_out_had_a_window_of_zero() -> None:
    state = fleet(1, 2)
    mind = begun(state)
    mind.hear(space(state), beat(sequence=1, shards=report(s0=2.0, s1=2.0)))
    mind.hear(space(state), beat(sequence=2, shards=report(s0=2.0), received_at=NOW + 2))
    assert mind.loads.smoothed("0") == pytest.approx(2.0)
    assert (mind.loads.smoothed("1") or 0) < 2.0


def test_a_shard_granted_a_moment_ago_is_no_news_when_the_report_has_it_not_yet() -> None:
    state = fleet(1, 2)
    mind = begun(state)
    mind.hear(space(state), beat(sequence=1, shards=report(s0=2.0)))
    assert mind.loads.smoothed("1") is None


def test_a_load_reported_for_someone_elses_shard_is_ignored() -> None:
    state = fleet(2, 2)
    mind = begun(state)
    mind.hear(space(state), beat("e1", shards=report(s0=1.0, s1=99.0)))
    assert mind.loads.smoothed("1") is None


def test_a_shard_that_was_moved_is_astray_at_its_former_owner_in_the_same_report_as_ever() -> None:
    state = fleet(2, 2)
    mind = begun(state)
    moved = min(space(state).owned("e1"))
    same = {key: Held(1, 1.0) for key in space(state).owned("e1")}
    for number in range(3):
        mind.hear(space(state), beat("e1", number, shards=same, received_at=NOW + number))
    assert mind.steady == {"e1": space(state).assignments_revision("e1")}
    start(state, moved, "e2")
    release(state, moved)
    assert moved not in space(state).owned("e1")
    before = mind.loads.entries([moved])
    mind.hear(space(state), beat("e1", 4, shards=same, received_at=NOW + 4))
    assert mind.loads.entries([moved]) == before
    assert len(mind.strays) == 1
    mind.hear(space(state), beat("e1", 5, shards=same, received_at=NOW + 5))
    assert mind.loads.entries([moved]) == before


def test_saturation_signals_are_kept_until_the_executor_is_gone() -> None:
    state = fleet(1, 1)
    mind = begun(state)
    mind.hear(space(state), beat(process=ProcessSignals(backlog=3)))
    assert mind.loads.process("e1") == ProcessSignals(backlog=3)
    mind.forget_executor("e1", "e1-1")
    assert mind.loads.process("e1") is None


def test_an_executor_with_another_incarnation_alive_is_not_forgotten() -> None:
    state = fleet(1, 1)
    mind = begun(state)
    applied(state, join("e1", "e1-2"))
    mind.hear(space(state), beat(incarnation="e1-2", process=ProcessSignals(backlog=3)))
    mind.forget_executor("e1", "e1-1")
    assert mind.loads.process("e1") is not None


def test_an_incarnation_that_joined_counts_as_unheard_and_starts_the_quiet_period_anew() -> None:
    state = fleet(1, 1)
    mind = begun(state)
    mind.hear(space(state), beat(shards=report(s0=1.0)))
    mind.joined(space(state), "e1", NOW + 3)
    assert mind.last_join_at == NOW + 3
    assert "e1" not in mind.reported


def test_a_garbage_collection_passes_over_the_names_that_were_reported() -> None:
    state = fleet(1, 3)
    mind = begun(state)
    for sequence in (1, 2):
        shards = report(s0=1.0, s1=1.0, s2=1.0)
        mind.hear(space(state), beat("e1", sequence, shards=shards, received_at=NOW + sequence))
    gc.collect()
    sheet = mind.loads.sheet("e1")
    assert sheet is not None
    assert len(sheet.keys) == len(mind.reported["e1"]) == 3
    assert not gc.is_tracked(sheet.keys)
    assert not gc.is_tracked(mind.reported["e1"])


def test_loads_of_retired_shards_are_forgotten_with_the_next_pass() -> None:
    world = settled(World(1, 4, policy=quick(), kind=NamespaceKind.OPEN))
    world.run(15)
    assert world.controller is not None
    mind = world.controller.mind(world.space, world.now)
    assert len(mind.loads) == 4
    for key in ("0", "1"):
        world.order(retire(key))
    world.run(5)
    assert sorted(mind.loads.means()) == ["2", "3"]


# -- the lease of each kind --------------------------------------------------------------------


def test_a_new_leader_gives_a_lease_to_those_who_may_still_act_superseded_ones_included() -> None:
    state = fleet(1, 1)
    applied(state, join("e1", "e1-2"))
    mind = begun(state)
    assert mind.leases.deadline("e1", "e1-1") == mind.leases.deadline("e1", "e1-2")


def test_a_superseded_incarnation_this_leader_never_heard_is_not_waited_for_for_ever() -> None:
    state = fleet(1, 0)
    applied(state, create(NamespaceKind.FIXED, 1, name="x"))
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    applied(state, join("e2"))
    applied(state, declare("a"))
    applied(state, move("a", "e2"))
    applied(state, join("e2", "e2-2"))
    assert controller.step(state, NOW, AT_MS).commands == ()
    assert mind.leases.deadline("e2", "e2-1") is not None
    later = controller.step(state, NOW + 11, AT_MS).commands
    over = c.InheritShards(
        namespace=NS, executor="e2", predecessor="e2-1", at_ms=AT_MS, is_crash=True
    )
    assert over in later


def test_an_unheard_incarnation_is_given_the_longest_lease_that_may_be_out() -> None:
    state = fleet(1, 1)
    applied(state, set_policy(Policy(lease_ttl_s=2)))
    controller = Controller(state, NOW)
    applied(state, join("e2"))
    controller.step(state, NOW, AT_MS)
    deadlines = controller.mind(space(state), NOW).leases
    assert deadlines.deadline("e1", "e1-1") == pytest.approx(NOW + 10.1)
    assert deadlines.deadline("e2", "e2-1") == pytest.approx(NOW + 10.1)


def test_a_shard_lease_is_as_long_as_the_longest_lease_that_may_be_out() -> None:
    state = fleet(2, 2, policy=balancer(mode=BalancerMode.OFF))
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    start(state, "0", "e2")
    overdue(state)
    controller.step(state, NOW, AT_MS)
    applied(state, set_policy(replace(space(state).info.policy, lease_ttl_s=2)))
    mind.leases.begin_term([("e1", "e1-1"), ("e2", "e2-1")], 100, NOW)
    assert controller.step(state, NOW + 10, AT_MS).commands == ()
    (command,) = controller.step(state, NOW + 10.1, AT_MS).commands
    assert isinstance(command, c.FinishOverdue)


def test_a_successor_that_fell_silent_is_not_closed_before_its_predecessor_is_over() -> None:
    state = fleet(1, 1, policy=balancer(mode=BalancerMode.OFF))
    applied(state, join("e1", "e1-2"))
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    mind.leases.renew("e1", "e1-1", 10, NOW + 5)
    step = controller.step(state, NOW + 11, AT_MS)
    assert step.commands == ()
    assert step.wake_at > NOW + 11
    kinds = []
    for _ in range(2):
        (command,) = controller.step(state, NOW + 16, AT_MS).commands
        kinds.append(type(command))
        controller.learn(command, state.apply(command), state, NOW + 16)
    assert kinds == [c.InheritShards, c.CloseIncarnation]


# -- what became of commands -------------------------------------------------------------------


def expire_e1(state: ClusterState) -> tuple[Controller, Mind, c.CloseIncarnation]:
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    mind.hear(space(state), beat("e2", received_at=NOW + 10))
    (command,) = controller.step(state, NOW + 10.2, AT_MS).commands
    assert isinstance(command, c.CloseIncarnation)
    return controller, mind, command


def test_an_expiry_of_unknown_outcome_stays_in_force_and_is_proposed_again() -> None:
    state = fleet(2, 2)
    controller, mind, command = expire_e1(state)
    controller.learn(command, None, state, NOW + 10.2)
    assert mind.judge(space(state), beat("e1", sequence=2)) is Need.WAIT
    assert controller.step(state, NOW + 10.3, AT_MS).commands == (command,)
    applied(state, command)
    assert controller.step(state, NOW + 10.4, AT_MS).commands == ()
    assert mind.leases.deadline("e1", "e1-1") is None


def test_an_expiry_that_was_refused_lets_its_incarnation_renew_again() -> None:
    state = fleet(2, 2)
    controller, mind, command = expire_e1(state)
    controller.learn(command, c.Refused(Reason.CONFLICT, "no"), state, NOW + 10.2)
    assert mind.judge(space(state), beat("e1", sequence=2)) is None
    assert mind.expirations_total == 0


def test_an_expiry_that_was_applied_is_counted_and_its_lease_forgotten() -> None:
    state = fleet(2, 2)
    controller, mind, command = expire_e1(state)
    controller.learn(command, state.apply(command), state, NOW + 10.2)
    assert mind.expirations_total == 1
    assert mind.leases.deadline("e1", "e1-1") is None
    assert controller.step(state, NOW + 10.3, AT_MS).wake_at > NOW + 10.3


def test_an_executor_that_leaves_or_is_evicted_is_no_expiry() -> None:
    state = fleet(3, 3)
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    for executor, cause in (("e1", CloseCause.LEFT), ("e2", CloseCause.EVICTED)):
        command = close(executor, cause=cause)
        controller.learn(command, state.apply(command), state, NOW + 1.0)
        assert executor not in space(state).executors
    assert mind.expirations_total == 0


def test_an_inheritance_of_unknown_outcome_is_proposed_again_only_if_it_did_not_happen() -> None:
    state = fleet(1, 1)
    applied(state, join("e1", "e1-2"))
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    mind.hear(space(state), beat(incarnation="e1-2", received_at=NOW + 9))
    (command,) = controller.step(state, NOW + 11, AT_MS).commands
    controller.learn(command, None, state, NOW + 11)
    assert controller.step(state, NOW + 11, AT_MS).commands == (command,)
    applied(state, command)
    assert controller.step(state, NOW + 11, AT_MS).commands == ()
    assert mind.leases.deadline("e1", "e1-1") is None


def test_moves_are_counted_by_cause_and_rest_only_after_balance() -> None:
    state = fleet(2, 4)
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    moves = (
        HandoffStart("0", epoch(state, "0"), "e2", Cause.BALANCE),
        HandoffStart("2", epoch(state, "2"), "e2", Cause.DRAIN),
    )
    command = c.StartHandoffs(namespace=NS, moves=moves)
    controller.learn(command, None, state, NOW)
    assert mind.moves_total == {}
    controller.learn(command, state.apply(command), state, NOW)
    assert mind.moves_total == {Cause.BALANCE: 1, Cause.DRAIN: 1}
    assert list(mind.cooling_until) == ["0"]
    assert mind.budget.spent == 1
    mind.drop_cooled(NOW + 10_000)
    assert mind.cooling_until == {}


def test_a_shard_that_an_operator_moved_rests_from_the_move_on() -> None:
    state = fleet(2, 4)
    mind = Controller(state, NOW).mind(space(state), NOW)
    start(state, "0", "e2", Cause.OPERATOR)
    start(state, "2", "e2", Cause.DRAIN)
    mind.track_handoffs(space(state), NOW)
    cooldown_s = space(state).info.policy.balancer.effective_cooldown_s
    assert mind.cooling_until == {"0": NOW + cooldown_s}
    mind.track_handoffs(space(state), NOW + 1.0)
    assert mind.cooling_until == {"0": NOW + cooldown_s}, "since it began, not as long as it lasts"


def test_what_became_of_commands_elsewhere_or_without_a_namespace_teaches_nothing() -> None:
    state = fleet(1, 0)
    controller = Controller(state, NOW)
    gone = c.StartHandoffs(namespace="gone", moves=())
    for command in (gone, c.Bootstrap(cluster_id="x", epoch_base=1), declare("a")):
        controller.learn(command, c.Applied(), state, NOW)
    controller.learn(
        c.InheritShards(namespace=NS, executor="e1", predecessor="x", at_ms=0), None, state, NOW
    )
    assert controller.mind(space(state), NOW).moves_total == {}


# -- namespaces that come and go ---------------------------------------------------------------


def test_a_policy_change_reaches_smoothing_and_budget() -> None:
    state = fleet(1, 1)
    controller = Controller(state, NOW)
    applied(state, set_policy(balancer(smoothing_horizon_s=7.0, move_budget_ratio=0.5)))
    controller.step(state, NOW, AT_MS)
    mind = controller.mind(space(state), NOW)
    assert (mind.loads.horizon_s, mind.budget.ratio) == (7.0, 0.5)


def test_a_namespace_made_anew_under_an_old_name_gets_a_new_mind() -> None:
    state = fleet(1, 1)
    controller = Controller(state, NOW)
    before = controller.mind(space(state), NOW)
    applied(state, c.DeleteNamespace(namespace=NS, force=True))
    applied(state, create())
    assert controller.mind(space(state), NOW + 1) is not before


def test_a_deleted_namespace_is_forgotten() -> None:
    state = fleet(1, 1)
    controller = Controller(state, NOW)
    applied(state, c.DeleteNamespace(namespace=NS, force=True))
    step = controller.step(state, NOW, AT_MS)
    assert (step.commands, step.wake_at) == ((), NOW + 1.0)


# -- deadlines and sizes -----------------------------------------------------------------------


def test_late_stops_are_marked_in_commands_of_bounded_size() -> None:
    state = fleet(2, 2 * CLAIMS_MAX + 20, policy=Policy(lease_ttl_s=100, heartbeat_interval_s=20))
    controller = Controller(state, NOW)
    moves = tuple(
        HandoffStart(key, epoch(state, key), "e2", Cause.OPERATOR)
        for key in space(state).owned("e1")
    )
    applied(state, c.StartHandoffs(namespace=NS, moves=moves))
    controller.step(state, NOW, AT_MS)
    sizes = []
    for _ in range(2):
        (command,) = controller.step(state, NOW + 31, AT_MS).commands
        assert isinstance(command, c.MarkOverdue)
        sizes.append(len(command.claims))
        applied(state, command)
    assert sizes == [CLAIMS_MAX, 10]


def test_the_next_wake_is_the_next_deadline_of_a_handoff() -> None:
    state = fleet(2, 2, policy=balancer(mode=BalancerMode.OFF, interval_s=100.0))
    controller = Controller(state, NOW)
    start(state, "0", "e2")
    controller.step(state, NOW, AT_MS)
    mind = controller.mind(space(state), NOW)
    mind.leases.begin_term([("e1", "e1-1"), ("e2", "e2-1")], 100, NOW)
    mind.next_pass_at = NOW + 100
    assert controller.step(state, NOW + 29.5, AT_MS).wake_at == NOW + 30
    overdue(state)
    controller.step(state, NOW + 30, AT_MS)
    assert controller.step(state, NOW + 39.7, AT_MS).wake_at == pytest.approx(NOW + 40.1)
    release(state)
    assert controller.step(state, NOW + 39.8, AT_MS).wake_at == pytest.approx(NOW + 40.8)
    assert (mind.handoffs, mind.overdue) == ({}, {})


def test_placements_are_cut_to_what_one_command_may_carry() -> None:
    many = [Placement("k" * 256, "e" * 128)] * 1000
    kept = fitting(many)
    assert 0 < len(kept) < len(many)
    assert len(kept) * (256 + 128) < COMMAND_BYTES_MAX
    assert fitting(many[:3]) == many[:3]


def test_vacant_shards_beyond_one_command_follow_in_further_ones() -> None:
    state = empty(policy=Policy(initial_hold_s=0))
    applied(state, join("e1"))
    keys = tuple("k" * 250 + str(number) for number in range(PLANNED_MAX))
    applied(state, declare(*keys))
    step = Controller(state, NOW).step(state, NOW, AT_MS)
    assert len(step.commands) > 1
    for command in step.commands:
        applied(state, command)
    assert not space(state).vacant


# -- losses ------------------------------------------------------------------------------------


def test_the_shards_of_a_lost_executor_go_to_pins_first_and_to_the_least_loaded_after() -> None:
    state = fleet(3, 0, kind=NamespaceKind.OPEN)
    applied(state, declare("heavy", "light", "mine", "gone", "leads"))
    assign(state, *((key, "e1") for key in ("heavy", "light", "mine", "gone", "leads")))
    applied(state, pin("mine", "e3"))
    applied(state, park("gone"))
    start(state, "leads", "e2")
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    loads = {"heavy": Held(1, 9.0), "light": Held(1, 1.0), "mine": Held(1, 1.0)}
    mind.hear(space(state), beat("e1", shards={**loads, "leads": Held(1, 1.0)}))
    for executor in ("e2", "e3"):
        mind.hear(space(state), beat(executor, received_at=NOW + 10))
    (command,) = controller.step(state, NOW + 10.2, AT_MS).commands
    assert isinstance(command, c.CloseIncarnation)
    assert {one.key for one in command.placements} == {"heavy", "light", "mine"}
    applied(state, command)
    assert owners(state) == {
        "heavy": "e2",
        "light": "e3",
        "mine": "e3",
        "gone": None,
        "leads": "e2",
    }


# -- facts -------------------------------------------------------------------------------------


def test_facts_of_executors_count_shards_where_they_are_and_loads_where_they_go() -> None:
    state = fleet(2, 4)
    mind = begun(state)
    for executor in ("e1", "e2"):
        mine = {key: Held(1, 1.0) for key in space(state).owned(executor)}
        mind.hear(space(state), beat(executor, shards=mine))
    start(state, "0", "e2")
    facts = executor_facts(space(state), mind, NOW + 3)
    for name, known in facts.items():
        assert facts_of(space(state), mind, name, NOW + 3) == known
    assert (facts["e1"].shard_count, facts["e2"].incoming_count) == (2, 1)
    assert (facts["e1"].load, facts["e2"].load) == pytest.approx((1.0, 3.0))
    assert facts["e1"].heartbeat_age_s == 3.0
    assert facts["e1"].process is None


def test_facts_of_a_shard_say_its_load_and_how_long_it_still_rests() -> None:
    state = fleet(1, 2)
    mind = begun(state)
    mind.hear(space(state), beat(shards=report(s0=2.0)))
    mind.cool_down("0", 30, NOW)
    measured, unmeasured = (shard_facts(mind, key, NOW + 10) for key in ("0", "1"))
    assert measured.load == pytest.approx(2.0)
    assert measured.measured_s == pytest.approx(2.0)
    assert measured.cooldown_left_s == 20.0
    assert (unmeasured.load, unmeasured.measured_s, unmeasured.cooldown_left_s) == (None, 0.0, 0.0)


def test_facts_of_balance_leave_out_room_that_may_not_be_used() -> None:
    state = fleet(3, 6)
    mind = begun(state)
    for executor in ("e1", "e2", "e3"):
        mine = {key: Held(1, 1.0 + int(key)) for key in space(state).owned(executor)}
        mind.hear(space(state), beat(executor, shards=mine))
    whole = balance_facts(space(state), mind, NOW, AT_MS)
    assert whole.figures.total == pytest.approx(21.0)
    assert (whole.figures.hottest, whole.figures.coldest) == ("e3", "e1")
    assert set(whole.capacities) == {"e1", "e2", "e3"}
    assert (whole.unmeasured, whole.in_flight, whole.skipped) == (0, 0, "")
    applied(state, drain("e1"))
    drained = balance_facts(space(state), mind, NOW, AT_MS)
    assert drained.hashed is not None
    assert drained.hashed.modulo.total == drained.hashed.ring.total == pytest.approx(21.0)
    assert drained.bound.level == pytest.approx(10.5)
    assert set(drained.loads) == {"e1", "e2", "e3"}
    applied(state, close("e1"))
    assert set(balance_facts(space(state), mind, NOW, AT_MS).loads) == {"e2", "e3"}


def test_facts_of_balance_say_when_too_few_loads_are_known() -> None:
    state = fleet(3, 6)
    mind = begun(state)
    assert balance_facts(space(state), mind, NOW, AT_MS).is_stale
    for executor in ("e1", "e2", "e3"):
        mine = {key: Held(1, 1.0) for key in space(state).owned(executor)}
        mind.hear(space(state), beat(executor, shards=mine))
    assert not balance_facts(space(state), mind, NOW, AT_MS).is_stale


def test_who_goes_before_its_turn_is_not_in_the_picture() -> None:
    state = fleet(3, 6)
    mind = begun(state)
    taking = taking_picture(space(state), mind, NOW)
    next(taking)
    applied(state, close("e3"))
    assert {seat.executor for seat in finished(taking).seats} == {"e1", "e2"}


def test_what_hashing_would_give_very_many_shards_is_left_to_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coordinator.core.controller.facts.HASHED_MAX", 5)
    state = fleet(3, 6)
    assert balance_facts(space(state), begun(state), NOW, AT_MS).hashed is None


# -- why no voluntary move is made -------------------------------------------------------------


def skipped(state: ClusterState, mind: Mind, now: float = NOW, at_ms: int = AT_MS) -> str:
    return why_skipped(space(state), mind, now, at_ms)


def test_no_voluntary_move_is_made_while_off_paused_or_without_executors() -> None:
    assert skipped(empty(1), begun(empty(1))) == "no_executors"
    state = fleet(1, 1)
    mind = begun(state)
    applied(state, c.PauseBalancer(namespace=NS, reason="", by="", at_ms=0, until_ms=AT_MS + 1))
    assert skipped(state, mind) == "paused"
    assert skipped(state, mind, at_ms=AT_MS + 1) == "stale_data"
    applied(state, c.PauseBalancer(namespace=NS, reason="", by="", at_ms=0))
    assert skipped(state, mind, at_ms=10**15) == "paused"
    applied(state, set_policy(balancer(mode=BalancerMode.OFF)))
    assert skipped(state, mind) == "off"


def test_no_voluntary_move_is_made_on_stale_loads_or_beside_a_silent_executor() -> None:
    state = fleet(1, 1)
    mind = begun(state)
    assert skipped(state, mind) == "stale_data"
    mind.hear(space(state), beat(shards=report(s0=1.0)))
    assert skipped(state, mind) == ""
    old = NOW + STALE_AFTER_INTERVALS * 2.0 + 0.1
    mind.hear(space(state), beat(sequence=2, received_at=old))
    assert skipped(state, mind, old) == "stale_data"
    assert skipped(state, mind, old + 5.1) == "suspect_executor"


def test_a_pass_that_was_skipped_or_made_is_remembered_with_its_reason() -> None:
    world = settled(World(2, 8, policy=quick()))
    assert world.controller is not None
    mind = world.controller.mind(world.space, world.now)
    world.order(c.PauseBalancer(namespace=NS, reason="", by="", at_ms=0))
    world.run(15)
    assert mind.last_pass is not None
    assert (mind.last_pass.skipped, mind.last_pass.plan) == ("paused", None)
    world.order(c.ResumeBalancer(namespace=NS))
    world.run(5)
    assert mind.last_pass.plan is not None
    assert mind.last_pass.plan.stop is Stop.LEVEL


@pytest.mark.parametrize(("horizon_s", "listens_s"), [(24.0, 12.0), (86_400.0, HEARING_MAX_S)])
def test_a_new_leader_listens_for_half_a_horizon_before_it_moves_anything_by_load(
    horizon_s: float, listens_s: float
) -> None:
    policy = balancer(smoothing_horizon_s=horizon_s)
    taken_over = begun(fleet(2, 8, policy=policy))
    assert taken_over.next_pass_at == NOW + policy.lease_ttl_s + listens_s
    nothing_owned = begun(fleet(2, 8, policy=policy, are_placed=False))
    assert nothing_owned.next_pass_at == NOW + policy.lease_ttl_s


@pytest.mark.parametrize("hold", ["pinned", "cooling", "unmeasured", "parked", "moving"])
def test_a_shard_that_is_held_is_not_moved_for_balance_and_others_are(hold: str) -> None:
    # One shard of sixty may be unmeasured without the loads as a whole being stale.
    state = fleet(2, 60, policy=balancer(move_budget_ratio=1.0))
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    for executor, load in (("e1", 3.0), ("e2", 1.0)):
        mine = {key: Held(1, load) for key in space(state).owned(executor)}
        if hold == "unmeasured":
            mine.pop("0", None)
        mind.hear(space(state), beat(executor, shards=mine))
    match hold:
        case "pinned":
            applied(state, pin("0", "e1"))
        case "cooling":
            mind.cool_down("0", 100, NOW)
        case "parked":
            applied(state, park("0"))
        case "moving":
            start(state, "0", "e2", Cause.OPERATOR)
    mind.next_pass_at = NOW
    commands = controller.step(state, NOW, AT_MS).commands
    moves = [m.key for one in commands if isinstance(one, c.StartHandoffs) for m in one.moves]
    assert moves
    assert "0" not in moves


# -- failed starts -----------------------------------------------------------------------------


def failed(key: str = "0", where: str = "e1", number: int = 1) -> Shard:
    return Shard(key=key, epoch=number, cause=Cause.FAILED, previous=where)


def test_each_failed_start_counts_once_however_often_it_is_seen() -> None:
    book = FailureBook()
    for _ in range(3):
        assert book.ready([failed()], ["e1", "e2"], NOW) == [failed()]
    assert book.bans("0", ["e1", "e2"]) == {"e1"}
    assert book.next_retry(NOW) is None


def test_a_round_of_failures_ends_in_a_rest_and_begins_anew() -> None:
    book = FailureBook()
    book.ready([failed()], ["e1", "e2"], NOW)
    second = failed(where="e2", number=2)
    assert book.ready([second], ["e1", "e2"], NOW) == []
    assert book.next_retry(NOW) == NOW + 5
    assert book.ready([second], ["e1", "e2"], NOW + 5) == [second]
    assert book.bans("0", ["e1", "e2"]) == frozenset()


def test_bans_that_would_leave_a_shard_nowhere_to_go_are_lifted() -> None:
    book = FailureBook()
    book.ready([failed()], ["e1", "e2"], NOW)
    assert book.bans("0", ["e1"]) == frozenset()
    assert book.bans("other", ["e1"]) == frozenset()


def test_shards_that_did_not_fail_need_no_rest() -> None:
    book = FailureBook()
    vacant = [Shard(key="0"), Shard(key="1", cause=Cause.FAILED)]
    assert book.ready(vacant, ["e1"], NOW) == vacant
    assert len(book) == 0


# -- owed moves --------------------------------------------------------------------------------


def test_a_leaving_executors_pinned_shards_leave_too() -> None:
    state = fleet(2, 2)
    applied(state, pin("0", "e1"))
    applied(state, leaving("e1"))
    (command,) = Controller(state, NOW).step(state, NOW, AT_MS).commands
    assert isinstance(command, c.StartHandoffs)
    assert [(m.key, m.target, m.cause) for m in command.moves] == [("0", "e2", Cause.LEAVING)]


def test_a_pinned_shard_of_a_drained_executor_is_handed_over_once_and_to_its_pin() -> None:
    state = fleet(3, 3)
    applied(state, pin("0", "e3"))
    applied(state, drain("e1"))
    (command,) = Controller(state, NOW).step(state, NOW, AT_MS).commands
    assert isinstance(command, c.StartHandoffs)
    assert [(m.key, m.target, m.cause) for m in command.moves] == [("0", "e3", Cause.DRAIN)]


def test_a_limit_lowered_below_what_is_in_flight_opens_no_further_handoffs() -> None:
    state = fleet(2, 24, policy=Policy(drain_in_flight=4))
    applied(state, drain("e1"))
    controller = Controller(state, NOW)
    (command,) = controller.step(state, NOW, AT_MS).commands
    applied(state, command)
    assert len(space(state).in_flight) == 4
    applied(state, set_policy(Policy(drain_in_flight=1)))
    assert controller.step(state, NOW, AT_MS).commands == ()


def test_a_silent_executor_is_neither_given_shards_nor_relieved() -> None:
    state = fleet(2, 4)
    mind = begun(state)
    mind.hear(space(state), beat("e2", received_at=NOW + 6))
    seats = {seat.executor: seat for seat in see(space(state), mind, NOW + 6).seats}
    assert (seats["e1"].is_open, seats["e1"].is_source) == (False, False)
    assert (seats["e2"].is_open, seats["e2"].is_source) == (True, True)


def test_nobody_waiting_or_evicted_is_asked_to_hand_over() -> None:
    state = fleet(3, 3)
    applied(state, join("e1", "e1-2"))
    applied(state, evict("e2"))
    for executor in ("e1", "e2"):
        applied(state, drain(executor))
    assert Controller(state, NOW).step(state, NOW, AT_MS).commands == ()
    assert shard(state, "0").executor == "e1"


def test_what_a_former_leader_knew_is_let_go_of_in_slices() -> None:
    shards = 2 * LET_GO_MAX
    state = fleet(1, shards)
    controller = Controller(state, NOW)
    mind = controller.mind(space(state), NOW)
    loads = {f"s{number}": 1.0 for number in range(shards)}
    mind.hear(space(state), beat(shards=report(**loads)))
    assert len(mind.loads) == shards
    left = [len(mind.loads) for _ in controller.let_go()]
    assert len(mind.loads) == len(mind.reported) == 0
    assert max(before - after for before, after in pairwise([shards, *left])) == LET_GO_MAX
    assert not [*controller.let_go()]


def test_names_that_were_reported_are_kept_once() -> None:
    state = fleet(1, 1)
    mind = begun(state)
    (own,) = space(state).owned("e1")
    told = "".join([*own])
    assert told is not own
    mind.hear(space(state), beat(shards=report(**{told: 1.0})))
    sheet = mind.loads.sheet("e1")
    assert sheet is not None
    assert sheet.keys[0] is own
    assert mind.reported["e1"] is sheet.keys
