"""After any commands in any order: nothing that people ask about ever changed untold."""

from coordinator.core import commands as c
from coordinator.core.events import EventKind, position_at
from coordinator.core.namespace import NamespaceState
from coordinator.core.state import ClusterState
from tests.core.builders import space
from tests.core.test_properties import WALKS, begun, walk

SILENT = (c.DeclareShards,)
"""Births, of which there may be a million."""
REPORTS = (c.NoteStrays,)
"""What executors do, whatever the tables say."""


def facts(namespace: NamespaceState) -> dict[object, object]:
    """What somebody may ask "who did that, and when?" about."""
    info = namespace.info
    found: dict[object, object] = {
        "policy": info.policy,
        "pause": info.pause,
        "alarm": info.mass_failure,
    }
    for key, shard in namespace.shards.items():
        place = (shard.state, shard.executor, shard.epoch, shard.target, shard.overdue)
        pin = (shard.pin, shard.pin_note, shard.pin_until_ms)
        found["shard", key] = (*place, *pin, shard.fate, shard.strikes)
    for name, record in namespace.executors.items():
        standing = (record.evicted, record.predecessor, record.given_up, record.profile.status)
        found["executor", name] = (record.incarnation, *standing)
    found |= {
        ("drain", target): (drain.id, drain.finished_ms)
        for target, drain in namespace.drains.items()
    }
    found |= {("cordon", target): cordon.since_ms for target, cordon in namespace.cordons.items()}
    return found


def test_nothing_changes_untold_and_nothing_is_told_that_did_not_change() -> None:
    told: dict[EventKind, int] = {}
    for seed in range(WALKS):
        state: ClusterState = begun()
        for command in walk(seed, state):
            before, at = facts(space(state)), space(state).revision
            outcome = state.apply(command)
            news = list(space(state).events.after(position_at(at)))
            after = facts(space(state))
            changed = {
                fact for fact in before.keys() | after if before.get(fact) != after.get(fact)
            }
            if not isinstance(command, (*SILENT, *REPORTS)) and not is_warm_up(command):
                assert bool(news) == bool(changed), f"walk {seed}: {command}: {changed}, {news}"
            if isinstance(outcome, c.Refused):
                assert news == [], f"walk {seed}: {command}"
            for event in news:
                told[event.kind] = told.get(event.kind, 0) + 1
    assert len(told) >= 25, sorted(told)


def is_warm_up(command: c.Command) -> bool:
    """One that is through belongs to a handoff whose start was told."""
    return isinstance(command, c.Acknowledge) and bool(command.prepared)


def test_every_owner_of_a_shard_is_told_by_name_or_by_a_count() -> None:
    for seed in range(WALKS):
        state = begun()
        for command in walk(seed, state):
            owners = {key: shard.executor for key, shard in space(state).shards.items()}
            at = space(state).revision
            state.apply(command)
            moved = {
                key
                for key, shard in space(state).shards.items()
                if shard.executor != owners.get(key)
            }
            news = list(space(state).events.after(position_at(at)))
            named = {event.shard for event in news}
            counted = sum(event.count for event in news if event.shard is None)
            untold = moved - named
            assert len(untold) <= counted, f"walk {seed}: {command} moved {untold} untold: {news}"
