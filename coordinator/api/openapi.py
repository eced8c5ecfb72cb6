"""The OpenAPI 3.1 document, made from the table of routes and the records.

Decides how a route is described. Whatever it says of records comes from the records themselves.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from coordinator import __version__
from coordinator.api.encoding import JSON, MSGPACK
from coordinator.api.links import links_of
from coordinator.api.operators.dry_run_records import DryRunAnswer
from coordinator.api.parameters import KEY_PATTERN
from coordinator.api.problems import PROBLEM_TYPE, PROBLEMS, Problem
from coordinator.api.query import EXECUTOR_ID, IDEMPOTENCY_KEY
from coordinator.api.rights import Right
from coordinator.api.route import Leader, Parameter, Route
from coordinator.settings import NAMESPACE_NAME

EVERYWHERE: Final = ("invalid", "internal")
"""Reasons that any path can answer with."""
WITH_LOGIN: Final = ("unauthenticated", "forbidden", "rate_limited")
WITH_BODY: Final = ("unsupported_media", "too_large")
WITH_LEADER: Final = ("no_leader",)
WITH_STATE: Final = ("recovering",)

_NAME: Final = "A name: letters, digits and . _ : @ - behind the first."
_VARIABLES: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "namespace": ("A namespace's name.", {"pattern": f"^{NAMESPACE_NAME.pattern}$"}),
    "executor": (_NAME, {"pattern": f"^{EXECUTOR_ID.pattern}$"}),
    "host": (_NAME, {"pattern": f"^{EXECUTOR_ID.pattern}$"}),
    "key": (
        "1 to 256 bytes of UTF-8 without control characters, percent-encoded (/ as %2F).",
        {"pattern": f"^{KEY_PATTERN}$"},
    ),
    "drain": ("A drain's id.", {"minLength": 1}),
    "node": ("A member's name.", {"minLength": 1}),
    "event": ("An event's number.", {"pattern": "^[0-9]{1,16}$"}),
    "decision": ("A decision's id.", {"minLength": 1}),
    "reason": ("A problem's reason.", {"enum": list(PROBLEMS)}),
    "asset": ("A file's name.", {"minLength": 1}),
}
"""What stands for each variable of a path, and the schema of its texts."""
_SCHEMES: Final[Mapping[str, Mapping[str, str]]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the node's file. Nodes without one let everybody in.",
    },
    "certificate": {"type": "mutualTLS", "description": "A certificate that the file names."},
}
_ABOUT: Final = (
    "Decides which process owns which shard. Any node answers; what needs the leader is handed to"
    " it. Cursors are opaque. Errors are RFC 9457 problems whose `reason` is one of a fixed list."
)


def document(routes: Sequence[Route]) -> bytes:
    """The document as JSON."""
    kinds = {kind for route in routes for kind in (route.body, route.answer) if kind is not None}
    ordered = sorted(kinds | {Problem, DryRunAnswer}, key=_name)
    schemas, components = msgspec.json.schema_components(
        ordered, ref_template="#/components/schemas/{name}"
    )
    refs = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs, routes)
    return msgspec.json.format(
        msgspec.json.encode(
            {
                "openapi": "3.1.0",
                "info": {
                    "title": "Shard Coordinator",
                    "version": __version__,
                    "description": _ABOUT,
                    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
                },
                "paths": paths,
                "components": {"schemas": components, "securitySchemes": _SCHEMES},
                "security": [{"bearer": []}, {"certificate": []}],
            }
        )
    )


def reasons_of(route: Route) -> tuple[str, ...]:
    """Every reason a route can be refused with, in the order of the table of problems."""
    reasons = {*route.reasons, *EVERYWHERE}
    if route.right is not Right.OPEN:
        reasons |= {*WITH_LOGIN}
    if route.body is not None:
        reasons |= {*WITH_BODY}
    if route.path.startswith("/v1/namespaces"):
        reasons |= {*WITH_STATE}
    if route.leader is Leader.MUST or any(p.name == "consistency" for p in route.parameters):
        reasons |= {*WITH_LEADER}
    return tuple(reason for reason in PROBLEMS if reason in reasons)


def _operation(route: Route, refs: Mapping[type, Any], routes: Sequence[Route]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.audience],
        "parameters": [
            *(_variable(name) for name in route.variables),
            *(_parameter(parameter) for parameter in route.parameters),
            *(_order_headers(route) if route.is_order else ()),
        ],
        "responses": _responses(route, refs, links_of(route, routes)),
    }
    if route.right is Right.OPEN:
        operation["security"] = []
    if route.body is not None:
        media = (JSON, MSGPACK) if route.has_msgpack else (JSON,)
        operation["requestBody"] = {
            "required": not route.body_is_optional or _has_required_fields(route.body),
            "content": {kind: {"schema": refs[route.body]} for kind in media},
        }
    return operation


def _responses(route: Route, refs: Mapping[type, Any], links: Mapping[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in route.statuses:
        responses[str(status)] = {"description": _MEANING[status]}
        if status not in {204, 304}:
            responses[str(status)]["content"] = _content(route, status, refs)
        if links:
            responses[str(status)]["links"] = links
    if route.is_order and "200" not in responses:
        responses["200"] = {
            "description": "With dry_run: what would be done.",
            "content": {JSON: {"schema": refs[DryRunAnswer]}},
        }
    by_status: dict[int, list[str]] = {}
    for reason in reasons_of(route):
        by_status.setdefault(PROBLEMS[reason].status, []).append(reason)
    for status, reasons in sorted(by_status.items()):
        if str(status) in responses:  # the plain 503 of a health check says the same without words
            continue
        responses[str(status)] = {
            "description": ", ".join(reasons),
            "content": {PROBLEM_TYPE: {"schema": refs[Problem]}},
        }
    return responses


def _content(route: Route, status: int, refs: Mapping[type, Any]) -> dict[str, Any]:
    if route.answer is None:
        return {route.content_type: {"schema": {}}}
    schema = refs[route.answer]
    if route.is_order and status == 200:
        schema = {"anyOf": [schema, refs[DryRunAnswer]]}
    media = (JSON, MSGPACK) if route.has_msgpack else (JSON,)
    return {kind: {"schema": schema} for kind in media}


_MEANING: Final[Mapping[int, str]] = {
    200: "Done, or the answer.",
    201: "Made.",
    202: "Taken; work goes on.",
    204: "Gone.",
    304: "Nothing new before the wait ended.",
    503: "Not so.",
}


def _variable(name: str) -> dict[str, Any]:
    about, schema = _VARIABLES[name]
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": about,
        "schema": {"type": "string", **schema},
    }


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": parameter.kind}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.kind == "integer":
        schema |= {"minimum": 1, "maximum": parameter.upper}
    if parameter.pattern:
        schema["pattern"] = f"^{parameter.pattern}$"
    told = {
        "name": parameter.name,
        "in": "query",
        "required": parameter.is_required,
        "description": parameter.description,
        "schema": schema,
    }
    return told | ({"allowEmptyValue": True} if parameter.may_be_empty else {})


def _order_headers(route: Route) -> tuple[dict[str, Any], ...]:
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Makes a repetition of this request harmless.",
        "schema": {"type": "string", "pattern": f"^{IDEMPOTENCY_KEY.pattern}$"},
    }
    if "precondition_failed" not in route.reasons:
        return (key,)
    version = {
        "name": "If-Match",
        "in": "header",
        "description": "Only if this is still its ETag.",
        "schema": {"type": "string"},
    }
    return (key, version)


def _has_required_fields(record: type) -> bool:
    return any(field.required for field in msgspec.structs.fields(record))


def _name(kind: type) -> str:
    return kind.__name__
