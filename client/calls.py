"""What can be asked of a coordinator, as values.

Decides method, path, query and body of each request and the record of its answer. Pure; it must
not know nodes, sockets or retries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypedDict, TypeVar, Unpack

from client import outlooks, views
from client import protocol as wire
from client.call import Call, change, look, read, segment, within

T = TypeVar("T")

Verb = Literal["undrain", "cordon", "uncordon"]


def dry_run(call: Call[T]) -> Call[outlooks.DryRunAnswer]:
    """The same change, checked but not made."""
    return Call(
        method=call.method,
        path=call.path,
        answer=outlooks.DryRunAnswer,
        query=(*call.query, ("dry_run", "true")),
        body=call.body,
        needs_leader=call.needs_leader,
        if_match=call.if_match,
    )


# ---------------------------------------------------------------------------------- executors


def heartbeat(namespace: str, executor: str, report: wire.Heartbeat) -> Call[wire.HeartbeatAnswer]:
    """Renew a lease."""
    return Call(
        method="POST",
        path=f"{within(namespace)}/executors/{segment(executor)}/heartbeat",
        answer=wire.HeartbeatAnswer,
        body=wire.encoded(report),
        needs_leader=True,
    )


def assignments(
    namespace: str, executor: str, incarnation: str, *, after: str | None, wait_s: float
) -> Call[wire.AssignmentsAnswer]:
    """An executor's set; with a cursor, as soon as it changes."""
    path = f"{within(namespace)}/executors/{segment(executor)}/assignments"
    query = (("incarnation", incarnation), *_long_poll(after, wait_s))
    return replace(read(path, wire.AssignmentsAnswer), query=query)


def acks(namespace: str, executor: str, done: wire.Acks) -> Call[wire.AcksAnswer]:
    """What an executor has finished."""
    return Call(
        method="POST",
        path=f"{within(namespace)}/executors/{segment(executor)}/acks",
        answer=wire.AcksAnswer,
        body=wire.encoded(done),
        needs_leader=True,
    )


def deregister(namespace: str, executor: str, incarnation: str) -> Call[None]:
    """Say that an executor is gone."""
    return Call(
        method="DELETE",
        path=f"{within(namespace)}/executors/{segment(executor)}",
        answer=type(None),
        query=(("incarnation", incarnation),),
        needs_leader=True,
    )


# ------------------------------------------------------------------------------------ routers


def owner(namespace: str, key: str) -> Call[wire.OwnerAnswer]:
    """Who owns a shard; an open namespace makes it if need be."""
    return read(f"{within(namespace)}/shards/{segment(key)}/owner", wire.OwnerAnswer)


def routing(namespace: str, *, after: str | None, wait_s: float) -> Call[wire.RoutingAnswer]:
    """The routing table; with a cursor, as soon as it changes."""
    call = read(f"{within(namespace)}/routing", wire.RoutingAnswer)
    return replace(call, query=_long_poll(after, wait_s))


def _long_poll(after: str | None, wait_s: float) -> tuple[tuple[str, str], ...]:
    if after is None:
        return ()
    return (("after", after), ("wait", f"{wait_s:g}s"))


# ---------------------------------------------------------------------------------- operators


def create_namespace(
    namespace: str,
    kind: Literal["fixed", "open"],
    shard_count: int | None,
    policy: Mapping[str, object] | None,
) -> Call[views.NamespaceView]:
    """Make a namespace, or find it already so."""
    body = {"kind": kind, "shard_count": shard_count, "policy": policy}
    return change("PUT", within(namespace), views.NamespaceView, body)


def namespaces() -> Call[views.NamespacesPage]:
    """Every namespace."""
    return look("/v1/namespaces", views.NamespacesPage)


def namespace(name: str) -> Call[views.NamespaceView]:
    """One namespace with its policy."""
    return look(within(name), views.NamespaceView)


def change_policy(
    name: str, policy: Mapping[str, object], if_match: str, reason: str = ""
) -> Call[views.NamespaceView]:
    """Change the named parts of a policy."""
    body = {"policy": policy, "reason": reason}
    call = change("PATCH", within(name), views.NamespaceView, body)
    return replace(call, if_match=if_match)


def delete_namespace(name: str, *, force: bool) -> Call[None]:
    """Delete a namespace; with `force` also while executors live in it."""
    call = change("DELETE", within(name), type(None)).asking(confirm=name)
    return call.asking(force="true") if force else call


