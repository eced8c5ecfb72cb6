"""The judge of histories: it finds what cannot be, and allows all that can."""

import itertools
import random

import pytest

from tests.sim import linearizable
from tests.sim.linearizable import UNKNOWN, Operation, Undecided, explain


def register(state, operation):
    match operation.name:
        case "write":
            return operation.argument
        case "swap":  # compare and set: (expected, value) -> whether it was set
            expected, value = operation.argument
            if operation.result not in (UNKNOWN, state == expected):
                return None
            return value if state == expected else state
        case _:
            return state if operation.result in (UNKNOWN, state) else None


def history(*rows):
    """Rows of (name, argument, called, returned, result)."""
    return [
        Operation(f"c{number}", name, argument, called, result, returned)
        if result is not UNKNOWN
        else Operation(f"c{number}", name, argument, called)
        for number, (name, argument, called, returned, result) in enumerate(rows)
    ]


GOOD = {
    "nothing": [],
    "one after the other": [
        ("write", 1, 0, 1, "ok"),
        ("read", None, 2, 3, 1),
        ("write", 2, 4, 5, "ok"),
        ("read", None, 6, 7, 2),
    ],
    "a read beside a write sees either": [
        ("write", 1, 0, 10, "ok"),
        ("read", None, 1, 2, 0),
        ("read", None, 3, 4, 1),
    ],
    "an unknown write that is seen late": [
        ("write", 1, 0, None, UNKNOWN),
        ("read", None, 5, 6, 0),
        ("read", None, 7, 8, 1),
    ],
    "an unknown write that never happened": [
        ("write", 1, 0, None, UNKNOWN),
        ("read", None, 5, 6, 0),
    ],
    "an unknown swap explains another's failure": [
        ("swap", (0, 1), 0, None, UNKNOWN),
        ("swap", (0, 2), 3, 4, False),
        ("read", None, 5, 6, 1),
    ],
    "touching ends overlap": [("write", 1, 0, 5, "ok"), ("read", None, 5, 6, 0)],
}
BAD = {
    "a lost write": [("write", 1, 0, 1, "ok"), ("read", None, 2, 3, 0)],
    "a stale read after a fresh one": [
        ("write", 1, 0, 10, "ok"),
        ("read", None, 1, 2, 1),
        ("read", None, 3, 4, 0),
    ],
    "a value out of the air": [("read", None, 0, 1, 7)],
    "two winners of one swap": [
        ("swap", (0, 1), 0, 5, True),
        ("swap", (0, 2), 0, 5, True),
    ],
    "two orders of two writes": [
        ("write", 1, 0, 10, "ok"),
        ("write", 2, 0, 10, "ok"),
        ("read", None, 11, 12, 1),
        ("read", None, 13, 14, 2),
    ],
    "an unknown write that is undone again": [
        ("write", 1, 0, None, UNKNOWN),
        ("read", None, 2, 3, 1),
        ("read", None, 4, 5, 0),
    ],
    "an unknown write seen before its call": [
        ("read", None, 0, 1, 1),
        ("write", 1, 2, None, UNKNOWN),
    ],
}


@pytest.mark.parametrize("rows", GOOD.values(), ids=GOOD)
def test_it_allows(rows):
    assert explain(history(*rows), register, 0) is None


@pytest.mark.parametrize("rows", BAD.values(), ids=BAD)
def test_it_finds(rows):
    found = explain(history(*rows), register, 0)
    assert found is not None
    assert "nothing explains" in found


def by_trying_all(operations, initial):
    """Every order of every choice of unknown operations: slow, and plainly right."""
    told = [operation for operation in operations if operation.result is not UNKNOWN]
    untold = [operation for operation in operations if operation.result is UNKNOWN]
    for count in range(len(untold) + 1):
        for chosen in itertools.combinations(untold, count):
            for order in itertools.permutations([*told, *chosen]):
                latest = -1.0
                state = initial
                for operation in order:
                    if operation.returned_s < latest:
                        break
                    latest = max(latest, operation.called_s)
                    state = register(state, operation)
                    if state is None:
                        break
                else:
                    return True
    return False


def random_history(rng):
    rows = []
    for _ in range(rng.randint(2, 5)):
        called = rng.randint(0, 8)
        result_of = {
            "write": lambda: "ok",
            "swap": lambda: rng.random() < 0.5,
            "read": lambda: rng.randint(0, 2),
        }
        name = rng.choice(sorted(result_of))
        argument = {
            "write": rng.randint(1, 2),
            "swap": (rng.randint(0, 2), rng.randint(1, 2)),
            "read": None,
        }[name]
        result = UNKNOWN if rng.random() < 0.3 else result_of[name]()
        # No two moments are equal: the slow judge has no rule for it.
        start = called + rng.random() / 2
        rows.append((name, argument, start, start + rng.randint(1, 6) + rng.random() / 2, result))
    return history(*rows)


def test_it_agrees_with_trying_every_order():
    rng = random.Random(1)
    verdicts = {True: 0, False: 0}
    for _ in range(600):
        operations = random_history(rng)
        expected = by_trying_all(operations, 0)
        assert (explain(operations, register, 0) is None) == expected, operations
        verdicts[expected] += 1
    assert min(verdicts.values()) > 100


def long_history(rng, count, unknown):
    """What a correct register tells: each operation takes effect at its middle."""
    moments = sorted((rng.uniform(0, count / 2), number) for number in range(count))
    state, made = 0, []
    for at, number in moments:
        early, late = at - rng.random(), at + rng.random()
        is_unknown = rng.random() < unknown
        if rng.random() < 0.5:
            state = number + 1
            row = (f"c{number}", "write", state, early)
            result = "ok"
        else:
            row = (f"c{number}", "read", None, early)
            result = state
        made.append(Operation(*row) if is_unknown else Operation(*row, result, late))
    return made


def test_three_hundred_operations_are_judged_at_once():
    rng = random.Random(2)
    operations = long_history(rng, 300, 0.02)
    assert explain(operations, register, 0) is None
    reads = [o for o in operations if o.name == "read" and o.result is not UNKNOWN]
    forged = Operation("liar", "read", None, 148.0, reads[0].result, 149.0)
    assert explain([*operations, forged], register, 0) is not None


def test_a_search_without_end_is_given_up_and_says_so(monkeypatch):
    monkeypatch.setattr(linearizable, "STEPS_MAX", 100)
    with pytest.raises(Undecided, match="300 operations"):
        explain(long_history(random.Random(3), 300, 0.0), register, 0)
