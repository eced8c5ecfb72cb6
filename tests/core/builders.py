"""States written short: `fleet(executors=3, shards=12)`, and commands without their dull parts."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from coordinator.core import commands as c
from coordinator.core.namespace import NamespaceState
from coordinator.core.shard import Cause, Shard
from coordinator.core.state import ClusterState
from coordinator.core.types import (
    BalancerPolicy,
    Claim,
    CloseCause,
    ExecutorProfile,
    ExecutorStatus,
    HandoffPolicy,
    HandoffStart,
    NamespaceKind,
    Placement,
    Policy,
    TargetKind,
)

NS = "ns"
EPOCH_BASE = 1_000
AT_MS = 1_700_000_000_000

WARM = Policy(handoff=HandoffPolicy(warmup=True))
PLAIN = Policy()


def bootstrapped(epoch_base: int = EPOCH_BASE) -> ClusterState:
    state = ClusterState()
    applied(state, c.Bootstrap(cluster_id="cluster", epoch_base=epoch_base))
    return state


def empty(
    shards: int = 0,
    *,
    policy: Policy = PLAIN,
    kind: NamespaceKind | None = None,
    is_recovering: bool = False,
) -> ClusterState:
    """A namespace without executors; open when it has no shards, unless told otherwise.

    Nobody brings anything from before, unless it is recovering: then its claim window is open.
    """
    state = bootstrapped()
    chosen = kind or (NamespaceKind.FIXED if shards else NamespaceKind.OPEN)
    count = shards if chosen is NamespaceKind.FIXED else 0
    applied(state, create(chosen, count, policy=policy))
    if not is_recovering:
        close_window(state)
    if shards and chosen is NamespaceKind.OPEN:
        applied(state, c.DeclareShards(namespace=NS, keys=tuple(map(str, range(shards)))))
    return state


def fleet(
    executors: int = 3,
    shards: int = 12,
    *,
    policy: Policy = PLAIN,
    kind: NamespaceKind | None = None,
    are_placed: bool = True,
) -> ClusterState:
    """Executors e1, e2, … on hosts h1, h2, …; shard n belongs to the executor n modulo count."""
    state = empty(shards, policy=policy, kind=kind)
    for number in range(1, executors + 1):
        applied(state, join(f"e{number}"))
    if are_placed and executors:
        assign(state, *((str(n), f"e{n % executors + 1}") for n in range(shards)))
    return state


def close_window(state: ClusterState, name: str = NS) -> c.Applied:
    """As the leader does when all leases of before have run out."""
    created = space(state, name).info.created_revision
    return applied(state, c.CloseWindow(namespace=name, created_revision=created, at_ms=AT_MS))


def space(state: ClusterState, name: str = NS) -> NamespaceState:
    return state.namespaces[name]


def shard(state: ClusterState, key: str = "0") -> Shard:
    return space(state).shards[key]


def owners(state: ClusterState) -> dict[str, str | None]:
    return {key: one.executor for key, one in sorted(space(state).shards.items())}


def epoch(state: ClusterState, key: str = "0") -> int:
    return shard(state, key).epoch


def held(state: ClusterState, executor: str, incarnation: str = "") -> dict[str, str]:
    """Shard key to what the executor's present (or named) incarnation is to do with it."""
    rows = space(state).assignments(executor, incarnation or f"{executor}-1")
    return {key: duty for key, _, duty in rows}


# -- outcomes ----------------------------------------------------------------------------------


def applied(state: ClusterState, entry: c.Entry) -> c.Applied:
    """Apply, and demand that it is applied and leaves nothing wrong."""
    outcome = state.apply(entry)
    assert isinstance(outcome, c.Applied), outcome
    assert state.check_invariants() == []
    return outcome


def refused(state: ClusterState, entry: c.Entry) -> c.Refused:
    """Apply, and demand that it is refused and changes nothing but remembered requests."""
    before = replace(state.image(), once=())
    outcome = state.apply(entry)
    assert isinstance(outcome, c.Refused), outcome
    assert replace(state.image(), once=()) == before
    return outcome


# -- commands ----------------------------------------------------------------------------------


def create(
    kind: NamespaceKind = NamespaceKind.OPEN,
    count: int = 0,
    *,
    name: str = NS,
    policy: Policy = PLAIN,
) -> c.CreateNamespace:
    return c.CreateNamespace(
        namespace=name, kind=kind, shard_count=count, policy=policy, at_ms=AT_MS
    )


def profile(executor: str = "e1", **changes: Any) -> ExecutorProfile:
    host = "h" + executor.removeprefix("e")
    return replace(ExecutorProfile(host=host, address=f"{host}:1"), **changes)


def join(executor: str, incarnation: str = "", *, dead: str = "", **changes: Any) -> c.JoinExecutor:
    return c.JoinExecutor(
        namespace=NS,
        executor=executor,
        incarnation=incarnation or f"{executor}-1",
        profile=profile(executor, **changes),
        at_ms=AT_MS,
        predecessor_dead=dead,
    )


def update(executor: str, incarnation: str = "", **changes: Any) -> c.UpdateExecutor:
    return c.UpdateExecutor(
        namespace=NS,
        executor=executor,
        incarnation=incarnation or f"{executor}-1",
        profile=profile(executor, **changes),
    )


def leaving(executor: str, back_within_s: float = 0.0) -> c.UpdateExecutor:
    return update(executor, status=ExecutorStatus.LEAVING, back_within_s=back_within_s)


def inherit(executor: str, predecessor: str = "") -> c.InheritShards:
    return c.InheritShards(
        namespace=NS,
        executor=executor,
        predecessor=predecessor or f"{executor}-1",
        at_ms=AT_MS,
    )


