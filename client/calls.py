"""What can be asked of a coordinator, as values.

Decides method, path, query and body of each request and the record of its answer. Pure; it must
not know nodes, sockets or retries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

from client import outlooks, views
from client import protocol as wire

T = TypeVar("T")

Verb = Literal["undrain", "cordon", "uncordon"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request, independent of the node it goes to."""

    method: str
    path: str
    answer: type[T]
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    needs_leader: bool = False  # goes straight to the leader when it is known, else to any node
    is_mutation: bool = False  # an operator's change: carries an idempotency key
    if_match: str = ""

    @property
    def target(self) -> str:
        """Path and query as sent."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path

    def asking(self, **query: str | int | None) -> "Call[T]":
        """The same request with these query parameters; those that are None or empty are left."""
        extra = tuple(
            (name, str(value)) for name, value in query.items() if value not in {None, ""}
        )
        return replace(self, query=self.query + extra)


def _segment(text: str) -> str:
    # A segment of dots alone would be taken for "here" or "one up" and be folded away.
    return text.replace(".", "%2E") if text in {".", ".."} else quote(text, safe="")


def _ns(namespace: str) -> str:
    return f"/v1/namespaces/{_segment(namespace)}"


def _read(path: str, answer: type[T]) -> Call[T]:
    return Call(method="GET", path=path, answer=answer)


def _look(path: str, answer: type[T]) -> Call[T]:
    """An operator's read: of the leader, which has the loads and what was changed just now."""
    return replace(_read(path, answer), needs_leader=True)


def _change(
    method: str, path: str, answer: type[T], body: Mapping[str, object] | None = None
) -> Call[T]:
    sent = None if body is None else {k: v for k, v in body.items() if v is not None}
    return Call(
        method=method,
        path=path,
        answer=answer,
        body=None if sent is None else wire.encoded(sent),
        needs_leader=True,
        is_mutation=True,
    )


def dry_run(call: Call[T]) -> Call[views.DryRunAnswer]:
    """The same change, checked but not made."""
    return Call(
        method=call.method,
        path=call.path,
        answer=views.DryRunAnswer,
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
        path=f"{_ns(namespace)}/executors/{_segment(executor)}/heartbeat",
        answer=wire.HeartbeatAnswer,
        body=wire.encoded(report),
        needs_leader=True,
    )


def assignments(
    namespace: str, executor: str, incarnation: str, *, after: str | None, wait_s: float
) -> Call[wire.AssignmentsAnswer]:
    """An executor's set; with a cursor, as soon as it changes."""
    path = f"{_ns(namespace)}/executors/{_segment(executor)}/assignments"
    query = (("incarnation", incarnation), *_long_poll(after, wait_s))
    return replace(_read(path, wire.AssignmentsAnswer), query=query)


def acks(namespace: str, executor: str, done: wire.Acks) -> Call[wire.AcksAnswer]:
    """What an executor has finished."""
    return Call(
        method="POST",
        path=f"{_ns(namespace)}/executors/{_segment(executor)}/acks",
        answer=wire.AcksAnswer,
        body=wire.encoded(done),
        needs_leader=True,
    )


def deregister(namespace: str, executor: str, incarnation: str) -> Call[None]:
    """Say that an executor is gone."""
    return Call(
        method="DELETE",
        path=f"{_ns(namespace)}/executors/{_segment(executor)}",
        answer=type(None),
        query=(("incarnation", incarnation),),
        needs_leader=True,
    )


# ------------------------------------------------------------------------------------ routers


def owner(namespace: str, key: str) -> Call[wire.OwnerAnswer]:
    """Who owns a shard; an open namespace makes it if need be."""
    return _read(f"{_ns(namespace)}/shards/{_segment(key)}/owner", wire.OwnerAnswer)


def routing(namespace: str, *, after: str | None, wait_s: float) -> Call[wire.RoutingAnswer]:
    """The routing table; with a cursor, as soon as it changes."""
    call = _read(f"{_ns(namespace)}/routing", wire.RoutingAnswer)
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
    return _change("PUT", _ns(namespace), views.NamespaceView, body)


