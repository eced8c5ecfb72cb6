"""Each rule of ownership is needed: left out, a short script of faults sees it missing.

The script is played on a system that is otherwise left in peace, with and without the rule. Where
chance decides whether the moment is hit, a few seeds are named; one that still fails is enough.
"""

import ast
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.sim.faults import Event
from tests.sim.system import rules
from tests.sim.system.mix import draw_mix
from tests.sim.system.system import Scenario

TESTS = Path(__file__).resolve().parents[2]
CALM = replace(
    draw_mix(0),
    delay_s=(0.0002, 0.002),
    executors=3,
    shards=8,
    lease_s=2.0,
    skew=0.0,
    stray_ratio=0.0,
    has_disks=False,
    has_locks=False,
    has_warmup=False,
    release_timeout_leases=0.3,
    mass_failure_ratio=1.0,
    poison_threshold=20,
    faults_s=14.0,
)
NODES = ("n1", "n2", "n3")


@dataclass(frozen=True)
class Sight:
    """What shows that a rule is missing."""

    script: Sequence[tuple[Any, ...]]
    """Lines: when, what, to whom, for how long, and their share."""
    seeds: Sequence[int] = (1,)
    mix: Mapping[str, Any] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    """Of the clocks of machines."""


def line(at_s, kind, names="", span_s=1.0, share=0.0):
    return (at_s, kind, tuple(names.split()), span_s, share)


def slow_commits(share):
    return [line(9.0, "slow_one_way", f"n1 {other}", 20.0, share) for other in ("n2", "n3")]


SKEWED_PAUSE = Sight(
    [line(8.0, "pause_executor", "e1 e2", 6.0)],
    rates={"e1": 0.99, **dict.fromkeys(NODES, 1.01)},
)
HUNG_STOPS = Sight([line(9.9, "hang", "e1 e2", 1.0, 1.0), line(10.0, "drain", "e1 e2")])
SEEN = {
    "supersession-wait": Sight([line(8.0, "twin_executor", "e1 e2")]),
    "lease-stretch": SKEWED_PAUSE,
    "lease-margin": SKEWED_PAUSE,
    "new-leader-lease": Sight(
        [
            line(10.0, "isolate_executor", "e1 e2", 1.8),
            line(10.2, "transfer", "n1"),
            line(10.4, "transfer", "n2"),
        ],
        seeds=range(1, 10),
    ),
    "quorum-confirmed": Sight(
        [
            line(8.0, "transfer", "n1"),
            line(9.0, "block_pair", "e1 n2", 7.0),
            line(9.0, "block_pair", "e1 n3", 7.0),
            line(9.1, "isolate_node", "n1", 7.0),
            line(9.2, "pause_node", "n1", 4.0),
        ],
        seeds=(2, 6, *range(20, 40)),
    ),
    "overdue-lease": HUNG_STOPS,
    "not-renewed": HUNG_STOPS,
    "closing-unanswered": Sight(
        [
            line(8.0, "transfer", "n1"),
            *slow_commits(0.07),
            # They are heard again about when their leases run out, many times.
            *(
                one
                for turn in range(6)
                for name in ("e1", "e2")
                for one in (
                    line(9.0 + 3 * turn, "slow", f"{name} e3", 3.0, 1.0),
                    line(10.0 + 3 * turn, "isolate_executor", f"{name} e3", 1.7 + 0.04 * turn),
                )
            ),
        ],
        seeds=(2, 4, 5, 6, *range(12, 30)),
        mix={"faults_s": 28.0},
    ),
    "ack-epoch": Sight(
        [
            line(7.9, "slow", "e1 e2", 12.0, 0.6),
            *(
                line(8.0 + 0.8 * turn, "move", f"e3 {'e1' if turn % 2 else 'e2'}", 1.0, 0.0)
                for turn in range(14)
            ),
        ],
        seeds=range(1, 20),
        mix={"stray_ratio": 1.0, "release_timeout_leases": 3.0},
    ),
    "lease-bound": Sight(
        [
            line(10.0, "isolate_executor", "e1 e2", 3.0),
            line(10.05, "lease", "e2 e3", 1.0, 0.1),
            line(10.2, "transfer", "n1"),
            line(10.3, "transfer", "n2"),
        ],
        seeds=range(1, 5),
    ),
    "claim-window": Sight(
        [line(10.0, "isolate_executor", "e1 e2", 3.0), line(10.1, "lose_all", span_s=0.2)]
    ),
    "adopted-unknown": Sight(
        [
            line(7.0, "transfer", "n1"),
            *slow_commits(0.2),
            *(line(9.0 + 0.4 * turn, "crash_executor", "e1 e2") for turn in range(12)),
        ],
        seeds=(2, 7, *range(8, 30)),
    ),
}
"""Rule -> how its absence is seen."""
DIRECTED: Mapping[str, str] = {
    "cursor-floor": "client/test_reconcile.py::"
    "test_after_a_lost_lease_nothing_starts_below_the_cursor_that_restored_it",
}
"""Rule -> the test of the part that keeps it: another rule stands behind it in the whole system."""


def play(sight: Sight, seed: int, without: Sequence[str] = ()) -> str | None:
    with rules.left_out(without):
        scenario = Scenario(seed, only=(), mix=replace(CALM, **sight.mix))
        scenario.script = [
            Event(number, at_s, kind, names, span_s, share)
            for number, (at_s, kind, names, span_s, share) in enumerate(sight.script)
        ]
        for place in scenario.nodes.values():
            place.machine.rate = sight.rates.get(place.name, 1.0)
        for program in scenario.executors.values():
            program.machine.rate = sight.rates.get(program.name, 1.0)
        return scenario.run().what


_HELD: dict[tuple[int, int], bool] = {}


def _holds(sight: Sight, seed: int) -> bool:
    """With all rules; some rules share a script."""
    name = (id(sight), seed)
    if name not in _HELD:
        _HELD[name] = play(sight, seed) is None
    return _HELD[name]


@pytest.fixture(autouse=True)
def _quiet():
    # The product logs each fault; what fails is told by the outcome.
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_every_rule_is_seen_or_has_its_own_test():
    assert sorted([*SEEN, *DIRECTED]) == sorted(rules.RULES)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("rule", SEEN)
def test_a_script_of_faults_holds_with_the_rule_and_fails_without(rule):
    sight = SEEN[rule]
    for seed in sight.seeds:
        if play(sight, seed, (rule,)) is not None:
            assert _holds(sight, seed), f"seed {seed} fails with all rules"
            return
    pytest.fail(f"none of {list(sight.seeds)} sees that {rule} is missing")


@pytest.mark.parametrize("rule", DIRECTED)
def test_the_test_of_a_rule_is_there(rule):
    file, _, name = DIRECTED[rule].partition("::")
    source = ast.parse((TESTS / file).read_text())
    assert [one for one in source.body if isinstance(one, ast.FunctionDef) and one.name == name]


@pytest.mark.timeout(120)
def test_a_stop_that_never_ends_keeps_its_shard_from_nobody():
    for_ever = 1e6
    script = [line(9.9, "hang", "e1 e2", 1.0, for_ever), line(10.0, "drain", "e1 e2")]
    assert play(Sight(script), 2) is None  # the balancer sends the shard back to where it hangs
