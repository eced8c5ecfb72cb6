"""What single faults come to, on a system that is otherwise left in peace."""

from dataclasses import replace

import pytest

from tests.sim.faults import Event
from tests.sim.system.mix import BOOT_S, draw_mix
from tests.sim.system.system import Scenario

IN_MEMORY = next(seed for seed in range(100) if not draw_mix(seed).has_disks)
MIX = replace(draw_mix(IN_MEMORY), faults_s=10.0)
END_S = BOOT_S + MIX.faults_s


def line(kind, at_s, *names, span_s=1.0, share=0.0):
    return Event(0, at_s, kind, names, span_s, share)


def played(*events):
    """A run with these faults only, and how often shards were started and moved after the first."""
    scenario = Scenario(IN_MEMORY, only=(), mix=MIX)
    scenario.script = list(events)
    before = {}

    def note():
        before.update(starts=scenario.witness.starts, moves=scenario.witness.moves)

    scenario.world.at(events[0].at_s - 0.001, note)
    outcome = scenario.run()
    assert outcome.what is None
    return scenario, outcome.starts - before["starts"], outcome.moves - before["moves"]


def test_total_loss_of_all_nodes_stops_and_moves_no_shard_of_executors_that_live_on():
    scenario, starts, moves = played(line("lose_all", END_S - 2.0, span_s=0.4))
    assert all(place.lives == 2 for place in scenario.nodes.values())
    assert (starts, moves) == (0, 0)


def test_the_crash_of_a_leader_stops_and_moves_no_shard():
    _, starts, moves = played(line("forget", END_S - 2.0, "n1"), line("forget", END_S - 0.1, "n2"))
    assert (starts, moves) == (0, 0)


def test_two_processes_under_one_name_are_never_both_at_work():
    scenario, starts, _ = played(line("twin_executor", END_S - 2.0, "e1", "e2"))
    assert starts > 0
    assert len(scenario.executors["e1"].alive) == 1


@pytest.mark.parametrize("kind", ["pause_executor", "suspend_executor"])
@pytest.mark.parametrize("leases", [0.4, 3.0])
def test_a_paused_executor_keeps_its_shards_for_a_lease_and_no_longer(leases, kind):
    span_s = leases * MIX.lease_s
    scenario, _, moves = played(
        line(kind, BOOT_S + 6.0, "e1", "e2", span_s=span_s),
    )
    assert (moves > 0) == (leases > 1.0)
    assert scenario.settled_s < MIX.bound_s
