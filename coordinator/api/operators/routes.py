"""The paths of operators: a part of the one table of routes."""

from typing import Final

from coordinator.api import cluster
from coordinator.api.operators import (
    balance,
    drains,
    executors,
    hosts,
    namespaces,
    shard_orders,
    shards,
)
from coordinator.api.operators import records as told
from coordinator.api.operators import shard_records as shown
from coordinator.api.parameters import (
    CONSISTENCY,
    DRY_RUN,
    EXECUTOR,
    FORCE,
    HOST,
    MISSING,
    NS,
    SHARD,
)
from coordinator.api.route import (
    LIST_BYTES,
    SMALL_BYTES,
    Handler,
    Leader,
    Parameter,
    Route,
)

# conflict: in a half upgraded cluster a new kind of order waits for the last node.
_ORDER: Final = (
    "conflict",
    "idempotency_key_reused",
    "outcome_unknown",
    "rate_limited",
    "too_large",
)


def _order(
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    *,
    body: type | None,
    answer: type | None,
    statuses: tuple[int, ...] = (200,),
    reasons: tuple[str, ...] = (),
    parameters: tuple[Parameter, ...] = (),
    body_bytes_max: int = SMALL_BYTES,
) -> Route:
    """An operator's change: the leader makes it, once, or tells what it would be."""
    return Route(
        method=method,
        path=path,
        handler=handler,
        audience="operator",
        summary=summary,
        leader=Leader.MUST,
        parameters=(*parameters, DRY_RUN),
        body=body,
        body_is_optional=True,
        body_bytes_max=body_bytes_max,
        answer=answer,
        statuses=statuses,
        reasons=(*_ORDER, *reasons),
        is_order=True,
    )


def _read(
    path: str,
    handler: Handler,
    summary: str,
    answer: type,
    *,
    leader: Leader = Leader.NO,
    reasons: tuple[str, ...] = MISSING,
    parameters: tuple[Parameter, ...] = (),
) -> Route:
    """What an operator looks at."""
    return Route(
        method="GET",
        path=path,
        handler=handler,
        audience="operator",
        summary=summary,
        leader=leader,
        parameters=(*parameters, CONSISTENCY),
        answer=answer,
        reasons=reasons,
    )


def _verbs(
    path: str, summaries: dict[str, tuple[Handler, str, type]], *, reasons: tuple[str, ...]
) -> tuple[Route, ...]:
    """Orders that only take a reason, one path each."""
    return tuple(
        _order(
            "POST",
            f"{path}/{verb}",
            handler,
            summary,
            body=told.ReasonRequest,
            answer=answer,
            statuses=(200, 202),
            reasons=reasons,
        )
        for verb, (handler, summary, answer) in summaries.items()
    )


_EXECUTORS: Final = (
    _read(
        EXECUTOR,
        executors.show,
        "One executor.",
        told.ExecutorRecord,
        leader=Leader.BETTER,
        reasons=("namespace_not_found", "executor_not_found"),
    ),
    _read(
        f"{NS}/executors",
        executors.list_all,
        "The executors of a namespace.",
        told.ExecutorsAnswer,
        leader=Leader.BETTER,
        parameters=(
            Parameter("host", "Only those on this host."),
            Parameter("status", "Only those of this standing.", choices=executors.STANDINGS),
        ),
    ),
    *_verbs(
        EXECUTOR,
        {
            "drain": (executors.drain, "Move everything away, place nothing.", told.DrainView),
            "undrain": (executors.undrain, "End its drain.", told.ExecutorRecord),
            "cordon": (executors.cordon, "Place nothing on it.", told.ExecutorRecord),
            "uncordon": (executors.uncordon, "Place on it again.", told.ExecutorRecord),
        },
        reasons=("namespace_not_found", "executor_not_found", "drain_not_found", "quota_exceeded"),
    ),
    _order(
        "POST",
        f"{EXECUTOR}/evict",
        executors.evict,
        "Close its incarnation now.",
        body=told.EvictRequest,
        answer=told.ExecutorRecord,
        statuses=(200, 202),
        reasons=("namespace_not_found", "executor_not_found"),
    ),
    *_verbs(
        HOST,
        {
            "drain": (hosts.drain, "Move everything away from a host.", told.DrainView),
            "undrain": (hosts.undrain, "End a host's drain.", told.HostView),
            "cordon": (hosts.cordon, "Place nothing on a host.", told.HostView),
            "uncordon": (hosts.uncordon, "Place on a host again.", told.HostView),
        },
        reasons=("namespace_not_found", "drain_not_found", "quota_exceeded"),
    ),
    _read(f"{NS}/drains", drains.list_all, "The drains in force.", told.DrainsAnswer),
    _read(
        f"{NS}/drains/{{drain}}",
        drains.show,
        "One drain and its progress.",
        told.DrainView,
        reasons=("namespace_not_found", "drain_not_found"),
    ),
)

_SHARD: Final = ("namespace_not_found", "shard_not_found")

