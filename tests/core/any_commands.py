"""Commands of any kind with any values: mostly names that mean something, sometimes nonsense.

A drawn epoch of 0 stands for the shard's present one and 1 for the one before, the incarnations
`now` and `old` for the one on record and the one it waits for, so that commands hit; `aimed` puts
in what the state says at that moment.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

from hypothesis import strategies as st

from coordinator.core import commands as c
from coordinator.core.balance_series import BalancePoint
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import (
    Claim,
    CloseCause,
    ExecutorProfile,
    ExecutorStatus,
    HandoffPolicy,
    HandoffStart,
    Incarnation,
    NamespaceKind,
    Placement,
    Policy,
    TargetKind,
)
from tests.core.builders import NS

EXECUTORS = ("a", "b", "c")
NOW, OLD = "now", "old"
FRESH = tuple(str(number) for number in range(1, 40))
INCARNATIONS = (NOW,) * 20 + (OLD,) * 10 + FRESH[:10]
KEYS = ("0", "1", "2", "x")
HOSTS = ("h1", "h2")
PRESENT, BEFORE = 0, 1
NEWEST = 0
"""The newest order that there is."""

Pick = Callable[[Sequence[Any]], Any]
"""One of several: Hypothesis picks so that it can shrink, a seeded walk so that it gets far."""

_POOLS: dict[str, Sequence[Any]] = {
    "namespace": (NS,) * 30 + ("other",),
    "executor": EXECUTORS,
    "incarnation": INCARNATIONS,
    "predecessor": (OLD,) * 9 + FRESH[:1],
    "predecessor_dead": ("",) * 4 + (NOW, OLD),
    "at_ms": (0, 1, 2, -1),
    "expected_version": (None, None, 1, 2),
    "policy_version": (1, 2, 3),
    "key": KEYS,
    "note": ("", "why"),
    "is_crash": (False, True, True),
    "withhold_at": (0, 0, 1, 2, 3),
    "strikes": (0, 1, 2),
    "strays": (
        (),
        *((c.Stray(key=k, executor="a", epoch=7, other=o),) for k in KEYS for o in (None, "b")),
    ),
    "id": ("", "d1"),
    "reason": ("", "why"),
    "by": ("", "ops"),
    "executors": ((), EXECUTORS[:2]),
    "silent": (3, 0),
    "total": (3, 5),
    "until_ms": (None, 1),
    "targets": (
        (),
        tuple((TargetKind.EXECUTOR, one) for one in EXECUTORS),
        tuple((TargetKind.HOST, one) for one in HOSTS),
    ),
    "event": (NEWEST, NEWEST, NEWEST, 1),
    "claimed": (None,) * 6 + (0, 999, 2_000),
    "created_revision": (1, 1, 1, 2),
    "is_held": (True, True, False),
    "force": (False, True),
    "shard_count": (3, 3, 0, -1, 2**62),
    "cluster_id": ("one", "two", ""),
    "former_id": ("cluster", "one", ""),
    "epoch_base": (1_000, 0, -1, 2**53 - 1, 2**53, 2**63 - 1),
    "target": EXECUTORS + HOSTS,
    "node": ("n1", "n2", ""),
    "raft": ("10.0.0.1:1", "10.0.0.2:1", ""),
    "api": ("http://a", "http://b"),
    "policy": tuple(
        Policy(lease_ttl_s=ttl_s, handoff=HandoffPolicy(warmup=warmup), max_shards=most)
        for ttl_s in (10.0, 1.0)
        for warmup in (True, False)
        for most in (1_000_000, 3, 0)
    ),
    "profile": tuple(
        ExecutorProfile(host=host, status=status, back_within_s=back_within_s, version=version)
        for status, back_within_s in 6 * ((ExecutorStatus.ACTIVE, 0.0),)
        + ((ExecutorStatus.LEAVING, 0.0), (ExecutorStatus.LEAVING, 9.0))
        for host, version in zip(HOSTS, ("v1", "v2"), strict=True)
    ),
    "reserve_s": (5.0, 0.0, -1.0),
    "sweep_ms": (1, 1, 2),
    "number": (0, 0, 1, 2),
    "chunk": (b"", b"x"),
    "is_last": (False, True),
    "lease_s": (0.0, 0.0, 10.0, 60.0),
    "point": (None, BalancePoint(1, 2.0, 1.0, 0.5, 0.3, 4), BalancePoint(2, 2.0, 1.0, 0.5, 0.3, 4)),
}
_EPOCHS = (PRESENT,) * 6 + (BEFORE, 7, 2**53)


def _field(kind: type[c.Command], name: str, pick: Pick) -> Any:
    match name:
        case "incarnation" if kind is c.JoinExecutor:
            return pick((pick(FRESH), pick(FRESH), pick(INCARNATIONS)))
        case "cause":
            return pick(tuple(CloseCause if kind is c.CloseIncarnation else Cause))
        case "kind":
            return pick(tuple(NamespaceKind if kind is c.CreateNamespace else TargetKind))
        case "target" if kind is c.MoveShard:
            return pick(EXECUTORS)
        case "keys":
            return tuple(pick(KEYS) for _ in range(pick((0, 1, 2, 4))))
        case "claims" | "released" | "prepared" | "failed":
            return tuple(Claim(pick(KEYS), pick(_EPOCHS)) for _ in range(pick((0, 1, 1, 3))))
        case "placements":
            return tuple(Placement(pick(KEYS), pick(EXECUTORS)) for _ in range(pick((0, 5, 5))))
        case "given_up":
            return tuple(
                Incarnation(pick(EXECUTORS), pick(INCARNATIONS)) for _ in range(pick((0, 1, 3)))
            )
        case "moves":
            return tuple(
                HandoffStart(pick(KEYS), pick(_EPOCHS), pick(EXECUTORS), pick(tuple(Cause)))
                for _ in range(pick((0, 2, 4)))
            )
        case _:
            return pick(_POOLS[name])


# What brings shards to owners and moves them comes more often than the rest.
_OFTEN = (
    c.JoinExecutor,
    c.AssignShards,
    c.StartHandoffs,
    c.Acknowledge,
    c.Acknowledge,
    c.InheritShards,
    c.InheritShards,
    c.AssignShards,
    c.StartHandoffs,
    c.MarkOverdue,
    c.FinishOverdue,
    c.EndDrain,
    c.EndCordon,
    c.DeclareShards,
    c.UnparkShard,
    c.UndoOrder,
)
NAMESPACE_KINDS: tuple[type[c.Command], ...] = get_args(c.NamespaceCommand)
CLUSTER_KINDS: tuple[type[c.Command], ...] = get_args(c.ClusterCommand)
_LIKELY = NAMESPACE_KINDS + 6 * _OFTEN


def any_command(pick: Pick, kinds: Sequence[type[c.Command]] = _LIKELY) -> c.Command:
    """Any command to a namespace."""
    kind: type[c.Command] = pick(kinds)
    return kind(**{name: _field(kind, name, pick) for name in kind.__dataclass_fields__})


def any_entry(pick: Pick) -> c.Entry:
    """Anything that the log may carry."""
    command = any_command(pick, pick((_LIKELY, _LIKELY, _LIKELY, CLUSTER_KINDS)))
    if pick((False, False, False, True)):
        return c.Once(key=pick(("k1", "k2")), digest=pick(("d1", "d1", "d2")), command=command)
    return command


@st.composite
def commands(draw: st.DrawFn) -> c.Command:
    """Any command to a namespace, as Hypothesis draws it."""
    return any_command(lambda pool: draw(st.sampled_from(pool)))


@st.composite
def entries(draw: st.DrawFn) -> c.Entry:
    """Anything that the log may carry, as Hypothesis draws it."""
    return any_entry(lambda pool: draw(st.sampled_from(pool)))


def aimed(entry: c.Entry, state: ClusterState) -> c.Entry:
    """The entry with the epochs that the state has at this moment."""
    if isinstance(entry, c.Once):
        command = aimed(entry.command, state)
        assert not isinstance(command, c.Once)
        return replace(entry, command=command)
    entry = _aim_incarnations(entry, state)
    match entry:
        case c.StartHandoffs():
            return replace(
                entry,
                moves=tuple(replace(m, epoch=_aim(state, m.key, m.epoch)) for m in entry.moves),
            )
        case c.AbortHandoffs() | c.MarkOverdue() | c.FinishOverdue():
            return replace(entry, claims=_aim_all(state, entry.claims))
        case c.ProceedMassFailure():
            return replace(
                entry, given_up=tuple(_aim_incarnation(state, one) for one in entry.given_up)
            )
        case c.UndoOrder(event=event) if event == NEWEST:
            return replace(entry, event=_newest_order(state))
        case c.Acknowledge():
            return replace(
                entry,
                released=_aim_all(state, entry.released),
                prepared=_aim_all(state, entry.prepared),
                failed=_aim_all(state, entry.failed),
            )
        case _:
            return entry


def _aim_incarnations(command: c.Command, state: ClusterState) -> c.Command:
    namespace = state.namespaces.get(NS)
    record = None
    if namespace is not None:
        record = namespace.executors.get(getattr(command, "executor", ""))
    names = {NOW: "1", OLD: "2"}
    if namespace is not None and isinstance(command, c.EndReservation):
        kept = namespace.reservations.get(command.executor)
        names[NOW] = "1" if kept is None else kept.incarnation
    elif record is not None:
        names = {NOW: record.incarnation, OLD: record.predecessor or "none"}
    fields = ("incarnation", "predecessor", "predecessor_dead")
    present = {name: getattr(command, name) for name in fields if hasattr(command, name)}
    return replace(command, **{name: names.get(one, one) for name, one in present.items()})


def _aim_incarnation(state: ClusterState, one: Incarnation) -> Incarnation:
    namespace = state.namespaces.get(NS)
    record = None if namespace is None else namespace.executors.get(one.executor)
    is_now = record is not None and one.incarnation == NOW
    return Incarnation(one.executor, record.incarnation) if record and is_now else one


def _newest_order(state: ClusterState) -> int:
    namespace = state.namespaces.get(NS)
    events = () if namespace is None else namespace.events
    return max((one.id for one in events if one.former is not None), default=NEWEST)


def _aim_all(state: ClusterState, claims: Sequence[Claim]) -> tuple[Claim, ...]:
    return tuple(Claim(claim.key, _aim(state, claim.key, claim.epoch)) for claim in claims)


def _aim(state: ClusterState, key: str, epoch: int) -> int:
    namespace = state.namespaces.get(NS)
    shard = None if namespace is None else namespace.shards.get(key)
    if shard is None or epoch not in (PRESENT, BEFORE):
        return epoch
    return shard.epoch if epoch == PRESENT else max(0, shard.epoch - 1)
