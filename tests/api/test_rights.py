"""Roles, rights and limits, as names alone decide."""

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.api.door import Door
from coordinator.api.problems import Refusal
from coordinator.api.rights import ANYBODY, GRANTS, NOBODY, Caller, Right, Role, Scope, why_not
from coordinator.api.routes import ROUTES
from coordinator.api.tokens import digest_of, minted, parse_book
from coordinator.clock import SystemClock
from coordinator.settings import Settings
from tests.api.nodes import DOCUMENT

NODE = Settings()
VIEWED = next(route for route in ROUTES if route.path == "/v1/namespaces")


def test_every_right_is_somebodys_and_nobody_has_any_but_the_open_one():
    assert set().union(*GRANTS.values()) == set(Right)
    assert {right for right in Right if ANYBODY.may(right)} == set(Right)
    for route in ROUTES:
        fault = why_not(
            NOBODY, route.right, namespace="mine", executor=None, is_narrowed=route.is_narrowed
        )
        assert (fault is None) is (route.right is Right.OPEN), route.path


@pytest.mark.parametrize(
    ("patterns", "name", "admits"),
    [
        ((), "anything", True),
        (("orders",), "orders", True),
        (("orders",), "orders-2", False),
        (("orders-*",), "orders-2", True),
        (("orders-*",), "orders", False),
        (("orders-*",), "Orders-2", False),
        (("a", "b*"), "bc", True),
        (("",), "", True),
        (("",), "a", False),
    ],
)
def test_a_limit_is_a_name_or_a_beginning(patterns: tuple[str, ...], name: str, *, admits: bool):
    assert Scope(patterns).admits(name) is admits


def test_a_limit_to_executors_is_one_of_speaking_for_them():
    one = Caller("one", Role.EXECUTOR, executors=Scope(("e-*",)))

    def fault(right: Right, executor: str) -> str | None:
        return why_not(one, right, namespace="n", executor=executor, is_narrowed=False)

    assert fault(Right.REPORT, "e-1") is None
    assert fault(Right.REPORT, "f-1") == "the right 'report' is limited to other executors"
    assert fault(Right.FOLLOW, "f-1") == "the right 'follow' is limited to other executors"


def test_the_document_says_which_paths_are_open():
    assert DOCUMENT["security"] == [{"bearer": []}, {"certificate": []}]
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        is_open = route.right is Right.OPEN
        assert (operation.get("security") == []) is is_open, route.path
        assert ("401" in operation["responses"]) is not is_open, route.path


@settings(derandomize=True, max_examples=20, deadline=None)
@given(st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=600))
def test_no_header_but_the_right_one_lets_anybody_in(text: str):
    token = minted()
    line = f'a = {{ role = "operator", sha256 = "{digest_of(token).hex()}" }}'
    door = Door(NODE, SystemClock(), parse_book(f"[tokens]\n{line}"))
    for header in (text, f"Bearer {text}", f"Bearer {token}{text or '.'}", f"Basic {token}"):
        request = make_mocked_request("GET", "/v1/namespaces", headers={"Authorization": header})
        if header.strip() != f"Bearer {token}":
            with pytest.raises(Refusal) as refused:
                door.admit(request, {}, VIEWED)
            assert refused.value.reason in {"unauthenticated", "rate_limited"}
    known = make_mocked_request("GET", "/", headers={"Authorization": f"bEARER  {token} "})
    assert door.admit(known, {}, VIEWED).label == "a"
