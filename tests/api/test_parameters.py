"""What the document says of a parameter is what is checked, on every path alike."""

import re

import pytest

from coordinator.api.parameters import CURSOR_PATTERN
from coordinator.api.route import Parameter, Route
from coordinator.api.routes import ROUTES
from tests.api.nodes import DOCUMENT, Caller

VALUES = {"namespace": "n", "executor": "e", "host": "h", "key": "k", "reason": "invalid"}
JUNK = "\u202e nothing, of any kind"


def path_of(route: Route) -> str:
    path = route.path
    for name in route.variables:
        path = path.replace(f"{{{name}}}", VALUES.get(name, "x"))
    return path


ASKED = [(route, parameter) for route in ROUTES for parameter in route.parameters]
FREE = {"confirm"}
"""Any text may be sent for these: what it must be depends on the path."""


@pytest.mark.asyncio(loop_scope="session")
async def test_junk_is_refused_for_every_parameter_before_anything_is_looked_up(api: Caller):
    for route, parameter in ASKED:
        if parameter.name in FREE:
            continue
        answer = await api.ask(
            route.method,
            f"{path_of(route)}?{parameter.name}=%E2%80%AE%20nothing,%20of%20any%20kind%00",
        )
        assert (answer.status, answer.reason) == (422, "invalid"), (route.path, parameter.name)
        assert answer.body["errors"][0]["path"] == parameter.name


@pytest.mark.asyncio(loop_scope="session")
async def test_an_order_under_a_malformed_key_is_refused_on_every_path(api: Caller):
    for route in ROUTES:
        if route.is_order:
            answer = await api.ask(
                route.method, path_of(route), headers={"Idempotency-Key": "k" * 129}
            )
            assert answer.body["errors"][0]["path"] == "Idempotency-Key", route.path


@pytest.mark.parametrize(("route", "parameter"), ASKED)
def test_the_documented_pattern_is_the_one_that_is_enforced(route: Route, parameter: Parameter):
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    (schema,) = (
        told["schema"] for told in operation["parameters"] if told["name"] == parameter.name
    )
    if "pattern" in schema:
        assert not re.search(schema["pattern"], JUNK + "\x00")
    for choice in schema.get("enum", ()):
        assert parameter.fault(choice) == ""
    if "maximum" in schema:
        assert parameter.fault(str(schema["maximum"])) == ""
        assert parameter.fault(str(schema["maximum"] + 1)) != ""
        assert parameter.fault(str(schema["minimum"] - 1)) != ""
        for odd in ("", "-1", "1.0", "1e3", "\u0661", "0" * 10, " 1"):
            assert parameter.fault(odd) != ""


@pytest.mark.parametrize("text", ["", "c:1", "a cluster:9007199254740991", "\u00e4:0"])
def test_what_may_have_been_a_cursor_passes(text: str):
    assert re.fullmatch(CURSOR_PATTERN, text)


def test_every_link_leads_to_a_path_with_all_that_it_needs():
    targets = {
        operation["operationId"]: {
            told["name"] for told in operation["parameters"] if told["in"] == "path"
        }
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
    }
    links = [
        link
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    ]
    assert len({link["operationId"] for link in links}) > 30
    for link in links:
        assert targets[link["operationId"]] <= set(link["parameters"])
