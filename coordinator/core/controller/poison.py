"""What the leader does about poison: parks what stands out, places suspects so that it can.

Only vacant shards are parked, right after the crash or the failed start that was one too many and
before anybody gets them again; a shard that runs is left alone whatever its past.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heapify, heapreplace
from itertools import islice
from math import ceil
from operator import attrgetter
from typing import Final

from coordinator.core.commands import Command, ForgetStrikes, ParkPoison
from coordinator.core.controller.crashes import CrashBook
from coordinator.core.controller.fleet import Fleet
from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState
from coordinator.core.poison import (
    Scene,
    Spared,
    failed_starts_of,
    most_crashes,
    parked_max,
    spared_of_crashes,
    spared_of_failures,
)
from coordinator.core.shard import Cause, Shard
from coordinator.core.struck import crashes_of
from coordinator.core.types import Placement

KEYS_MAX: Final = 500
"""Of one command that forgets: 500 keys of 256 bytes fit a quarter of a log entry."""

FORGOTTEN_MAX: Final = 1_000
"""Shards whose strikes one step forgets, in 10 ms on every node; others with the next."""

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
        shards = (namespace.shards[key] for key in namespace.struck)
        told = (shard.key for shard in shards if shard.fate is None)
        return [*islice(told, FORGOTTEN_MAX)], "storm"
    if book.is_trial_over(now) and _has_suspects(namespace):
        # Who met as many and lived on.
        shards = (namespace.shards[key] for key in namespace.struck.met(_top(namespace)))
        proven = (s.key for s in shards if s.executor is not None and s.fate is None)
        return [*islice(proven, FORGOTTEN_MAX)], "outlived a trial"
    if now >= book.looks_at:
        return book.due(namespace, now), "ran well"
    return [], ""


def _top(namespace: NamespaceState) -> int:
    """The most crashes that a vacant shard met."""
    return namespace.struck.most_waiting


def _waiting_at_top(namespace: NamespaceState) -> Iterator[Shard]:
    """The vacant shards that met the most, if those met more than one."""
    shards = (namespace.shards[key] for key in namespace.struck.met(_top(namespace)))
    return (shard for shard in shards if shard.key in namespace.vacant)


def _has_suspects(namespace: NamespaceState) -> bool:
    """Whether some are to be placed so that the next crash tells."""
    return any(not shard.pin for shard in _waiting_at_top(namespace))


def _parks(namespace: NamespaceState, at_ms: int) -> list[Command]:
    """One at a time: the next is judged by what the first leaves."""
    threshold = namespace.info.policy.poison_threshold
    if not namespace.struck.waiting or threshold is None:
        return []
    met, at_top = _top(namespace), namespace.struck.at_least(_top(namespace))
    suspects: list[Shard] = []
    if at_top == 1 and met >= threshold:  # of several, none is to blame
        suspects += _waiting_at_top(namespace)
    if len(namespace.struck.failed) <= parked_max(len(namespace.shards)):  # of many, none
        suspects += (namespace.shards[key] for key in namespace.struck.failed)
    if not suspects:
        return []
    scene = scene_of(namespace, threshold)
    for suspect in sorted(suspects, key=attrgetter("key")):
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
    return Scene(
        threshold=threshold,
        shards=len(namespace.shards) - parked,
        parked=parked,
        running=sum(len(namespace.owned(executor)) for executor in namespace.executors),
        failing=len(namespace.struck.failed),
        executors=len(namespace.executors),
        open_executors=sum(map(namespace.accepts, namespace.executors.values())),
        crashes=namespace.struck.crashes_by_executor(),
    )


def parked_for_poison(namespace: NamespaceState) -> int:
    """How many shards are parked with strikes."""
    return namespace.struck.parked


def suspected_of_poison(namespace: NamespaceState) -> int:
    """How many met as much as a shard must meet to be parked, and are not."""
    threshold = namespace.info.policy.poison_threshold
    return 0 if threshold is None else namespace.struck.suspected(threshold)


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
    peers = namespace.struck.met(met)
    there = Counter(namespace.shards[key].executor for key in peers)
    here = {seat.executor: there[seat.executor] for seat in seats}
    room = len(peers)
    if len(seats) == 1 and met >= (namespace.info.policy.poison_threshold or met + 1):
        trial_s = TRIAL_LEASES * namespace.info.lease_bound_s
        if now < mind.crashes.trial_end(now, trial_s):
            room = ceil(len(peers) / 2)
    capacities = {seat.executor: seat.capacity for seat in seats}
    crashes = namespace.struck.crashes_by_executor()

    def turn(name: str) -> tuple[int, int, float, str]:
        # One that crashes by itself would speak against them.
        return here[name], crashes[name], fleet.loads[name] / capacities[name], name

    turns = [turn(name) for name in capacities]
    heapify(turns)
    homes: list[Placement] = []
    for shard in suspects:
        executor = turns[0][-1]
        if here[executor] >= room:
            break  # so has everybody else
        here[executor] += 1
        fleet.counts[executor] += 1
        fleet.loads[executor] += mind.load_of(shard, fleet.median)
        homes.append(Placement(shard.key, executor))
        heapreplace(turns, turn(executor))
    return homes