def namespaces() -> Call[views.NamespacesPage]:
    """Every namespace."""
    return _look("/v1/namespaces", views.NamespacesPage)


def namespace(name: str) -> Call[views.NamespaceView]:
    """One namespace with its policy."""
    return _look(_ns(name), views.NamespaceView)


def change_policy(
    name: str, policy: Mapping[str, object], if_match: str
) -> Call[views.NamespaceView]:
    """Change the named parts of a policy."""
    call = _change("PATCH", _ns(name), views.NamespaceView, {"policy": policy})
    return replace(call, if_match=if_match)


def delete_namespace(name: str, *, force: bool) -> Call[None]:
    """Delete a namespace; with `force` also while executors live in it."""
    call = _change("DELETE", _ns(name), type(None)).asking(confirm=name)
    return call.asking(force="true") if force else call


def executors(namespace: str, *, host: str | None, status: str | None) -> Call[views.ExecutorsPage]:
    """The executors of a namespace."""
    call = _look(f"{_ns(namespace)}/executors", views.ExecutorsPage)
    return call.asking(host=host, status=status)


def executor(namespace: str, name: str) -> Call[views.ExecutorView]:
    """One executor."""
    return _look(f"{_ns(namespace)}/executors/{_segment(name)}", views.ExecutorView)


def drain_executor(namespace: str, name: str, reason: str) -> Call[views.DrainView]:
    """Move everything away from an executor by handoff, and place nothing."""
    path = f"{_ns(namespace)}/executors/{_segment(name)}/drain"
    return _change("POST", path, views.DrainView, {"reason": reason})


def executor_verb(namespace: str, name: str, verb: Verb, reason: str) -> Call[views.ExecutorView]:
    """Undrain, cordon or uncordon an executor."""
    path = f"{_ns(namespace)}/executors/{_segment(name)}/{verb}"
    return _change("POST", path, views.ExecutorView, {"reason": reason})


def evict_executor(
    namespace: str, name: str, reason: str, *, force: bool
) -> Call[views.ExecutorView]:
    """Close an incarnation; with `force` its lease is not waited for."""
    path = f"{_ns(namespace)}/executors/{_segment(name)}/evict"
    return _change("POST", path, views.ExecutorView, {"reason": reason, "force": force or None})


def drain_host(namespace: str, host: str, reason: str) -> Call[views.DrainView]:
    """Drain every executor on a host, present and future."""
    path = f"{_ns(namespace)}/hosts/{_segment(host)}/drain"
    return _change("POST", path, views.DrainView, {"reason": reason})


def host_verb(namespace: str, host: str, verb: Verb, reason: str) -> Call[views.HostView]:
    """Undrain, cordon or uncordon every executor on a host, present and future."""
    path = f"{_ns(namespace)}/hosts/{_segment(host)}/{verb}"
    return _change("POST", path, views.HostView, {"reason": reason})


def drains(namespace: str) -> Call[views.DrainsPage]:
    """The drains of a namespace."""
    return _look(f"{_ns(namespace)}/drains", views.DrainsPage)


def drain(namespace: str, drain_id: str) -> Call[views.DrainView]:
    """One drain with its progress."""
    return _look(f"{_ns(namespace)}/drains/{_segment(drain_id)}", views.DrainView)


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
    call = _look(f"{_ns(namespace)}/shards", views.ShardsPage)
    return call.asking(executor=executor, state=state, sort=sort, limit=limit, page=page)


def shard(namespace: str, key: str) -> Call[views.ShardView]:
    """One shard: where it is and why."""
    return _look(f"{_ns(namespace)}/shards/{_segment(key)}", views.ShardView)


def shard_verb(
    namespace: str,
    key: str,
    verb: Literal["drain", "undrain", "pin", "unpin", "move"],
    body: Mapping[str, object],
) -> Call[views.ShardView]:
    """Park, free, pin, unpin or move a shard."""
    path = f"{_ns(namespace)}/shards/{_segment(key)}/{verb}"
    return _change("POST", path, views.ShardView, body)


