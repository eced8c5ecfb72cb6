"""Every refusal of the API, as one table: reason -> status, title and the page that explains it.

Decides how a refusal looks (RFC 9457). It must not know when one is due.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coordinator.core.commands import Refused

PROBLEM_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One reason for a refusal."""

    status: int
    title: str
    page: str
    """What it means and what to do, for people."""
    retry_after_s: float | None = None
    """How long to wait before another try; None when a repetition changes nothing."""


PROBLEMS: Final[Mapping[str, ProblemKind]] = {
    "invalid": ProblemKind(
        422,
        "The request is not well formed",
        "A field, a parameter or the body breaks a rule of the API; `errors` names each place. The"
        " same request will be refused again.",
    ),
    "unauthenticated": ProblemKind(
        401,
        "The node does not know who asks",
        "Send `Authorization: Bearer TOKEN` with a token that the node's file of tokens knows and"
        " that is not over, or show a certificate that it names.",
    ),
    "forbidden": ProblemKind(
        403,
        "The caller may not do this",
        "`detail` names the right that is lacking, or the limit that stands against it. It says the"
        " same whether what was asked for exists or not. Use another token, or have the line of"
        " this one changed.",
    ),
    "namespace_not_found": ProblemKind(
        404,
        "No such namespace",
        "Create it with PUT /v1/namespaces/{namespace}, or check the spelling.",
    ),
    "executor_not_found": ProblemKind(
        404,
        "No such executor",
        "No executor of this name lives in the namespace: it never joined, or its lease ran out.",
    ),
    "shard_not_found": ProblemKind(
        404,
        "No such shard",
        "A fixed namespace has the keys 0 to n-1; in an open one a shard is born when it is"
        " declared, or looked up with create=true.",
    ),
    "drain_not_found": ProblemKind(
        404, "No such drain", "It was ended by an undrain, or never existed."
    ),
    "event_not_found": ProblemKind(
        404,
        "No such event",
        "There never was one of this number, or it is not kept any more: of each namespace the"
        " newest 4,096 are, and as many of the routine.",
    ),
    "decision_not_found": ProblemKind(
        404,
        "No such decision",
        "Decisions are kept by the leader that made them, the newest 128. Older moves are among the"
        " events.",
    ),
    "namespace_exists": ProblemKind(
        409,
        "The namespace exists with another kind or count",
        "Kind and shard count are fixed for the life of a namespace. Change the policy with PATCH.",
    ),
    "namespace_not_empty": ProblemKind(
        409,
        "Executors live in the namespace",
        "Stop them first, or repeat the request with force=true: their shards are then forgotten.",
    ),
    "conflict": ProblemKind(
        409,
        "The present state does not allow this",
        "`detail` says which rule stands against it; look at the resource and decide again.",
    ),
    "would_overload": ProblemKind(
        409,
        "The others have no room for it",
        "`detail` says who would be left and how much they would carry. Bring executors up first,"
        ' or repeat the request with `"force": true` if it has to be.',
    ),
    "incarnation_closed": ProblemKind(
        409,
        "This incarnation is over",
        "`cause` says why. The process must stop every shard. expired: rejoin under a fresh"
        " incarnation. superseded, evicted, left: end.",
    ),
    "stale_sequence": ProblemKind(
        409,
        "A later heartbeat was seen already",
        "The heartbeat arrived late or twice and was not counted. Send the next one.",
    ),
    "shard_parked": ProblemKind(
        409,
        "The shard is parked",
        "An operator drained this shard, or it was found to be poison: nobody runs it until it is"
        " undrained.",
    ),
    "precondition_failed": ProblemKind(
        412,
        "The resource has changed",
        "If-Match names a version that is no longer current. Read it again and decide again.",
    ),
    "too_large": ProblemKind(
        413,
        "The request is too large",
        "The body is over the limit of this path, or the change over what one log entry may hold:"
        " split it.",
    ),
    "idempotency_key_reused": ProblemKind(
        422,
        "The idempotency key came with another request",
        "A key stands for one request. Use a fresh one for every new request.",
    ),
    "quota_exceeded": ProblemKind(
        429, "A bound of the namespace is reached", "`detail` names the bound.", 60.0
    ),
    "too_many_waiters": ProblemKind(
        429,
        "Too many long polls on this node",
        "Wait, or ask another node: every node answers.",
        1.0,
    ),
    "rate_limited": ProblemKind(
        429,
        "Too many changes at once",
        "The node has as many changes in flight as it takes. Nothing was changed; try again.",
        1.0,
    ),
    "no_leader": ProblemKind(
        503,
        "No leader with a quorum",
        "An election is on, or most nodes are down. Nothing was changed; try again, on any node.",
        1.0,
    ),
    "recovering": ProblemKind(
        503,
        "The coordinator is catching up",
        "The node knows less than the caller has seen, or executors have yet to say what they hold"
        " from before: for one lease after a namespace came to be, or after the cluster lost its"
        " memory. An answer would be wrong, so there is none. Try again, on any node.",
        1.0,
    ),
    "route_not_found": ProblemKind(
        404, "No such path", "The paths are listed in /openapi.json. `/` in a key is %2F."
    ),
    "method_not_allowed": ProblemKind(
        405, "The path does not take this method", "The header Allow names those it takes."
    ),
    "unsupported_media": ProblemKind(
        415,
        "The body's type is not understood",
        "Send application/json in UTF-8, uncompressed; heartbeats may be application/msgpack.",
    ),
    "internal": ProblemKind(
        500,
        "A fault of the node",
        "It is in the node's log under the request id. Whether something was changed is unknown.",
    ),
    "shard_unassigned": ProblemKind(
        503,
        "The shard has no owner at the moment",
        "Nobody can take it yet: no executor is there, its last owner's lease is running out, or it"
        " is kept for an owner that restarts.",
        1.0,
    ),
    "shutting_down": ProblemKind(503, "The node is stopping", "Ask another node.", 1.0),
    "outcome_unknown": ProblemKind(
        504,
        "The change may or may not have been made",
        "Contact with the quorum was lost while it was being made. Repeat the request with the"
        " same Idempotency-Key: it is then made once.",
        1.0,
    ),
}


