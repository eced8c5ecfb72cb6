import msgspec
import pytest

from coordinator.api.problems import PROBLEMS, FieldError, Refusal, page, refused
from coordinator.core.commands import Reason, Refused

# The contract's list, without what has no cause yet: overload checks come later.
CONTRACT = {
    "unauthenticated": 401,
    "forbidden": 403,
    "invalid": 422,
    "namespace_not_found": 404,
    "executor_not_found": 404,
    "shard_not_found": 404,
    "drain_not_found": 404,
    "decision_not_found": 404,
    "event_not_found": 404,
    "would_overload": 409,
    "namespace_exists": 409,
    "namespace_not_empty": 409,
    "conflict": 409,
    "incarnation_closed": 409,
    "stale_sequence": 409,
    "shard_parked": 409,
    "precondition_failed": 412,
    "too_large": 413,
    "idempotency_key_reused": 422,
    "quota_exceeded": 429,
    "too_many_waiters": 429,
    "rate_limited": 429,
    "no_leader": 503,
    "recovering": 503,
    "route_not_found": 404,
    "method_not_allowed": 405,
    "unsupported_media": 415,
    "internal": 500,
    "shard_unassigned": 503,
    "shutting_down": 503,
    "outcome_unknown": 504,
}


def test_the_table_is_the_contracts():
    assert {reason: kind.status for reason, kind in PROBLEMS.items()} == CONTRACT


def test_whatever_the_state_machine_refuses_with_is_a_problem():
    assert {reason.value for reason in Reason} <= set(PROBLEMS)


@pytest.mark.parametrize("reason", CONTRACT)
def test_every_problem_has_a_page_that_explains_it(reason: str):
    text = page(reason)
    assert text is not None
    assert text.startswith(f"{reason} ({PROBLEMS[reason].status})")
    assert PROBLEMS[reason].title in text


def test_there_is_no_page_for_an_unknown_reason():
    assert page("nonsense") is None


@pytest.mark.parametrize("reason", CONTRACT)
def test_what_is_worth_another_try_says_when(reason: str):
    refusal = Refusal(reason)
    is_passing = PROBLEMS[reason].status in {429, 503, 504}
    assert ("Retry-After" in refusal.headers) == is_passing
    told = msgspec.json.decode(refusal.encoded(request_id="r", leader=None))
    assert ("retry_after_s" in told) == is_passing


def test_retry_after_is_whole_seconds_rounded_up():
    assert Refusal("no_leader", retry_after_s=0.2).headers["Retry-After"] == "1"
    assert Refusal("no_leader", retry_after_s=1.2).headers["Retry-After"] == "2"


def test_a_problem_has_the_fields_of_the_contract():
    refusal = Refusal("invalid", "bad", errors=(FieldError("a.b", "wrong"),))
    assert msgspec.json.decode(refusal.encoded(request_id="r1", leader="http://l")) == {
        "type": "/problems/invalid",
        "title": PROBLEMS["invalid"].title,
        "status": 422,
        "detail": "bad",
        "instance": "r1",
        "reason": "invalid",
        "leader": "http://l",
        "errors": [{"path": "a.b", "message": "wrong"}],
    }


def test_a_closed_incarnation_is_told_the_cause():
    refusal = refused(Refused(Reason.INCARNATION_CLOSED, "over", cause="expired"))
    assert msgspec.json.decode(refusal.encoded(request_id="r", leader=None))["cause"] == "expired"


def test_a_refusal_without_detail_says_its_title():
    assert Refusal("internal").detail == PROBLEMS["internal"].title
