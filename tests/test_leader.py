"""When the leader's driver takes a breath between steps."""

from coordinator.core.commands import Command, RecordLoads, SettleLease
from coordinator.leader import BUSY_STEPS_MAX, counted, is_breath_due, is_leisurely

LOADS: Command = RecordLoads(namespace="jobs", sweep_ms=0, number=0, chunk=b"", is_last=False)
OTHER: Command = SettleLease(namespace="jobs", policy_version=1)


def test_loads_are_written_down_at_leisure_and_count_for_nothing_else():
    assert is_leisurely((LOADS, LOADS))
    assert is_breath_due((LOADS,), 0)
    assert not is_leisurely((LOADS, OTHER))
    assert not is_breath_due((LOADS, OTHER), BUSY_STEPS_MAX - 1)


def test_a_rule_at_odds_with_itself_leaves_the_loop_to_others():
    assert not is_breath_due((OTHER,), BUSY_STEPS_MAX - 1)
    assert is_breath_due((OTHER,), BUSY_STEPS_MAX)


def test_losses_in_the_same_minute_of_writing_loads_down_do_not_add_up_to_a_row():
    busy, breaths = 0, 0
    for _ in range(BUSY_STEPS_MAX):
        for commands in ((OTHER,), (OTHER,), (LOADS,)):
            busy = counted(commands, busy)
            breaths += is_breath_due(commands, busy) and not is_leisurely(commands)
    assert breaths == 0
    for _ in range(BUSY_STEPS_MAX):
        busy = counted((LOADS, OTHER), busy)
    assert is_breath_due((LOADS, OTHER), busy)
    assert counted((), busy) == 0
