"""What the leader does about poison: parks what stands out, places suspects so that it can.

Only vacant shards are parked, right after the crash or the failed start that was one too many and
before anybody gets them again; a shard that runs is left alone whatever its past.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

from coordinator.core.commands import Command, ForgetStrikes, ParkPoison
from coordinator.core.controller.crashes import CrashBook
from coordinator.core.controller.fleet import Fleet
from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState
from coordinator.core.poison import (
    Scene,
    Spared,
    crashes_of,
    crashes_told,
    failed_starts_of,
    most_crashes,
    spared_of_crashes,
    spared_of_failures,
)
from coordinator.core.types import (
    Cause,
    Fate,
    Placement,
    Shard,
)

FORGET_EVERY_S: Final = 10.0
"""How often strikes are looked at; they are kept for minutes."""

KEYS_MAX: Final = 500
"""Of one command that forgets: 500 keys of 256 bytes fit a quarter of a log entry."""

TRIAL_LEASES: Final = 1.5
"""How long a single executor must live with half of the suspects before it gets the rest: a crash
shows within one lease."""

TOLD_MAX: Final = 5
"""Strikes that a note names, the newest: the rest is in the shard's record."""


def plan_poison(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Parks for what stands out now; strikes to forget."""
    if not namespace.struck:
        return []
    return _forgotten(namespace, mind, now, at_ms) or _parks(namespace, at_ms)


def _forgotten(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    keys, reason = _to_forget(namespace, mind.crashes, now)
    return [
        ForgetStrikes(
            namespace=namespace.info.name,
            keys=tuple(keys[start : start + KEYS_MAX]),
            reason=reason,
            at_ms=at_ms,
        )
        for start in range(0, len(keys), KEYS_MAX)
    ]


def _to_forget(namespace: NamespaceState, book: CrashBook, now: float) -> tuple[list[str], str]:
    """Keys of shards whose strikes say nothing any more, and why."""
    if now < book.storm_until:
        # A storm tells nothing, and takes what was told before with it.
        return [shard.key for shard in _struck(namespace)], "storm"
    if book.is_trial_over(now) and (waiting := suspects_among(_ownerless(namespace))):
        met = most_crashes(waiting)
        proven = (shard for shard in _struck(namespace) if shard.executor is not None)
        return [shard.key for shard in proven if crashes_of(shard) == met], "outlived a trial"
    if now >= book.looks_at:
        book.looks_at = now + FORGET_EVERY_S
        return book.due(_struck(namespace), now), "ran well"
    return [], ""


def _struck(namespace: NamespaceState) -> Iterator[Shard]:
    shards = (namespace.shards[key] for key in namespace.struck)
    return (shard for shard in shards if shard.fate is None)


def _ownerless(namespace: NamespaceState) -> list[Shard]:
    """Struck shards that are vacant, by key."""
    keys = sorted(key for key in namespace.struck if key in namespace.vacant)
    return [namespace.shards[key] for key in keys]


def _parks(namespace: NamespaceState, at_ms: int) -> list[Command]:
    """One at a time: the next is judged by what the first leaves."""
    suspects = _ownerless(namespace)
    if not suspects or namespace.info.policy.poison_threshold is None:
        return []
    scene = scene_of(namespace, namespace.info.policy.poison_threshold)
    met = most_crashes(suspects)
    at_top = sum(
        crashes_of(namespace.shards[key]) >= met and namespace.shards[key].fate is None
        for key in namespace.struck
    )
    for suspect in suspects:
        is_top = crashes_of(suspect) == met
        by_crashes = is_top and spared_of_crashes(suspect, at_top - 1, scene) is None
        if by_crashes or _spared_of_failures(suspect, scene) is None:
            return [
                ParkPoison(
                    namespace=namespace.info.name,
                    key=suspect.key,
                    strikes=len(suspect.strikes),
                    note=told(suspect),
                    at_ms=at_ms,
                )
            ]
    return []


def _spared_of_failures(suspect: Shard, scene: Scene) -> Spared | None:
    if suspect.cause is not Cause.FAILED:
        return Spared.BELOW_THRESHOLD
    return spared_of_failures(suspect, scene)


def scene_of(namespace: NamespaceState, threshold: int) -> Scene:
    """What a suspect is compared with now."""
    parked = parked_for_poison(namespace)
    failing = sum(
        namespace.shards[key].cause is Cause.FAILED
        for key in namespace.vacant
        if key in namespace.struck
    )
    return Scene(
        threshold=threshold,
        shards=len(namespace.shards) - parked,
        parked=parked,
        running=sum(len(namespace.owned(executor)) for executor in namespace.executors),
        failing=failing,
        executors=len(namespace.executors),
        open_executors=sum(map(namespace.accepts, namespace.executors.values())),
        crashes=crashes_told(namespace.shards[key] for key in namespace.struck),
    )


def parked_for_poison(namespace: NamespaceState) -> int:
    """How many shards are parked with strikes."""
    return sum(namespace.shards[key].fate is Fate.PARKED for key in namespace.struck)


def suspected_of_poison(namespace: NamespaceState) -> int:
    """How many met as much as a shard must meet to be parked, and are not."""
    threshold = namespace.info.policy.poison_threshold
    struck = (namespace.shards[key] for key in namespace.struck)
    return sum(
        threshold is not None and shard.fate is None and met >= threshold
        for shard in struck
        for met in (max(crashes_of(shard), failed_starts_of(shard)),)
    )


def told(suspect: Shard) -> str:
    """Why a shard is parked, for people."""
    crashes, failures = crashes_of(suspect), failed_starts_of(suspect)
    counts = [
        f"{count} {what}"
        for count, what in ((crashes, "crashes of its executor"), (failures, "failed starts"))
        if count
    ]
    newest = ", ".join(
        f"{one.executor} ({one.kind.replace('_', ' ')})" for one in suspect.strikes[-TOLD_MAX:]
    )
    return f"poison: present at {' and '.join(counts)}, last at {newest}"


# -- placing suspects ------------------------------------------------------------------------


def suspects_among(vacant: Sequence[Shard]) -> list[Shard]:
    """Those that met the most crashes, and more than one: to be placed so that the next tells."""
    met = most_crashes(vacant)
    return [shard for shard in vacant if met > 1 and crashes_of(shard) == met and not shard.pin]


def homes_for_suspects(
    namespace: NamespaceState, mind: Mind, fleet: Fleet, suspects: Sequence[Shard], now: float
) -> list[Placement]:
    """An executor for each, as many on each as on any other, whatever their loads.

    The next crash then leaves a share of them only. With one executor half of them wait until it
    has lived with the other half. Those that nobody may have yet are left out.
    """
    seats = [seat for seat in fleet.seats if seat.is_open]
    met = most_crashes(suspects)
    peers = {key for key in namespace.struck if crashes_of(namespace.shards[key]) == met}
    here = {
        seat.executor: sum(key in peers for key in namespace.owned(seat.executor)) for seat in seats
    }
    room = len(peers)
    if len(seats) == 1 and met >= (namespace.info.policy.poison_threshold or met + 1):
        trial_s = TRIAL_LEASES * namespace.info.lease_bound_s
        if now < mind.crashes.trial_end(now, trial_s):
            room = ceil(len(peers) / 2)
    capacities = {seat.executor: seat.capacity for seat in seats}
    crashes = crashes_told(namespace.shards[key] for key in namespace.struck)
    homes: list[Placement] = []
    for shard in suspects:
        executor = min(
            capacities,
            key=lambda name: (
                here[name],
                crashes[name],  # one that crashes by itself would speak against them
                fleet.loads[name] / capacities[name],
                name,
            ),
        )
        if here[executor] < room:
            here[executor] += 1
            fleet.counts[executor] += 1
            fleet.loads[executor] += mind.load_of(shard, fleet.median)
            homes.append(Placement(shard.key, executor))
    return homes