class FieldError(Struct, frozen=True):
    """One place that is wrong."""

    path: str
    message: str


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A refusal as it is sent (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    """The request's id."""
    reason: str
    cause: str | UnsetType = UNSET
    """With incarnation_closed: expired, superseded, evicted or left."""
    leader: str | UnsetType = UNSET
    retry_after_s: float | UnsetType = UNSET
    errors: tuple[FieldError, ...] = ()


class Refusal(Exception):  # noqa: N818 - it is the answer, not a fault
    """Ends a request with a problem; raised anywhere below a route."""

    def __init__(
        self,
        reason: str,
        detail: str = "",
        *,
        cause: str = "",
        retry_after_s: float | None = None,
        errors: tuple[FieldError, ...] = (),
        headers: Mapping[str, str] | None = None,
        is_last: bool = False,
    ) -> None:
        super().__init__(reason, detail)
        kind = PROBLEMS[reason]
        self.reason = reason
        self.kind = kind
        self.detail = detail or kind.title
        self.cause = cause
        self.retry_after_s = kind.retry_after_s if retry_after_s is None else retry_after_s
        self.errors = errors
        self.headers = dict(headers or {})
        self.is_last = is_last
        """Whether its connection ends with it: what else the caller sends is not wanted."""
        if self.retry_after_s is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(self.retry_after_s)))

    def encoded(self, *, request_id: str, leader: str | None) -> bytes:
        """The JSON bytes of the problem."""
        return msgspec.json.encode(
            Problem(
                type=f"/problems/{self.reason}",
                title=self.kind.title,
                status=self.kind.status,
                detail=self.detail,
                instance=request_id,
                reason=self.reason,
                cause=self.cause or UNSET,
                leader=leader or UNSET,
                retry_after_s=UNSET if self.retry_after_s is None else self.retry_after_s,
                errors=self.errors,
            )
        )


def invalid(path: str, message: str) -> Refusal:
    """One wrong place in a request."""
    return Refusal("invalid", f"{path}: {message}", errors=(FieldError(path, message),))


def refused(outcome: Refused) -> Refusal:
    """What a rule of the state machine said no to."""
    return Refusal(outcome.reason.value, outcome.detail, cause=outcome.cause)


def page(reason: str) -> str | None:
    """The text that explains a reason, or None if there is no such reason."""
    kind = PROBLEMS.get(reason)
    if kind is None:
        return None
    repeat = (
        "Repeating the same request does not help."
        if kind.retry_after_s is None
        else f"Worth another try after {kind.retry_after_s:g} s."
    )
    return f"{reason} ({kind.status})\n{kind.title}.\n\n{kind.page}\n\n{repeat}\n"
