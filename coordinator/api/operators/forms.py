"""The forms that operators' routes have: an order, a read, verbs that only take a reason.

Decides what all routes of one form share. It must not know single paths.
"""

from typing import Final

from coordinator.api.parameters import CONSISTENCY, DRY_RUN, MISSING
from coordinator.api.rights import Right
from coordinator.api.route import SMALL_BYTES, Handler, Leader, Parameter, Route

# conflict: in a half upgraded cluster a new kind of order waits for the last node.
_ORDER: Final = (
    "conflict",
    "idempotency_key_reused",
    "outcome_unknown",
    "rate_limited",
    "too_large",
)


def order(
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
        right=Right.ORDER,
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


def read(
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
        right=Right.VIEW,
        summary=summary,
        leader=leader,
        parameters=(*parameters, CONSISTENCY),
        answer=answer,
        reasons=reasons,
    )


def verbs(
    path: str,
    summaries: dict[str, tuple[Handler, str, type, type]],
    *,
    reasons: tuple[str, ...],
) -> tuple[Route, ...]:
    """Orders of one form, a path each: handler, summary, body and answer."""
    return tuple(
        order(
            "POST",
            f"{path}/{verb}",
            handler,
            summary,
            body=body,
            answer=answer,
            statuses=(200, 202),
            reasons=reasons,
        )
        for verb, (handler, summary, body, answer) in summaries.items()
    )