_SHARDS: Final = (
    _read(
        SHARD,
        shards.show,
        "One shard; looking never makes one.",
        shown.ShardView,
        leader=Leader.BETTER,
        reasons=_SHARD,
    ),
    _order(
        "DELETE",
        SHARD,
        shard_orders.retire,
        "Forget a shard of an open namespace.",
        body=None,
        answer=shown.ShardView,
        statuses=(202, 204),
        reasons=_SHARD,
    ),
    _read(
        f"{NS}/shards",
        shards.list_all,
        "One page of shards.",
        shown.ShardsAnswer,
        leader=Leader.BETTER,
        parameters=(
            Parameter("executor", "Only those of this owner."),
            Parameter("state", "Only those in this state.", choices=shards.STATES),
            Parameter("sort", "By key, or heaviest first.", choices=shards.SORTS),
            Parameter("limit", f"1 to {shards.PAGE_MAX}.", "integer"),
            Parameter("page", "`next_page` of the page before."),
        ),
    ),
    _order(
        "POST",
        f"{NS}/shards",
        shard_orders.declare,
        "Make keys of an open namespace known ahead of their use.",
        body=told.DeclareRequest,
        answer=told.DeclareAnswer,
        statuses=(200, 201),
        reasons=(*_SHARD, "quota_exceeded"),
        body_bytes_max=LIST_BYTES,
    ),
    *_verbs(
        SHARD,
        {
            "drain": (shard_orders.drain, "Park: nobody runs it.", shown.ShardView),
            "undrain": (shard_orders.undrain, "Somebody runs it again.", shown.ShardView),
            "unpin": (shard_orders.unpin, "Leave it to the balancer again.", shown.ShardView),
        },
        reasons=_SHARD,
    ),
    _order(
        "POST",
        f"{SHARD}/pin",
        shard_orders.pin,
        "Bind it to an executor.",
        body=told.PinRequest,
        answer=shown.ShardView,
        statuses=(200, 202),
        reasons=(*_SHARD, "executor_not_found"),
    ),
    _order(
        "POST",
        f"{SHARD}/move",
        shard_orders.move,
        "Hand it over to an executor.",
        body=told.MoveRequest,
        answer=shown.ShardView,
        statuses=(200, 202),
        reasons=(*_SHARD, "executor_not_found", "shard_parked"),
    ),
)

_BALANCE: Final = (
    Route(
        method="GET",
        path=f"{NS}/balance",
        handler=balance.show,
        audience="operator",
        summary="How evenly the load lies.",
        leader=Leader.MUST,
        parameters=(CONSISTENCY,),
        answer=told.BalanceAnswer,
        reasons=MISSING,
    ),
    _order(
        "POST",
        f"{NS}/balance/pause",
        balance.pause,
        "No voluntary moves.",
        body=told.PauseRequest,
        answer=told.BalanceAnswer,
        reasons=MISSING,
    ),
    _order(
        "POST",
        f"{NS}/balance/resume",
        balance.resume,
        "Voluntary moves again.",
        body=told.ReasonRequest,
        answer=told.BalanceAnswer,
        reasons=MISSING,
    ),
)

_NAMESPACES: Final = (
    _read("/v1/namespaces", namespaces.list_all, "Every namespace.", told.NamespacesAnswer),
    _read(NS, namespaces.show, "One namespace.", told.NamespaceView),
    _order(
        "PUT",
        NS,
        namespaces.create,
        "Create a namespace.",
        body=told.NamespaceRequest,
        answer=told.NamespaceView,
        statuses=(200, 201),
        reasons=("namespace_exists", "quota_exceeded"),
    ),
    _order(
        "PATCH",
        NS,
        namespaces.change,
        "Change fields of the policy.",
        body=told.PolicyRequest,
        answer=told.NamespaceView,
        reasons=("namespace_not_found", "precondition_failed"),
    ),
    _order(
        "DELETE",
        NS,
        namespaces.delete,
        "Forget a namespace and all in it.",
        body=None,
        answer=None,
        statuses=(204,),
        reasons=("namespace_not_found", "namespace_not_empty"),
        parameters=(Parameter("confirm", "The namespace's name again.", is_required=True), FORCE),
    ),
)

_CLUSTER: Final = (
    Route(
        method="GET",
        path="/v1/cluster",
        handler=cluster.show,
        audience="operator",
        summary="The nodes and who leads.",
        parameters=(
            CONSISTENCY,
            Parameter("digest", "With a hash of the state; it costs a snapshot.", "boolean"),
        ),
        answer=told.ClusterAnswer,
    ),
    _order(
        "POST",
        "/v1/cluster/transfer-leadership",
        cluster.transfer,
        "Hand the lead over.",
        body=told.TransferRequest,
        answer=told.ClusterAnswer,
    ),
    _order(
        "POST",
        "/v1/cluster/members",
        cluster.move_member,
        "Tell where the next process of a member is, before it is started.",
        body=told.MemberRequest,
        answer=told.ClusterAnswer,
        reasons=("quota_exceeded",),
    ),
    _order(
        "DELETE",
        "/v1/cluster/members/{node}",
        cluster.remove_member,
        "Always refused: members are replaced under their names, not removed.",
        body=None,
        answer=None,
    ),
)


OPERATOR_ROUTES: Final[tuple[Route, ...]] = (
    *_EXECUTORS,
    *_SHARDS,
    *_BALANCE,
    *_NAMESPACES,
    *_CLUSTER,
)