def executors(namespace: str, *, host: str | None, status: str | None) -> Call[views.ExecutorsPage]:
    """The executors of a namespace."""
    call = look(f"{within(namespace)}/executors", views.ExecutorsPage)
    return call.asking(host=host, status=status)


def executor(namespace: str, name: str) -> Call[views.ExecutorView]:
    """One executor."""
    return look(f"{within(namespace)}/executors/{segment(name)}", views.ExecutorView)


def drain_executor(
    namespace: str,
    name: str,
    reason: str,
    *,
    force: bool = False,
    expires_in_s: float | None = None,
) -> Call[views.DrainView]:
    """Move everything away from an executor by handoff, and place nothing."""
    path = f"{within(namespace)}/executors/{segment(name)}/drain"
    return _drain(path, reason, force=force, expires_in_s=expires_in_s)


def executor_verb(
    namespace: str, name: str, verb: Verb, reason: str, *, expires_in_s: float | None = None
) -> Call[views.ExecutorView]:
    """Undrain, cordon or uncordon an executor; only a cordon may end by itself."""
    path = f"{within(namespace)}/executors/{segment(name)}/{verb}"
    body = {"reason": reason, "expires_in_s": expires_in_s}
    return change("POST", path, views.ExecutorView, body)


def evict_executor(
    namespace: str, name: str, reason: str, *, force: bool, incarnation: str | None = None
) -> Call[views.ExecutorView]:
    """Close an incarnation; with `force` its lease is not waited for."""
    path = f"{within(namespace)}/executors/{segment(name)}/evict"
    body = {"reason": reason, "force": force or None, "incarnation": incarnation}
    return change("POST", path, views.ExecutorView, body)


def _drain(
    path: str, reason: str, *, force: bool, expires_in_s: float | None
) -> Call[views.DrainView]:
    body = {"reason": reason, "force": force or None, "expires_in_s": expires_in_s}
    return change("POST", path, views.DrainView, body)


def drain_host(
    namespace: str,
    host: str,
    reason: str,
    *,
    force: bool = False,
    expires_in_s: float | None = None,
) -> Call[views.DrainView]:
    """Drain every executor on a host, present and future."""
    path = f"{within(namespace)}/hosts/{segment(host)}/drain"
    return _drain(path, reason, force=force, expires_in_s=expires_in_s)


def host_verb(
    namespace: str, host: str, verb: Verb, reason: str, *, expires_in_s: float | None = None
) -> Call[views.HostView]:
    """Undrain, cordon or uncordon every executor on a host, present and future."""
    path = f"{within(namespace)}/hosts/{segment(host)}/{verb}"
    body = {"reason": reason, "expires_in_s": expires_in_s}
    return change("POST", path, views.HostView, body)


def drains(namespace: str) -> Call[views.DrainsPage]:
    """The drains of a namespace."""
    return look(f"{within(namespace)}/drains", views.DrainsPage)


def drain(namespace: str, drain_id: str) -> Call[views.DrainView]:
    """One drain with its progress."""
    return look(f"{within(namespace)}/drains/{segment(drain_id)}", views.DrainView)


def shards(
    namespace: str,
    *,
    executor: str | None,
    state: str | None,
    sort: str | None,
    limit: int | None,
    page: str | None,
) -> Call[views.ShardsPage]:
    """One page of shards."""
    call = look(f"{within(namespace)}/shards", views.ShardsPage)
    return call.asking(executor=executor, state=state, sort=sort, limit=limit, page=page)


def shard(namespace: str, key: str, at: str | None = None) -> Call[views.ShardView]:
    """One shard: where it is and why; and who owned it at a time in RFC 3339."""
    return look(f"{within(namespace)}/shards/{segment(key)}", views.ShardView).asking(at=at)


def shard_verb(
    namespace: str,
    key: str,
    verb: Literal["drain", "undrain", "pin", "unpin", "move"],
    body: Mapping[str, object],
) -> Call[views.ShardView]:
    """Park, free, pin, unpin or move a shard."""
    path = f"{within(namespace)}/shards/{segment(key)}/{verb}"
    return change("POST", path, views.ShardView, body)


def declare_shards(namespace: str, keys: Sequence[str]) -> Call[views.DeclareAnswer]:
    """Shards of an open namespace exist from now on."""
    return change("POST", f"{within(namespace)}/shards", views.DeclareAnswer, {"keys": list(keys)})


def retire_shard(namespace: str, key: str) -> Call[None]:
    """A shard of an open namespace is no longer needed."""
    return change("DELETE", f"{within(namespace)}/shards/{segment(key)}", type(None))