def declare_shards(namespace: str, keys: Sequence[str]) -> Call[views.DeclareAnswer]:
    """Shards of an open namespace exist from now on."""
    return _change("POST", f"{_ns(namespace)}/shards", views.DeclareAnswer, {"keys": list(keys)})


def retire_shard(namespace: str, key: str) -> Call[None]:
    """A shard of an open namespace is no longer needed."""
    return _change("DELETE", f"{_ns(namespace)}/shards/{_segment(key)}", type(None))


def balance(namespace: str) -> Call[views.BalanceView]:
    """How level the fleet is."""
    return _look(f"{_ns(namespace)}/balance", views.BalanceView)


def balance_verb(
    namespace: str,
    verb: Literal["pause", "resume"],
    *,
    reason: str,
    expires_in_s: float | None,
) -> Call[views.BalanceView]:
    """Stop or resume voluntary moves."""
    body = {"reason": reason, "expires_in_s": expires_in_s}
    return _change("POST", f"{_ns(namespace)}/balance/{verb}", views.BalanceView, body)


def balance_plan(
    namespace: str, level: Literal["default", "level", "tight"]
) -> Call[outlooks.PlanView]:
    """What a pass would do now."""
    path = f"{_ns(namespace)}/balance/plan"
    return _look(path, outlooks.PlanView).asking(level=level)


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
    call = _change("POST", f"{_ns(namespace)}/balance/what-if", outlooks.WhatIfView, body)
    return replace(call, is_mutation=False)


def capacity(namespace: str, executors: str | None) -> Call[outlooks.CapacityView]:
    """How many executors it takes."""
    path = f"{_ns(namespace)}/balance/capacity"
    return _look(path, outlooks.CapacityView).asking(executors=executors)


def balance_history(namespace: str) -> Call[outlooks.HistoryView]:
    """What the present leader's balancer did."""
    return _look(f"{_ns(namespace)}/balance/history", outlooks.HistoryView)


def decision(namespace: str, decision_id: str) -> Call[outlooks.DecisionDetails]:
    """One decision."""
    path = f"{_ns(namespace)}/balance/decisions/{_segment(decision_id)}"
    return _look(path, outlooks.DecisionDetails)


def events(
    namespace: str,
    *,
    after: str | None = None,
    wait_s: float = 0.0,
    kinds: Sequence[str] = (),
    shard: str | None = None,
    executor: str | None = None,
    limit: int | None = None,
) -> Call[views.EventsPage]:
    """What happened: the newest, or with a cursor what came after it, as soon as it comes."""
    call = _read(f"{_ns(namespace)}/events", views.EventsPage)
    call = replace(call, query=_long_poll(after, wait_s))
    return call.asking(kind=",".join(kinds), shard=shard, executor=executor, limit=limit)


def mass_failure(namespace: str) -> Call[views.MassFailureView]:
    """Whether a mass failure is on."""
    return _look(f"{_ns(namespace)}/mass-failure", views.MassFailureView)


def proceed_mass_failure(namespace: str, reason: str) -> Call[views.MassFailureView]:
    """Give up the executors that are silent now."""
    path = f"{_ns(namespace)}/mass-failure/proceed"
    return _change("POST", path, views.MassFailureView, {"reason": reason})


def cluster() -> Call[views.ClusterView]:
    """Nodes, roles, term and storage."""
    return _read("/v1/cluster", views.ClusterView)


def transfer_leadership(to: str | None) -> Call[views.ClusterView]:
    """Hand the leadership to another node."""
    return _change("POST", "/v1/cluster/transfer-leadership", views.ClusterView, {"to": to})


def move_member(node: str, api: str, raft: str | None) -> Call[views.ClusterView]:
    """Tell where the next process of a member is."""
    body = {"node": node, "api": api} | ({} if raft is None else {"raft": raft})
    return _change("POST", "/v1/cluster/members", views.ClusterView, body)
