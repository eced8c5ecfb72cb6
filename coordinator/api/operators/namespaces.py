"""Namespaces: create, read, change the policy, delete."""

from typing import Any

from aiohttp import web

from coordinator.api.call import Call, timestamp
from coordinator.api.operators.orders import ordered
from coordinator.api.operators.outages import alarms_of
from coordinator.api.operators.records import (
    NamespaceRequest,
    NamespacesAnswer,
    NamespaceView,
    PolicyRequest,
)
from coordinator.api.problems import FieldError, Refusal, invalid
from coordinator.api.query import boolean
from coordinator.core.commands import Applied, CreateNamespace, DeleteNamespace, SetPolicy
from coordinator.core.namespace import NamespaceState
from coordinator.core.types import NamespaceKind, Policy
from coordinator.policy import PolicyFields, contradictions, merged


async def create(call: Call[NamespaceRequest]) -> web.Response:
    """201 when it is new, 200 when it exists with the same kind and count."""
    name, body = call.namespace_name, call.body
    if body.kind is NamespaceKind.FIXED and body.shard_count is None:
        raise invalid("shard_count", "a fixed namespace needs it")
    if body.kind is NamespaceKind.OPEN and body.shard_count is not None:
        raise invalid("shard_count", "an open namespace has no count")
    command = CreateNamespace(
        namespace=name,
        kind=body.kind,
        shard_count=body.shard_count or 0,
        policy=_policy(Policy(), body.policy)
        if isinstance(body.policy, PolicyFields)
        else Policy(),
        at_ms=call.desk.clock.wall_ms(),
    )
    return await ordered(
        call,
        command,
        lambda applied: _shown(call, 201 if applied.created else 200),
        would=f"create the {body.kind} namespace {name}, or find it so",
        shards=body.shard_count,
    )


async def list_all(call: Call[None]) -> web.Response:
    """Every namespace that the caller may see."""
    cluster_id, may_see = call.desk.cluster_id, call.caller.namespaces.admits
    namespaces = call.desk.replica.state.namespaces
    views = [_view(namespaces[name], cluster_id) for name in sorted(namespaces) if may_see(name)]
    return call.answer(NamespacesAnswer(namespaces=views))


async def show(call: Call[None]) -> web.Response:
    """One namespace with its policy."""
    return _shown(call)


async def change(call: Call[PolicyRequest]) -> web.Response:
    """Change the named fields of the policy."""
    info = call.namespace.info
    expected = _expected_version(call)
    command = SetPolicy(
        namespace=info.name,
        policy=_policy(info.policy, call.body.policy),
        # Fields are merged here, so a change in between must not be overwritten unseen.
        expected_version=info.policy_version if expected is None else expected,
        by=call.by,
        at_ms=call.desk.clock.wall_ms(),
        reason=call.body.reason,
    )
    return await ordered(
        call, command, lambda _: _shown(call), would=f"change the policy of namespace {info.name}"
    )


async def delete(call: Call[None]) -> web.Response:
    """Forget a namespace and all in it."""
    name = call.namespace_name
    if call.query.get("confirm") != name:
        raise invalid("confirm", f"must repeat the namespace's name: ?confirm={name}")
    state = call.desk.replica.state.namespaces.get(name)
    return await ordered(
        call,
        DeleteNamespace(namespace=name, force=boolean(call.query, "force")),
        _gone,
        would=f"forget namespace {name} and all in it",
        shards=0 if state is None else len(state.shards),
    )


def _gone(_: Applied) -> web.Response:
    return web.Response(status=204)


def _expected_version(call: Call[Any]) -> int | None:
    """The version that If-Match names; None without the header or for `*`."""
    text = call.request.headers.get("If-Match")
    if text is None or text.strip() == "*":
        return None
    digits = text.strip().strip('"')
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 15):
        raise Refusal("precondition_failed", f"{text[:40]!r} is no version of this namespace")
    return int(digits)


def _policy(base: Policy, fields: PolicyFields) -> Policy:
    policy = merged(base, fields)
    errors = tuple(FieldError(f"policy.{at}", message) for at, message in contradictions(policy))
    if errors:
        raise Refusal("invalid", f"{errors[0].path}: {errors[0].message}", errors=errors)
    return policy


def _shown(call: Call[Any], status: int = 200) -> web.Response:
    state = call.namespace
    headers = call.freshness(state) | {"ETag": f'"{state.info.policy_version}"'}
    return call.answer(_view(state, call.desk.cluster_id), status, headers)


def _view(state: NamespaceState, cluster_id: str) -> NamespaceView:
    info = state.info
    return NamespaceView(
        namespace=info.name,
        kind=info.kind,
        shard_count=info.shard_count if info.kind is NamespaceKind.FIXED else None,
        policy=info.policy,
        policy_version=info.policy_version,
        executors=len(state.executors),
        shards=len(state.shards),
        recovering=info.window is not None,
        created_at=timestamp(info.created_at_ms),
        cursor=f"{cluster_id}:{state.revision}",
        alarms=alarms_of(state),
    )
