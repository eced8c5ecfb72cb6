"""The paths of operators: a part of the one table of routes."""

from dataclasses import replace
from typing import Final

from coordinator.api import cluster
from coordinator.api.operators import (
    drains,
    events,
    executors,
    hosts,
    namespaces,
    news,
    nodes,
    outages,
    shard_orders,
    shards,
    undo,
)
from coordinator.api.operators import records as told
from coordinator.api.operators import shard_records as shown
from coordinator.api.operators.balance_routes import BALANCE_ROUTES
from coordinator.api.operators.forms import order, read, verbs
from coordinator.api.parameters import (
    AFTER,
    BY_EXECUTOR,
    BY_HOST,
    BY_SHARD,
    CONSISTENCY,
    EXECUTOR,
    FORCE,
    HOST,
    MISSING,
    NS,
    SHARD,
    SINCE,
    UNTIL,
    WAIT,
    WATCH,
)
from coordinator.api.query import INSTANT_PATTERN
from coordinator.api.rights import Right
from coordinator.api.route import (
    LIST_BYTES,
    Leader,
    Parameter,
    Route,
)

_DRAIN: Final = (told.DrainRequest, told.DrainView)
_RECORD: Final = told.ExecutorRecord

_EXECUTORS: Final = (
    read(
        EXECUTOR,
        executors.show,
        "One executor.",
        told.ExecutorRecord,
        leader=Leader.BETTER,
        reasons=("namespace_not_found", "executor_not_found"),
    ),
    read(
        f"{NS}/executors",
        executors.list_all,
        "The executors of a namespace.",
        told.ExecutorsAnswer,
        leader=Leader.BETTER,
        parameters=(
            BY_HOST,
            Parameter("status", "Only those of this standing.", choices=executors.STANDINGS),
        ),
    ),
    *verbs(
        EXECUTOR,
        {
            "drain": (executors.drain, "Move everything away, place nothing.", *_DRAIN),
            "undrain": (executors.undrain, "End its drain.", told.ReasonRequest, _RECORD),
            "cordon": (executors.cordon, "Place nothing on it.", told.OrderRequest, _RECORD),
            "uncordon": (executors.uncordon, "Place on it again.", told.ReasonRequest, _RECORD),
        },
        reasons=(
            *("namespace_not_found", "executor_not_found", "drain_not_found"),
            *("quota_exceeded", "would_overload"),
        ),
    ),
    order(
        "POST",
        f"{EXECUTOR}/evict",
        executors.evict,
        "Close its incarnation now.",
        body=told.EvictRequest,
        answer=told.ExecutorRecord,
        statuses=(200, 202),
        reasons=("namespace_not_found", "executor_not_found"),
    ),
    *verbs(
        HOST,
        {
            "drain": (hosts.drain, "Move everything away from a host.", *_DRAIN),
            "undrain": (hosts.undrain, "End a host's drain.", told.ReasonRequest, told.HostView),
            "cordon": (hosts.cordon, "Place nothing on a host.", told.OrderRequest, told.HostView),
            "uncordon": (hosts.uncordon, "Place there again.", told.ReasonRequest, told.HostView),
        },
        reasons=("namespace_not_found", "drain_not_found", "quota_exceeded", "would_overload"),
    ),
    read(f"{NS}/drains", drains.list_all, "The drains in force.", told.DrainsAnswer),
    read(
        f"{NS}/drains/{{drain}}",
        drains.show,
        "One drain and its progress.",
        told.DrainView,
        reasons=("namespace_not_found", "drain_not_found"),
    ),
)

_OF_SHARD: Final = (told.ReasonRequest, shown.ShardView)
_SHARD: Final = ("namespace_not_found", "shard_not_found")

