"""The paths of balance: a part of the one table of routes."""

from dataclasses import replace
from typing import Final

from coordinator.api.operators import balance, outlook, pictures
from coordinator.api.operators import outlook_records as told_of
from coordinator.api.operators import picture_records as drawn
from coordinator.api.operators import records as told
from coordinator.api.operators.forms import order, read
from coordinator.api.parameters import CONSISTENCY, MISSING, NS
from coordinator.api.query import INSTANT_PATTERN
from coordinator.api.rights import Right
from coordinator.api.route import Leader, Parameter, Route

_BUSY: Final = (*MISSING, "rate_limited")
_CALCULATION_S: Final = 50.0
"""The largest that is taken is done in a fraction of it, beside a loop that has much to do."""

BALANCE_ROUTES: Final[tuple[Route, ...]] = (
    read(
        f"{NS}/balance",
        balance.show,
        "How evenly the load lies.",
        told.BalanceAnswer,
        leader=Leader.MUST,
    ),
    order(
        "POST",
        f"{NS}/balance/pause",
        balance.pause,
        "No voluntary moves.",
        body=told.PauseRequest,
        answer=told.BalanceAnswer,
        reasons=MISSING,
    ),
    order(
        "POST",
        f"{NS}/balance/resume",
        balance.resume,
        "Voluntary moves again.",
        body=told.ReasonRequest,
        answer=told.BalanceAnswer,
        reasons=MISSING,
    ),
    read(
        f"{NS}/balance/plan",
        outlook.plan,
        "What a pass would do now; nothing is moved.",
        told_of.PlanAnswer,
        leader=Leader.MUST,
        reasons=_BUSY,
        parameters=(Parameter("level", "How far it goes.", choices=tuple(outlook.LEVELS)),),
    ),
    Route(
        method="POST",
        path=f"{NS}/balance/what-if",
        handler=outlook.what_if,
        audience="operator",
        right=Right.VIEW,  # a question: nothing changes
        summary="The planner on a fleet that is not there.",
        leader=Leader.MUST,
        parameters=(CONSISTENCY,),
        body=told_of.WhatIfRequest,
        body_is_optional=True,
        answer=told_of.WhatIfAnswer,
        reasons=_BUSY,
        takes_s=_CALCULATION_S,
    ),
    replace(
        read(
            f"{NS}/balance/capacity",
            outlook.capacity,
            "How many executors it takes.",
            told_of.CapacityAnswer,
            leader=Leader.MUST,
            reasons=_BUSY,
            parameters=(
                Parameter(
                    "executors",
                    "A number or a range for the table, such as 8-16.",
                    pattern=r"[0-9]{1,5}(-[0-9]{1,5})?",
                ),
            ),
        ),
        takes_s=_CALCULATION_S,
    ),
    read(
        f"{NS}/balance/history",
        outlook.history,
        "What this leader's balancer did.",
        told_of.HistoryAnswer,
        leader=Leader.MUST,
    ),
    read(
        f"{NS}/balance/placement",
        pictures.placement,
        "Where everything lies, in a bounded number of cells.",
        drawn.PlacementAnswer,
        leader=Leader.MUST,
    ),
    read(
        f"{NS}/balance/series",
        pictures.series,
        "How even it has been: the last hour, and a point a minute of half a day.",
        drawn.SeriesAnswer,
        leader=Leader.BETTER,
        parameters=(
            Parameter(
                "since", "Only points after this time, such as their `at`.", pattern=INSTANT_PATTERN
            ),
        ),
    ),
    read(
        f"{NS}/balance/decisions/{{decision}}",
        outlook.decision,
        "One decision with its inputs, made once more.",
        told_of.DecisionAnswer,
        leader=Leader.MUST,
        reasons=(*_BUSY, "decision_not_found"),
    ),
)
