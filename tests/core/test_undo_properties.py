"""After any commands: an order that is taken back at once leaves what was ordered before it."""

import random
from collections.abc import Iterator

from coordinator.codec import decode_entry, encode_entry
from coordinator.core import commands as c
from coordinator.core.events import Event, EventKind, position_at
from coordinator.core.namespace import NamespaceState
from coordinator.core.state import ClusterState
from tests.core.builders import NS, space
from tests.core.test_properties import begun, walk

SEEDS = range(60)
STEPS = 100


def ordered(namespace: NamespaceState) -> dict[object, object]:
    """All that operators ordered and that is in force, and whose each shard is."""
    info = namespace.info
    pause = info.pause
    found: dict[object, object] = {
        "policy": info.policy,
        "pause": None if pause is None else (pause.reason, pause.until_ms),
    }
    for key, shard in namespace.shards.items():
        pin = (shard.pin, shard.pin_note, shard.pin_until_ms)
        found["shard", key] = (shard.executor, shard.fate, shard.note, pin)
    for target, drain in namespace.drains.items():
        found["drain", target] = (drain.id, drain.reason, drain.until_ms)
    for target, cordon in namespace.cordons.items():
        found["cordon", target] = (cordon.reason, cordon.until_ms)
    return found


def told(state: ClusterState, entry: c.Entry) -> Event | None:
    """Apply it, as it comes from the log; the event of the order that it was, if it was one."""
    seen = position_at(space(state).revision)
    outcome = state.apply(decode_entry(encode_entry(entry)))
    is_undo = isinstance(entry, c.UndoOrder)
    assert not is_undo or state.check_invariants() == []
    if isinstance(outcome, c.Refused):
        # What would be over, whose executor is gone, or that nobody owned before.
        assert not is_undo or outcome.reason in {c.Reason.CONFLICT, c.Reason.EXECUTOR_NOT_FOUND}
        return None
    orders = [one for one in space(state).events.after(seen) if one.former is not None]
    return orders[0] if orders else None


def orders_and_others(seed: int, state: ClusterState) -> Iterator[c.Command]:
    return (one for one in walk(seed, state, STEPS) if not isinstance(one, c.UndoOrder))


def undo(event: Event) -> c.UndoOrder:
    return c.UndoOrder(namespace=NS, event=event.id, reason="", by="ops", at_ms=event.at_ms)


def test_an_order_taken_back_at_once_leaves_what_was_there() -> None:
    done: dict[EventKind, int] = {}
    for seed in SEEDS:
        state, chance = begun(), random.Random(seed)
        for command in orders_and_others(seed, state):
            before = ordered(space(state))
            event = told(state, command)
            # Some are left in force, or there would be nothing to end.
            if event is None or chance.random() < 0.5 or told(state, undo(event)) is None:
                continue
            assert ordered(space(state)) == before, f"walk {seed}: {command}"
            done[event.kind] = done.get(event.kind, 0) + 1
    # Every order that can be taken back was, at least once.
    assert len(done) == 12, sorted(done)


def test_what_was_taken_back_can_be_given_again() -> None:
    again = 0
    for seed in SEEDS[:20]:
        state = begun()
        for command in orders_and_others(seed, state):
            event = told(state, command)
            given = ordered(space(state))
            undone = None if event is None else told(state, undo(event))
            redone = None if undone is None else told(state, undo(undone))
            # A move goes back to its owner at once, and forth again by handoff.
            if redone is not None and redone.kind is not EventKind.MOVE_ORDERED:
                assert ordered(space(state)) == given, f"walk {seed}: {command}"
                again += 1
    assert again > 50
