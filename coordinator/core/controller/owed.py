"""Moves and placements that are owed whatever the balance: vacant shards, drains, pins.

Not counted in the balancer's budget; drains have a limit of their own.
"""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from coordinator.core.commands import AssignShards, Command, StartHandoffs
from coordinator.core.controller import words
from coordinator.core.controller.fleet import Fleet, see
from coordinator.core.controller.homes import PLANNED_MAX, chunks, fitting, homes_for
from coordinator.core.controller.mind import Mind
from coordinator.core.controller.outage import is_withheld
from coordinator.core.controller.poison import homes_for_suspects, suspects_among
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import hash_place
from coordinator.core.shard import Cause, Shard, ShardState
from coordinator.core.types import ExecutorStatus, HandoffStart, InitialPlacement, Placement

OWED_CAUSES = (Cause.DRAIN, Cause.LEAVING, Cause.PIN)

HOLDS_MAX: Final = 6.0
"""The first assignments wait no longer than so many quiet periods in all, half a minute by default:
one executor that crashes and joins over and over must not keep all the others from work."""


def hold_until(namespace: NamespaceState, mind: Mind) -> float:
    """When the first assignments may be made: after a quiet period without joins.

    A namespace in which somebody owns something waits for nothing.
    """
    if namespace.has_owners:
        return mind.began_at
    hold_s = namespace.info.policy.initial_hold_s
    return min(mind.last_join_at + hold_s, mind.first_join_at + HOLDS_MAX * hold_s)


def plan_vacancies(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Owners for vacant shards."""
    if not namespace.vacant or now < hold_until(namespace, mind):
        return []
    fleet = see(namespace, mind, now)
    if not any(seat.is_open for seat in fleet.seats):
        return []
    for some in _vacant_shares(namespace):
        commands = _place(namespace, mind, fleet, some, now=now, at_ms=at_ms)
        if commands:
            return commands
    return []


def _vacant_shares(namespace: NamespaceState) -> Iterator[list[Shard]]:
    """Vacant shards, as many at a time as one step may find homes for."""
    shards, vacant = namespace.shards, namespace.vacant
    if len(vacant) <= PLANNED_MAX:
        yield [shards[key] for key in sorted(vacant)]
        return
    keys = chain.from_iterable(map(sorted, vacant.parts))
    while some := [shards[key] for key in islice(keys, PLANNED_MAX)]:
        yield some


def _place(
    namespace: NamespaceState,
    mind: Mind,
    fleet: Fleet,
    vacant: list[Shard],
    *,
    now: float,
    at_ms: int,
) -> list[Command]:
    """Owners for these, as far as they need not rest."""
    open_names = [seat.executor for seat in fleet.seats if seat.is_open]
    vacant = mind.failures.ready(vacant, open_names, now)
    suspects = suspects_among(vacant)
    apart = homes_for_suspects(namespace, mind, fleet, suspects, now) if suspects else []
    withheld = {shard.key for shard in suspects}
    vacant = [shard for shard in vacant if shard.key not in withheld]
    by_hash: list[Placement] = []
    if namespace.info.policy.initial_placement is InitialPlacement.HASH:
        fresh = [shard.key for shard in vacant if shard.epoch == 0 and shard.pin is None]
        by_hash = [Placement(k, e) for k, e in sorted(hash_place(fresh, open_names).items())]
    hashed = {placement.key for placement in by_hash}
    by_load = homes_for(mind, fleet, [s for s in vacant if s.key not in hashed])
    return [
        AssignShards(
            namespace=namespace.info.name,
            placements=tuple(chunk),
            cause=Cause.PLACED,
            at_ms=at_ms,
        )
        for chunk in chunks(apart + by_hash + by_load)
    ]


def plan_owed_moves(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Handoffs away from drained and leaving executors, and towards pins."""
    in_flight = sum(namespace.shards[key].next_cause in OWED_CAUSES for key in namespace.in_flight)
    room = namespace.info.policy.drain_in_flight - in_flight
    owed = [
        one
        for one in _owed_shards(namespace)
        if not is_withheld(namespace, mind, namespace.executors[one[0].executor or ""], now)
    ]
    if room <= 0 or not owed:
        return []
    fleet = see(namespace, mind, now)
    # A pin whose executor is silent just now is no reason to move the shard to anyone else.
    open_names = {seat.executor for seat in fleet.seats if seat.is_open}
    owed = [one for one in owed if one[1] is not Cause.PIN or one[0].pin in open_names]
    causes = {shard.key: cause for shard, cause in owed}
    homes = homes_for(mind, fleet, [shard for shard, _ in owed])
    moves = [
        _start(namespace, namespace.shards[home.key], home.executor, causes[home.key])
        for home in fitting(homes)[:room]
    ]
    if not moves:
        return []
    return [StartHandoffs(namespace=namespace.info.name, moves=tuple(moves), at_ms=at_ms)]


def _start(namespace: NamespaceState, shard: Shard, target: str, cause: Cause) -> HandoffStart:
    """A handoff that says in words what it is for, also to those who ask much later."""
    source = shard.executor or ""
    drain = namespace.drain_of(namespace.executors[source]) if cause is Cause.DRAIN else None
    reason = "" if drain is None else drain.reason
    note = words.owed(cause, source, target, reason)
    return HandoffStart(shard.key, shard.epoch, target, cause, note=note)


def _owed_shards(namespace: NamespaceState) -> Iterator[tuple[Shard, Cause]]:
    """Owned shards that belong elsewhere, and why."""
    for _, record in sorted(namespace.executors.items()):
        if record.predecessor is not None or record.evicted or not namespace.is_emptied(record):
            continue
        is_leaving = record.profile.status is ExecutorStatus.LEAVING
        for key in sorted(namespace.owned(record.id)):
            shard = namespace.shards[key]
            # A pin to a drained executor is two orders at odds: the drain shows as blocked.
            if shard.state is ShardState.OWNED and (is_leaving or shard.pin != record.id):
                yield shard, Cause.LEAVING if is_leaving else Cause.DRAIN
    # Looked at after every change, and nearly all pinned shards are where they belong.
    shards = namespace.shards
    astray = [key for key in namespace.pinned if (one := shards[key]).pin != one.executor]
    for key in sorted(astray):
        shard = shards[key]
        if shard.state is not ShardState.OWNED:
            continue
        owner = namespace.executors[shard.executor or ""]
        target = namespace.executors.get(shard.pin or "")
        if target is not None and namespace.accepts(target) and not namespace.is_emptied(owner):
            yield shard, Cause.PIN
