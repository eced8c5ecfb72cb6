"""Which answer leads to which path: the links of the OpenAPI document.

Decides what a caller that has made something may do with it next. It must not know how a route is
served.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator.api.parameters import EXECUTOR, HOST, NS, SHARD
from coordinator.api.route import Route

_HERE: Final = "$request.path."


@dataclass(frozen=True, slots=True)
class _Source:
    """What the answer to a request makes known, as parameters of other paths."""

    method: str
    path: str
    variables: Mapping[str, str]
    query: Mapping[str, str] | None = None


_SOURCES: Final = (
    _Source("PUT", NS, {"namespace": f"{_HERE}namespace"}),
    _Source(
        "POST",
        f"{EXECUTOR}/heartbeat",
        {"namespace": f"{_HERE}namespace", "executor": f"{_HERE}executor"},
        {"incarnation": "$request.body#/incarnation", "after": "$response.body#/cursor"},
    ),
    _Source(
        "POST",
        f"{NS}/shards",
        {"namespace": f"{_HERE}namespace", "key": "$request.body#/keys/0"},
    ),
    _Source(
        "POST",
        f"{HOST}/drain",
        {"namespace": f"{_HERE}namespace", "host": f"{_HERE}host"},
    ),
    *(
        _Source(
            "POST",
            f"{target}/drain",
            {"namespace": f"{_HERE}namespace", "drain": "$response.body#/id"},
        )
        for target in (EXECUTOR, HOST)
    ),
    _Source(
        "GET",
        f"{SHARD}/owner",
        {"namespace": f"{_HERE}namespace", "executor": "$response.body#/executor"},
    ),
)


def links_of(route: Route, routes: Sequence[Route]) -> dict[str, Any]:
    """The links of a route's good answers: name -> where it leads, and with which parameters."""
    found: dict[str, Any] = {}
    for source in _SOURCES:
        if (source.method, source.path) == (route.method, route.path):
            for target in routes:
                if set(target.variables) == set(source.variables) and target is not route:
                    found[target.name] = _link(source, target)
    return found


def _link(source: _Source, target: Route) -> dict[str, Any]:
    asked = {parameter.name for parameter in target.parameters}
    query = {name: at for name, at in (source.query or {}).items() if name in asked}
    return {"operationId": target.name, "parameters": {**source.variables, **query}}
