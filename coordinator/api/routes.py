"""Every path of the API, in one table.

The app, the OpenAPI document and the tests are made from it. Order matters twice: the busiest
paths come first, as the router tries them in turn, and the lines of one path stay together.
"""

from typing import Final

from coordinator.api import dashboard, executors, routers, service
from coordinator.api.operators.routes import OPERATOR_ROUTES
from coordinator.api.parameters import (
    AFTER,
    CONSISTENCY,
    EXECUTOR,
    INCARNATION,
    MISSING,
    NS,
    SHARD,
    WAIT,
    WATCH,
)
from coordinator.api.records import (
    AcksRequest,
    AssignmentsAnswer,
    CursorAnswer,
    HeartbeatAnswer,
    HeartbeatRequest,
    OwnerAnswer,
    RoutingAnswer,
)
from coordinator.api.rights import Right
from coordinator.api.route import (
    HEARTBEAT_BYTES,
    LIST_BYTES,
    Handler,
    Leader,
    Parameter,
    Route,
)

_BUSIEST: Final = (
    Route(
        method="POST",
        path=f"{EXECUTOR}/heartbeat",
        handler=executors.heartbeat,
        audience="executor",
        right=Right.REPORT,
        summary="Renew a lease and report load.",
        usual=executors.usual_heartbeat,
        is_likely=executors.is_known,
        patience_s=executors.PATIENCE_S,
        is_read_late=True,
        leader=Leader.MUST,
        body=HeartbeatRequest,
        body_bytes_max=HEARTBEAT_BYTES,
        answer=HeartbeatAnswer,
        reasons=(
            "namespace_not_found",
            "incarnation_closed",
            "stale_sequence",
            "quota_exceeded",
            "recovering",
            "outcome_unknown",
        ),
        has_msgpack=True,
    ),
    Route(
        method="GET",
        path=f"{SHARD}/owner",
        handler=routers.owner,
        audience="router",
        right=Right.LOOK_UP,
        summary="Who owns a shard.",
        usual=routers.usual_owner,
        parameters=(
            Parameter("create", "Let an unknown key of an open namespace be born.", "boolean"),
            CONSISTENCY,
        ),
        answer=OwnerAnswer,
        reasons=(
            "namespace_not_found",
            "shard_not_found",
            "shard_parked",
            "shard_unassigned",
            "quota_exceeded",
            *WATCH,
        ),
    ),
    Route(
        method="GET",
        path=f"{EXECUTOR}/assignments",
        handler=executors.assignments,
        audience="executor",
        right=Right.FOLLOW,
        summary="All that an incarnation shall hold; a long poll.",
        usual=executors.usual_assignments,
        parameters=(INCARNATION, AFTER, WAIT, CONSISTENCY),
        answer=AssignmentsAnswer,
        statuses=(200, 304),
        reasons=("namespace_not_found", "executor_not_found", "incarnation_closed", *WATCH),
        has_msgpack=True,
    ),
    Route(
        method="GET",
        path=f"{NS}/routing",
        handler=routers.routing,
        audience="router",
        right=Right.LOOK_UP,
        summary="The routing table, or what changed in it; a long poll.",
        usual=routers.usual_routing,
        parameters=(AFTER, WAIT, CONSISTENCY),
        answer=RoutingAnswer,
        statuses=(200, 304),
        reasons=(*MISSING, *WATCH),
        has_msgpack=True,
    ),
    Route(
        method="POST",
        path=f"{EXECUTOR}/acks",
        handler=executors.acks,
        audience="executor",
        right=Right.REPORT,
        summary="Say what was stopped, prepared, or could not be started.",
        leader=Leader.MUST,
        body=AcksRequest,
        body_bytes_max=LIST_BYTES,
        answer=CursorAnswer,
        reasons=("namespace_not_found", "incarnation_closed", "outcome_unknown", "rate_limited"),
    ),
    Route(
        method="DELETE",
        path=EXECUTOR,
        handler=executors.deregister,
        audience="executor",
        right=Right.REPORT,
        summary="Everything is stopped: place the rest elsewhere.",
        leader=Leader.MUST,
        parameters=(INCARNATION,),
        statuses=(204,),
        reasons=(
            "namespace_not_found",
            "executor_not_found",
            "incarnation_closed",
            "outcome_unknown",
            "conflict",
        ),
    ),
)


def _service(
    path: str,
    handler: Handler,
    summary: str,
    *parameters: Parameter,
    right: Right = Right.OPEN,
) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        audience="service",
        right=right,
        summary=summary,
        parameters=parameters,
        content_type="text/plain",
        statuses=(200, 503) if parameters else (200,),
    )


VERBOSE: Final = Parameter("verbose", "One line a check.", "boolean", may_be_empty=True)

_SERVICE: Final = (
    _service("/livez", service.livez, "The loop turns.", VERBOSE),
    _service("/readyz", service.readyz, "This node can answer.", VERBOSE),
    _service("/leader", service.leader, "200 on the leader only.", VERBOSE),
    _service("/metrics", service.metrics, "Prometheus or OpenMetrics text.", right=Right.SCRAPE),
    _service("/openapi.json", service.openapi, "The OpenAPI document."),
    Route(
        method="GET",
        path="/problems/{reason}",
        handler=service.problem,
        audience="service",
        right=Right.OPEN,
        summary="What a reason means.",
        content_type="text/plain",
        reasons=("route_not_found",),
    ),
)

_DASHBOARD: Final = (
    Route(
        method="GET",
        path="/",
        handler=dashboard.page,
        audience="dashboard",
        right=Right.OPEN,
        summary="The dashboard, a page for browsers.",
        content_type="text/html",
        statuses=(200, 304),
    ),
    Route(
        method="GET",
        path=f"{dashboard.ASSETS}{{asset}}",
        handler=dashboard.asset,
        audience="dashboard",
        right=Right.OPEN,
        summary="A file of the dashboard: script, style or picture.",
        content_type="*/*",
        statuses=(200, 304),
        reasons=("route_not_found",),
    ),
)

ROUTES: Final[tuple[Route, ...]] = (*_BUSIEST, *OPERATOR_ROUTES, *_SERVICE, *_DASHBOARD)