_SHARDS: Final = (
    read(
        SHARD,
        shards.show,
        "One shard; looking never makes one.",
        shown.ShardView,
        leader=Leader.BETTER,
        reasons=_SHARD,
        parameters=(Parameter("at", "Also who owned it at this time.", pattern=INSTANT_PATTERN),),
    ),
    order(
        "DELETE",
        SHARD,
        shard_orders.retire,
        "Forget a shard of an open namespace.",
        body=None,
        answer=shown.ShardView,
        statuses=(202, 204),
        reasons=_SHARD,
    ),
    read(
        f"{NS}/shards",
        shards.list_all,
        "One page of shards.",
        shown.ShardsAnswer,
        leader=Leader.BETTER,
        parameters=(
            BY_EXECUTOR,
            Parameter("state", "Only those in this state.", choices=shards.STATES),
            Parameter("sort", "By key, or heaviest first.", choices=shards.SORTS),
            Parameter("limit", "The most to show.", "integer", upper=shards.PAGE_MAX),
            Parameter("page", "`next_page` of the page before.", pattern=shards.PAGE_PATTERN),
        ),
    ),
    order(
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
    *verbs(
        SHARD,
        {
            "drain": (shard_orders.drain, "Park: nobody runs it.", *_OF_SHARD),
            "undrain": (shard_orders.undrain, "Somebody runs it again.", *_OF_SHARD),
            "unpin": (shard_orders.unpin, "Leave it to the balancer again.", *_OF_SHARD),
        },
        reasons=_SHARD,
    ),
    order(
        "POST",
        f"{SHARD}/pin",
        shard_orders.pin,
        "Bind it to an executor.",
        body=told.PinRequest,
        answer=shown.ShardView,
        statuses=(200, 202),
        reasons=(*_SHARD, "executor_not_found"),
    ),
    order(
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

_EVENTS: Final = (
    Route(
        method="GET",
        path=f"{NS}/events",
        handler=events.list_all,
        audience="operator",
        right=Right.VIEW,
        summary="What happened; a long poll.",
        parameters=(
            AFTER,
            WAIT,
            Parameter(
                "kind",
                "Only these kinds, with commas between.",
                pattern=events.KINDS_PATTERN,
                unmatched=f"is none of {', '.join(events.KINDS)}",
            ),
            BY_SHARD,
            BY_EXECUTOR,
            BY_HOST,
            SINCE,
            UNTIL,
            Parameter("orders", "Only what somebody ordered.", "boolean"),
            Parameter("limit", "The most to show.", "integer", upper=events.PAGE_MAX),
            CONSISTENCY,
        ),
        answer=news.EventsAnswer,
        statuses=(200, 304),
        reasons=(*MISSING, *WATCH),
    ),
    order(
        "POST",
        f"{NS}/events/{{event}}/undo",
        undo.undo,
        "Take back the order that it tells of.",
        body=told.UndoRequest,
        answer=news.EventView,
        reasons=(
            *MISSING,
            "event_not_found",
            "executor_not_found",
            "shard_not_found",
            "shard_parked",
            "precondition_failed",
            "quota_exceeded",
            "recovering",
            "would_overload",
        ),
    ),
    read(
        f"{NS}/mass-failure",
        outages.show,
        "Whether a mass failure is on.",
        news.MassFailureView,
    ),
    order(
        "POST",
        f"{NS}/mass-failure/proceed",
        outages.proceed,
        "Give up the executors that are silent now.",
        body=told.ReasonRequest,
        answer=news.MassFailureView,
        reasons=(*MISSING, "recovering"),
    ),
)

_NAMESPACES: Final = (
    replace(
        read("/v1/namespaces", namespaces.list_all, "Every namespace.", told.NamespacesAnswer),
        is_narrowed=True,
    ),
    read(NS, namespaces.show, "One namespace.", told.NamespaceView),
    order(
        "PUT",
        NS,
        namespaces.create,
        "Create a namespace.",
        body=told.NamespaceRequest,
        answer=told.NamespaceView,
        statuses=(200, 201),
        reasons=("namespace_exists", "quota_exceeded"),
    ),
    order(
        "PATCH",
        NS,
        namespaces.change,
        "Change fields of the policy.",
        body=told.PolicyRequest,
        answer=told.NamespaceView,
        reasons=("namespace_not_found", "precondition_failed"),
    ),
    order(
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
        right=Right.VIEW,
        is_narrowed=True,
        summary="The nodes and who leads.",
        parameters=(
            CONSISTENCY,
            Parameter("digest", "With a hash of the state; it costs a snapshot.", "boolean"),
        ),
        answer=nodes.ClusterAnswer,
    ),
    order(
        "POST",
        "/v1/cluster/transfer-leadership",
        cluster.transfer,
        "Hand the lead over.",
        body=nodes.TransferRequest,
        answer=nodes.ClusterAnswer,
    ),
    order(
        "POST",
        "/v1/cluster/members",
        cluster.move_member,
        "Tell where the next process of a member is, before it is started.",
        body=nodes.MemberRequest,
        answer=nodes.ClusterAnswer,
        reasons=("quota_exceeded",),
    ),
    order(
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
    *BALANCE_ROUTES,
    *_EVENTS,
    *_NAMESPACES,
    *_CLUSTER,
)