def balance(namespace: str) -> Call[outlooks.BalanceView]:
    """How level the fleet is."""
    return look(f"{within(namespace)}/balance", outlooks.BalanceView)


def balance_verb(
    namespace: str,
    verb: Literal["pause", "resume"],
    *,
    reason: str,
    expires_in_s: float | None,
) -> Call[outlooks.BalanceView]:
    """Stop or resume voluntary moves."""
    body = {"reason": reason, "expires_in_s": expires_in_s}
    return change("POST", f"{within(namespace)}/balance/{verb}", outlooks.BalanceView, body)


def balance_plan(
    namespace: str, level: Literal["default", "level", "tight"]
) -> Call[outlooks.PlanView]:
    """What a pass would do now."""
    path = f"{within(namespace)}/balance/plan"
    return look(path, outlooks.PlanView).asking(level=level)


def what_if(
    namespace: str,
    *,
    executors: int | None = None,
    without_hosts: Sequence[str] = (),
    without_executors: Sequence[str] = (),
    policy: Mapping[str, object] | None = None,
) -> Call[outlooks.WhatIfView]:
    """The planner on a fleet that is not there."""
    body = {
        "executors": executors,
        "without_hosts": list(without_hosts),
        "without_executors": list(without_executors),
        "policy": policy,
    }
    call = change("POST", f"{within(namespace)}/balance/what-if", outlooks.WhatIfView, body)
    return replace(call, is_mutation=False)


def capacity(namespace: str, executors: str | None) -> Call[outlooks.CapacityView]:
    """How many executors it takes."""
    path = f"{within(namespace)}/balance/capacity"
    return look(path, outlooks.CapacityView).asking(executors=executors)


def balance_history(namespace: str) -> Call[outlooks.HistoryView]:
    """What the present leader's balancer did."""
    return look(f"{within(namespace)}/balance/history", outlooks.HistoryView)


def decision(namespace: str, decision_id: str) -> Call[outlooks.DecisionDetails]:
    """One decision."""
    path = f"{within(namespace)}/balance/decisions/{segment(decision_id)}"
    return look(path, outlooks.DecisionDetails)


class EventFilters(TypedDict, total=False):
    """Which events are asked for; those that meet all of them."""

    kinds: Sequence[str]
    shard: str | None
    executor: str | None  # whom it happened to, or who gets the shard
    host: str | None  # also of the executors that are on it now
    since: str | None  # in RFC 3339
    until: str | None
    orders: bool  # only what somebody ordered


def events(
    namespace: str,
    *,
    after: str | None = None,
    wait_s: float = 0.0,
    limit: int | None = None,
    **filters: Unpack[EventFilters],
) -> Call[views.EventsPage]:
    """What happened: the newest, or with a cursor what came after it, as soon as it comes."""
    call = read(f"{within(namespace)}/events", views.EventsPage)
    call = replace(call, query=_long_poll(after, wait_s))
    return call.asking(
        kind=",".join(filters.get("kinds", ())),
        shard=filters.get("shard"),
        executor=filters.get("executor"),
        host=filters.get("host"),
        since=filters.get("since"),
        until=filters.get("until"),
        orders="true" if filters.get("orders") else None,
        limit=limit,
    )


def undo(namespace: str, event: int, reason: str, *, force: bool = False) -> Call[views.EventView]:
    """Take back the order that an event tells of."""
    path = f"{within(namespace)}/events/{event}/undo"
    return change("POST", path, views.EventView, {"reason": reason, "force": force or None})


def mass_failure(namespace: str) -> Call[views.MassFailureView]:
    """Whether a mass failure is on."""
    return look(f"{within(namespace)}/mass-failure", views.MassFailureView)


def proceed_mass_failure(namespace: str, reason: str) -> Call[views.MassFailureView]:
    """Give up the executors that are silent now."""
    path = f"{within(namespace)}/mass-failure/proceed"
    return change("POST", path, views.MassFailureView, {"reason": reason})


def cluster() -> Call[views.ClusterView]:
    """Nodes, roles, term and storage."""
    return read("/v1/cluster", views.ClusterView)


def transfer_leadership(to: str | None) -> Call[views.ClusterView]:
    """Hand the leadership to another node."""
    return change("POST", "/v1/cluster/transfer-leadership", views.ClusterView, {"to": to})


def move_member(node: str, api: str, raft: str | None) -> Call[views.ClusterView]:
    """Tell where the next process of a member is."""
    body = {"node": node, "api": api} | ({} if raft is None else {"raft": raft})
    return change("POST", "/v1/cluster/members", views.ClusterView, body)