def evict(executor: str, incarnation: str = "") -> c.EvictExecutor:
    return c.EvictExecutor(namespace=NS, executor=executor, incarnation=incarnation)


def close(
    executor: str,
    *placements: tuple[str, str],
    incarnation: str = "",
    cause: CloseCause = CloseCause.EXPIRED,
    reserve_s: float = 0.0,
) -> c.CloseIncarnation:
    return c.CloseIncarnation(
        namespace=NS,
        executor=executor,
        incarnation=incarnation or f"{executor}-1",
        cause=cause,
        placements=tuple(Placement(*one) for one in placements),
        at_ms=AT_MS,
        reserve_s=reserve_s,
    )


def go(state: ClusterState, executor: str, back_within_s: float = 30.0) -> c.Applied:
    """The executor says that it will be back, stops everything and is gone."""
    applied(state, leaving(executor, back_within_s))
    return applied(state, close(executor, cause=CloseCause.LEFT, reserve_s=back_within_s))


def end_reservation(executor: str, incarnation: str = "") -> c.EndReservation:
    return c.EndReservation(
        namespace=NS, executor=executor, incarnation=incarnation or f"{executor}-1", at_ms=AT_MS
    )


def assign(state: ClusterState, *placements: tuple[str, str]) -> c.Applied:
    return applied(
        state,
        c.AssignShards(
            namespace=NS,
            placements=tuple(Placement(*one) for one in placements),
            cause=Cause.PLACED,
            at_ms=AT_MS,
        ),
    )


def start(state: ClusterState, key: str, target: str, cause: Cause = Cause.BALANCE) -> int:
    """Open a handoff; how many were opened."""
    move = HandoffStart(key, epoch(state, key), target, cause)
    return applied(state, c.StartHandoffs(namespace=NS, moves=(move,))).count


def claim(
    executor: str,
    *claims: tuple[str, int],
    incarnation: str = "",
    is_held: bool = True,
    at_ms: int = AT_MS,
) -> c.AdoptClaims:
    return c.AdoptClaims(
        namespace=NS,
        executor=executor,
        incarnation=incarnation or f"{executor}-1",
        claims=tuple(Claim(*one) for one in claims),
        is_held=is_held,
        at_ms=at_ms,
    )


def ack(
    executor: str,
    incarnation: str = "",
    *,
    released: Iterable[tuple[str, int]] = (),
    prepared: Iterable[tuple[str, int]] = (),
    failed: Iterable[tuple[str, int]] = (),
) -> c.Acknowledge:
    return c.Acknowledge(
        namespace=NS,
        executor=executor,
        incarnation=incarnation or f"{executor}-1",
        released=tuple(Claim(*one) for one in released),
        prepared=tuple(Claim(*one) for one in prepared),
        failed=tuple(Claim(*one) for one in failed),
        at_ms=AT_MS,
    )


def release(state: ClusterState, key: str = "0") -> int:
    """The owner acknowledges that it stopped the shard."""
    owner = shard(state, key).executor or ""
    incarnation = space(state).executors[owner].incarnation
    return applied(state, ack(owner, incarnation, released=[(key, epoch(state, key))])).count


def overdue(state: ClusterState, key: str = "0") -> int:
    claims = (Claim(key, epoch(state, key)),)
    return applied(state, c.MarkOverdue(namespace=NS, claims=claims)).count


def finish(state: ClusterState, key: str = "0") -> int:
    claims = (Claim(key, epoch(state, key)),)
    return applied(state, c.FinishOverdue(namespace=NS, claims=claims, at_ms=AT_MS)).count


def abort(state: ClusterState, key: str = "0") -> int:
    claims = (Claim(key, epoch(state, key)),)
    return applied(state, c.AbortHandoffs(namespace=NS, claims=claims, at_ms=AT_MS)).count


def move(key: str, target: str) -> c.MoveShard:
    return c.MoveShard(namespace=NS, key=key, target=target, at_ms=AT_MS)


def park(key: str, note: str = "poison") -> c.ParkShard:
    return c.ParkShard(namespace=NS, key=key, note=note)


def unpark(key: str) -> c.UnparkShard:
    return c.UnparkShard(namespace=NS, key=key)


def pin(key: str, executor: str, note: str = "cache") -> c.PinShard:
    return c.PinShard(namespace=NS, key=key, executor=executor, note=note)


def unpin(key: str) -> c.UnpinShard:
    return c.UnpinShard(namespace=NS, key=key)


def retire(key: str) -> c.RetireShard:
    return c.RetireShard(namespace=NS, key=key)


def declare(*keys: str) -> c.DeclareShards:
    return c.DeclareShards(namespace=NS, keys=keys)


def drain(target: str, kind: TargetKind = TargetKind.EXECUTOR) -> c.StartDrain:
    return c.StartDrain(
        namespace=NS,
        id=f"drain-{target}",
        kind=kind,
        target=target,
        reason="upgrade",
        by="ops",
        at_ms=AT_MS,
    )


def undrain(target: str, kind: TargetKind = TargetKind.EXECUTOR) -> c.EndDrain:
    return c.EndDrain(namespace=NS, kind=kind, target=target)


def cordon(target: str, kind: TargetKind = TargetKind.EXECUTOR) -> c.StartCordon:
    return c.StartCordon(
        namespace=NS, kind=kind, target=target, reason="noisy", by="ops", at_ms=AT_MS
    )


def uncordon(target: str, kind: TargetKind = TargetKind.EXECUTOR) -> c.EndCordon:
    return c.EndCordon(namespace=NS, kind=kind, target=target)


def set_policy(policy: Policy, version: int | None = None) -> c.SetPolicy:
    return c.SetPolicy(namespace=NS, policy=policy, expected_version=version)


def balancer(**changes: Any) -> Policy:
    return Policy(balancer=replace(BalancerPolicy(), **changes))
