"""Requests to real sockets that answer badly, late or not at all."""

import asyncio
import random
import time

import pytest
from aiohttp import web

from client import calls, errors
from client.connection import Connection
from client.transport import Response, TransportFailed
from tests.client.conftest import free_port
from tests.client.scripted import ok, problem, serving

NAMESPACES = {"namespaces": [{"namespace": "jobs"}]}
READ = calls.namespaces()
CHANGE = calls.delete_namespace("jobs", force=False)


class Waits:
    """A sleep that takes no time and remembers; the clock goes on by it."""

    def __init__(self):
        self.taken = []

    def now(self):
        return time.monotonic() + sum(self.taken)

    async def __call__(self, seconds):
        self.taken.append(seconds)
        await asyncio.sleep(0)


class Start0(random.Random):
    """Chance, but the first endpoint comes first."""

    def randrange(self, *_):
        return 0


def connect(*urls, **options):
    waits = Waits()
    made = Connection(
        list(urls), "secret", rng=Start0(7), sleep=waits, monotonic=waits.now, **options
    )
    return made, waits


def dead_url():
    return f"http://127.0.0.1:{free_port()}"


async def test_an_answer_is_decoded_and_fields_that_are_not_known_are_ignored():
    body = {"namespaces": [{"namespace": "jobs", "invented": 1}], "more": True}
    async with serving(ok(body)) as node, connect(node.url)[0] as connection:
        found = await connection.send(READ, timeout_s=5)
    assert [view.namespace for view in found.namespaces] == ["jobs"]
    assert node.header("Authorization") == ["Bearer secret"]


async def test_a_dead_node_is_left_for_a_live_one_at_once_and_for_good():
    async with serving(ok(NAMESPACES)) as node:
        connection, waits = connect(dead_url(), node.url)
        async with connection:
            await connection.send(READ, timeout_s=5)
            await connection.send(READ, timeout_s=5)
    assert len(waits.taken) == 1
    assert waits.taken[0] <= 0.05


async def test_changes_go_straight_to_the_leader_once_it_is_named():
    async with (
        serving(ok({})) as leader,
        serving(ok(NAMESPACES, X_Leader=leader.url)) as follower,
        connect(follower.url)[0] as connection,
    ):
        await connection.send(calls.cluster(), timeout_s=5)
        await connection.send(CHANGE, timeout_s=5)
    assert [request.method for request in leader.seen] == ["DELETE"]
    assert [request.method for request in follower.seen] == ["GET"]


async def test_a_dead_leader_is_forgotten_although_followers_still_name_it():
    dead = dead_url()
    async with serving(ok(NAMESPACES, X_Leader=dead)) as follower:
        connection, _ = connect(follower.url)
        async with connection:
            await connection.send(calls.cluster(), timeout_s=5)
            assert connection.leader == dead
            await connection.send(CHANGE, timeout_s=5)
            assert connection.leader is None


@pytest.mark.parametrize(
    ("status", "reason"),
    [(503, "no_leader"), (503, "recovering"), (429, "rate_limited"), (504, "outcome_unknown")],
)
async def test_what_may_pass_is_tried_again_with_the_same_key(status, reason):
    async with (
        serving(problem(status, reason), problem(status, reason), ok({})) as node,
        connect(node.url)[0] as connection,
    ):
        await connection.send(CHANGE, timeout_s=30)
    keys = node.header("Idempotency-Key")
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]


async def test_each_change_has_a_key_of_its_own_and_reads_have_none():
    async with serving(ok({})) as node, connect(node.url)[0] as connection:
        await connection.send(CHANGE, timeout_s=5)
        await connection.send(CHANGE, timeout_s=5)
        await connection.send(READ, timeout_s=5)
    first, second, third = node.header("Idempotency-Key")
    assert first != second
    assert third is None


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (401, "unauthenticated", errors.Unauthenticated),
        (403, "forbidden", errors.Forbidden),
        (404, "namespace_not_found", errors.NotFound),
        (409, "namespace_not_empty", errors.Conflict),
        (409, "shard_parked", errors.ShardParked),
        (409, "a_reason_of_tomorrow", errors.Conflict),
        (412, "precondition_failed", errors.PreconditionFailed),
        (413, "too_large", errors.Invalid),
        (422, "invalid", errors.Invalid),
        (429, "quota_exceeded", errors.RateLimited),
        (500, "internal", errors.Unavailable),
    ],
)
async def test_a_refusal_is_raised_at_once_with_all_that_was_said(status, reason, kind):
    wrong = [{"path": "a.b", "message": "no"}]
    async with (
        serving(problem(status, reason, errors=wrong)) as node,
        connect(node.url)[0] as connection,
    ):
        with pytest.raises(kind) as refused:
            await connection.send(CHANGE, timeout_s=30)
    error = refused.value
    assert type(error) is kind
    assert (error.reason, error.status, error.request_id) == (reason, status, "r-1")
    assert error.detail == f"because {reason}"
    assert error.errors == (("a.b", "no"),)
    assert "a.b: no" in str(error)
    assert len(node.seen) == 1


async def test_a_closed_incarnation_is_raised_with_its_cause():
    async with (
        serving(problem(409, "incarnation_closed", cause="superseded")) as node,
        connect(node.url)[0] as connection,
    ):
        with pytest.raises(errors.IncarnationClosed) as closed:
            await connection.once(READ, timeout_s=5)
    assert closed.value.cause == "superseded"


