"""Registers tell what must not stand in them, and hold nothing against a write that is unknown."""

import time

import pytest
from aiohttp import ClientSession, ClientTimeout, web
from aiohttp.test_utils import TestServer

from bench.failover.registers import Register, Registers, Try


def done(number, began_at, ended_at):
    return Try(0, number, "n1", began_at, ended_at, 200)


def register(*tries, refused=(), unknown=()):
    made = Register("r", 9, {one.number: one.ended_at for one in tries}, set(refused), set(unknown))
    made.newest = max(tries, key=lambda one: one.began_at, default=None)
    return made


FOUR, FIVE = done(4, 1.0, 2.0), done(5, 3.0, 4.0)


def test_the_newest_that_was_acknowledged_may_stand_there():
    kept = register(FOUR, FIVE)
    assert kept.fault(FIVE, 5) is None
    assert kept.fault(FOUR, 5) is None  # acknowledged while it was read
    assert register().fault(None, 0) is None


def test_what_was_over_before_it_or_nothing_at_all_is_a_loss():
    assert "5 was acknowledged" in register(FOUR, FIVE).fault(FIVE, 4)
    assert "5 was acknowledged" in register(FOUR, FIVE).fault(FIVE, 0)


def test_of_two_that_overlapped_either_may_be_the_last():
    long = done(3, 1.0, 3.5)
    assert register(long, FIVE).fault(FIVE, 3) is None


def test_what_is_not_known_to_be_done_may_come_late():
    assert register(FIVE, unknown=[4]).fault(FIVE, 4) is None


def test_what_was_refused_must_never_stand_there():
    assert "was refused" in register(FIVE, refused=[6]).fault(FIVE, 6)


class Nodes:
    """One node that answers as it is told, and another that is not there."""

    names = ("n1", "n2")

    def __init__(self, session, url):
        self._session = session
        self.api = {"n1": url, "n2": "http://127.0.0.1:1"}

    async def leader(self):
        return "n1"

    async def ask(self, method, url, *, body=None, timeout_s):
        timeout = ClientTimeout(total=timeout_s)
        async with self._session.request(method, url, json=body, timeout=timeout) as answer:
            return answer.status, await answer.read()


@pytest.fixture
async def server():
    answers = []

    async def answer(request):
        if request.method == "PUT":
            return web.json_response({}, status=201)
        told = await request.json()
        status, reason = answers.pop(0) if answers else (200, "")
        return web.json_response({"reason": reason, "told": told}, status=status)

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    yield server, answers
    await server.close()


@pytest.fixture
async def registers(server):
    server, _ = server
    async with ClientSession() as session:
        nodes = Nodes(session, str(server.make_url("")).rstrip("/"))
        yield Registers(nodes, count=1, pause_s=0.001)


async def test_answers_are_told_apart_done_never_done_and_not_known(server, registers):
    _, answers = server
    answers += [(200, ""), (503, "no_leader"), (503, "outcome_unknown")]
    first, refused, unknown = [await registers.write(0, "n1") for _ in range(3)]
    gone = await registers.write(0, "n2")
    assert (first.is_acknowledged, refused.is_acknowledged, gone.is_acknowledged) == (
        True,
        False,
        False,
    )
    assert refused.is_refused
    assert not unknown.is_refused
    assert gone.status is None
    kept = registers.registers[0]
    assert (set(kept.acknowledged), kept.refused, kept.unknown) == ({1}, {2}, {3, 4})
    assert kept.newest == first


async def test_the_first_write_after_a_moment_is_one_that_was_begun_after_it(registers):
    async with registers:
        since = time.monotonic() + 0.05
        first = await registers.first_after(since, 5.0)
        assert first.began_at >= since
        assert first.is_acknowledged