async def test_retry_after_is_honoured():
    async with serving(problem(503, "no_leader", retry_after="3"), ok(NAMESPACES)) as node:
        connection, waits = connect(node.url)
        async with connection:
            await connection.send(READ, timeout_s=30)
    assert 3.0 <= waits.taken[0] <= 4.5


async def test_a_retry_after_beyond_the_deadline_ends_the_tries():
    async with (
        serving(problem(503, "no_leader", retry_after_s=60)) as node,
        connect(node.url)[0] as connection,
    ):
        with pytest.raises(errors.NoLeader):
            await connection.send(READ, timeout_s=5)
    assert len(node.seen) == 1


async def test_tries_end_with_the_deadline_and_say_what_stood_in_the_way():
    async with serving(problem(503, "shard_unassigned")) as node:
        connection, waits = connect(node.url)
        async with connection:
            with pytest.raises(errors.Unassigned):
                await connection.send(calls.owner("jobs", "a"), timeout_s=2)
    assert 2 <= len(node.seen) <= 11
    assert sum(waits.taken) < 2


async def test_an_outage_spends_the_budget_and_then_fails_fast():
    connection, waits = connect(dead_url())
    async with connection:
        for _ in range(30):
            with pytest.raises(errors.Unreachable):
                await connection.send(READ, timeout_s=1)
    assert len(waits.taken) < 40


async def test_nobody_there_is_unreachable_and_never_an_error_of_aiohttp():
    async with connect(dead_url())[0] as connection:
        with pytest.raises(errors.Unreachable) as nobody:
            await connection.once(READ, timeout_s=2)
    assert nobody.value.status is None


async def hang(_):
    await asyncio.sleep(30)


async def test_a_node_that_hangs_is_left_after_the_time_of_one_try():
    async with serving(hang) as slow, serving(ok(NAMESPACES)) as node:
        connection, _ = connect(slow.url, node.url, attempt_timeout_s=0.2)
        async with connection:
            await connection.send(READ, timeout_s=10)
    assert len(slow.seen) == 1


async def test_a_change_whose_answer_was_lost_is_an_unknown_outcome():
    async with serving(hang) as slow, connect(slow.url, attempt_timeout_s=0.2)[0] as connection:
        with pytest.raises(errors.OutcomeUnknown):
            await connection.send(CHANGE, timeout_s=0.3)


async def test_a_read_whose_answer_was_lost_has_merely_timed_out():
    async with serving(hang) as slow, connect(slow.url, attempt_timeout_s=0.2)[0] as connection:
        with pytest.raises(errors.TimedOut):
            await connection.send(READ, timeout_s=0.3)


async def test_a_change_that_was_never_sent_has_a_known_outcome():
    async with connect(dead_url())[0] as connection:
        with pytest.raises(errors.Unreachable):
            await connection.send(CHANGE, timeout_s=0.3)


@pytest.mark.parametrize("body", ["<html>", '{"namespaces": 7}', "[]", '{"namespaces": [{}]}'])
async def test_something_else_that_answers_is_a_bad_answer(body):
    async with (
        serving(lambda _: web.Response(text=body)) as node,
        connect(node.url)[0] as connection,
    ):
        with pytest.raises(errors.BadAnswer):
            await connection.send(READ, timeout_s=5)


async def test_a_refusal_that_is_no_problem_document_keeps_its_status():
    async with (
        serving(lambda _: web.Response(status=404, text="<html>")) as node,
        connect(node.url)[0] as connection,
    ):
        with pytest.raises(errors.NotFound) as missing:
            await connection.send(READ, timeout_s=5)
    assert missing.value.status == 404


async def test_redirects_are_not_followed_so_that_the_token_stays_here():
    async with serving(ok(NAMESPACES)) as elsewhere:
        moved = {"Location": elsewhere.url}
        async with (
            serving(lambda _: web.Response(status=302, headers=moved)) as node,
            connect(node.url)[0] as connection,
        ):
            with pytest.raises(errors.ShardCoordinatorError):
                await connection.send(READ, timeout_s=5)
    assert elsewhere.seen == []


async def test_an_answer_that_is_too_large_is_given_up(monkeypatch):
    monkeypatch.setattr("client.transport.BODY_BYTES_MAX", 1_000)
    async with (
        serving(lambda _: web.Response(body=b" " * 2_000)) as node,
        connect(node.url)[0] as connection,
    ):
        with pytest.raises(errors.Unreachable, match="larger than"):
            await connection.once(READ, timeout_s=5)


@pytest.mark.parametrize("key", ["a/b", "a b", "ü%2F?#", "..", "%"])
async def test_any_shard_key_arrives_as_it_is(key):
    async with serving(problem(404, "shard_not_found")) as node, connect(node.url)[0] as connection:
        with pytest.raises(errors.NotFound):
            await connection.send(calls.shard("jobs", key), timeout_s=5)
    segments = node.seen[0].url.raw_parts
    assert len(segments) == 6
    assert node.seen[0].match_info["path"] == f"v1/namespaces/jobs/shards/{key}"


async def test_any_object_with_request_and_close_can_carry_the_client():
    class Carrier:
        tries = 0

        async def request(self, *_, **__):
            self.tries += 1
            if self.tries == 1:
                raise TransportFailed("lost", was_sent=False)
            return Response(200, {}, b'{"namespaces": []}')

        async def close(self):
            self.tries = -1

    carrier = Carrier()
    connection, _ = connect("http://nowhere", transport=carrier)
    async with connection:
        assert (await connection.send(READ, timeout_s=5)).namespaces == []
    assert carrier.tries == -1
