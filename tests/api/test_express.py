"""The express lane says what the ordinary way would have said, in its turn, or leaves it to it.

A path with an escaped letter is never plain, so it asks the ordinary way for the same answer.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.api import DESK
from coordinator.consensus import Confirmation
from coordinator.node import Node
from tests.api.keys import Keys
from tests.api.lanes import counted, escaped, get, line, names, shown
from tests.api.nodes import Answer, Caller, calling, ready, running, settings_of
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def taken(node: Node, monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How many requests the lane took, and how many it left to the ordinary way."""
    return counted(node, monkeypatch)


async def owned(api: Caller) -> str:
    ns = await api.namespace()
    await api.join(ns, "e1")
    await until(lambda: _is_owned(api, ns))
    return ns


async def _is_owned(api: Caller, ns: str) -> bool:
    return (await api.get(f"{ns}/shards/7/owner")).status == 200


@pytest.mark.parametrize("query", ["", "?consistency=local", "?consistency=linearizable"])
async def test_both_ways_give_an_owner_alike(api: Caller, taken: Counter[bool], query: str):
    ns = await owned(api)
    taken.clear()
    plain = await api.get(f"{ns}/shards/7/owner{query}")
    assert taken == {True: 1}
    ordinary = await api.get(f"{escaped(f'{ns}/shards/7/owner')}{query}")
    assert taken == {True: 1, False: 1}
    assert shown(plain) == shown(ordinary)
    assert set(plain.headers) == set(ordinary.headers)


@pytest.mark.parametrize("media", ["application/json", "application/msgpack"])
async def test_both_ways_answer_a_heartbeat_alike_and_count_it_once(
    api: Caller, node: Node, taken: Counter[bool], media: str
):
    ns = await owned(api)
    encode = msgspec.json.encode if media == "application/json" else msgspec.msgpack.encode
    path = f"{ns}/executors/e1/heartbeat"
    headers = {"Content-Type": media, "Accept": media, "X-Request-Id": "mine"}
    epoch = (await api.owner(ns, "7"))["epoch"]

    async def beat(sequence: int, path: str) -> Answer:
        body = {"incarnation": "e1-a", "sequence": sequence, "host": "h1", "address": "e1:1"}
        body["shards"] = {"7": {"epoch": epoch, "load": 0.5}}
        return await api.ask("POST", path, data=encode(body), headers=headers)

    route = "/v1/namespaces/{namespace}/executors/{executor}/heartbeat"
    meters, heard = node.replica.meters, node.app[DESK].leader.heartbeats_total
    before = meters.answered[route, 200], heard["ok"]
    taken.clear()
    plain = await beat(2, path)
    assert taken == {True: 1}
    assert (meters.answered[route, 200], heard["ok"]) == (before[0] + 1, before[1] + 1)
    ordinary = await beat(3, escaped(path))
    assert taken == {True: 1, False: 1}
    assert shown(plain) == shown(ordinary)
    assert plain.headers["X-Request-Id"] == ordinary.headers["X-Request-Id"] == "mine"
    view = node.app[DESK].leader.view(ns.rpartition("/")[2])
    assert view is not None
    assert view[1].loads.smoothed("7") == 0.5


async def test_what_is_not_usual_is_left_to_the_ordinary_way_with_its_body(
    api: Caller, taken: Counter[bool]
):
    ns = await api.namespace()
    joined = await api.beat(ns, "e1")
    assert (joined.status, taken[True]) == (200, 0), "who joins waits for one round, not for two"
    moved = await api.beat(ns, "e1", 2, joining=False, address="elsewhere:1")
    assert (moved.status, taken[True]) == (200, 1), "it was taken, and then handed on"
    told = await api.get(f"{ns}/executors/e1")
    assert told.body["address"] == "elsewhere:1"
    assert (await api.beat(ns, "e1", 1)).reason == "stale_sequence"
    assert (await api.beat(ns, "e1", 3, capacity=-1)).reason == "invalid"
    assert (await api.beat(ns, "e1", 3, incarnation="other", joining=False)).status == 409
    assert (await api.get(f"{ns}/shards/%00/owner")).reason == "invalid"
    assert (await api.get(f"{ns}/shards/7/owner?creat=true")).reason == "invalid"
    assert (await api.get("/v1/namespaces/nowhere/shards/7/owner")).status == 404


@pytest.mark.parametrize(
    "header",
    [
        {"Origin": "http://127.0.0.1"},
        {"Connection": "close"},
        {"Content-Encoding": "identity"},
        {"Host": "never-heard-of.localhost"},
    ],
)
async def test_what_asks_for_more_is_not_plain(
    api: Caller, taken: Counter[bool], header: dict[str, str]
):
    ns = await owned(api)
    taken.clear()
    await api.get(f"{ns}/shards/7/owner", **header)
    assert taken == {False: 1}


# ------------------------------------------------------------------- turns on one connection


def beat(ns: str, sequence: int, name: str) -> bytes:
    body = json.dumps(
        {"incarnation": "e1-a", "sequence": sequence, "host": "h1", "address": "e1:1"}
    )
    return (
        f"POST {ns}/executors/e1/heartbeat HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"X-Request-Id: {name}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


class Held:
    """Quorums whose word waits until the test lets it come."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[Callable[[], None]] = []
        self.forgotten = 0
        when_confirmed = node.consensus.when_confirmed

        def held(told: Any, **named: float) -> Confirmation:
            if "timeout_s" in named:  # a task's, of the ordinary way
                return when_confirmed(told, **named)
            confirmation = when_confirmed(lambda found: self.asked.append(lambda: told(found)))
            forget = confirmation.forget

            class Forgotten:
                def forget(_self) -> None:  # noqa: N805 - the test's own `self` is meant
                    self.forgotten += 1
                    forget()

            return Forgotten()  # type: ignore[return-value]

        monkeypatch.setattr(node.consensus, "when_confirmed", held)

    async def let_come(self) -> None:
        await until(self._first)
        self.asked.pop(0)()

    async def _first(self) -> bool:
        return bool(self.asked)


async def test_answers_come_in_the_order_of_their_requests_however_they_are_sent(
    api: Caller, node: Node
):
    ns = await owned(api)
    owner, other = f"{ns}/shards/7/owner", escaped(f"{ns}/shards/7/owner")
    async with line(node) as (reader, writer):
        writer.write(beat(ns, 2, "a") + get(owner, "b") + get(other, "c") + beat(ns, 3, "d"))
        assert await names(reader, 4) == ["a", "b", "c", "d"]
        for number, sent in enumerate((beat(ns, 4, "e"), get(other, "f"), get(owner, "g"))):
            writer.write(sent)
            await writer.drain()
            if number == 1:
                await asyncio.sleep(0)
        assert await names(reader, 3) == ["e", "f", "g"]
        whole = beat(ns, 5, "h") + get(owner, "i")
        for at in range(0, len(whole), 50):  # headers and bodies in pieces
            writer.write(whole[at : at + 50])
            await asyncio.sleep(0)
        assert await names(reader, 2) == ["h", "i"]


async def test_what_comes_while_an_answer_waits_is_kept_for_its_turn(
    api: Caller, node: Node, monkeypatch: pytest.MonkeyPatch
):
    ns = await owned(api)
    held = Held(node, monkeypatch)
    async with line(node) as (reader, writer):
        writer.write(beat(ns, 2, "a"))
        await until(held._first)
        writer.write(get(f"{ns}/shards/7/owner", "b"))
        await writer.drain()
        await asyncio.sleep(0.05)
        await held.let_come()
        assert await names(reader, 2) == ["a", "b"]


async def test_nothing_is_renewed_without_a_quorums_word(
    api: Caller, node: Node, monkeypatch: pytest.MonkeyPatch
):
    ns = await owned(api)
    view = node.app[DESK].leader.view(ns.rpartition("/")[2])
    assert view is not None
    held = Held(node, monkeypatch)
    heard = dict(view[1].sequences)
    async with line(node) as (reader, writer):
        writer.write(beat(ns, 2, "a"))
        await until(held._first)
        assert dict(view[1].sequences) == heard
        await held.let_come()
        assert await names(reader, 1) == ["a"]
    assert view[1].sequences["e1", "e1-a"] == 2


async def test_who_leaves_while_its_answer_waits_is_forgotten(
    api: Caller, node: Node, monkeypatch: pytest.MonkeyPatch
):
    ns = await owned(api)
    held = Held(node, monkeypatch)
    async with line(node) as (_, writer):
        writer.write(beat(ns, 2, "a"))
        await until(held._first)

    async def is_forgotten() -> bool:
        return held.forgotten == 1

    await until(is_forgotten)
    await held.let_come()  # told to nobody


@pytest.mark.parametrize("address", ["e1:1", "e2:1"], ids=["usual", "has to be committed"])
async def test_a_stop_waits_for_an_answer_that_is_under_way(
    monkeypatch: pytest.MonkeyPatch, address: str
):
    patience = "[limits]\nshutdown_timeout_s = 60"  # longer than `names` waits for an answer
    async with running(*settings_of(extra=patience)) as (node,), calling(node) as caller:
        await ready(caller)
        ns = await owned(caller)
        held = Held(node, monkeypatch)
        async with line(node) as (reader, writer):
            writer.write(get(f"{ns}/shards/7/owner", "first"))  # its Host is known from then on
            assert await names(reader, 1) == ["first"]
            writer.write(beat(ns, 2, "a").replace(b"e1:1", address.encode()))
            await until(held._first)
            stopping = asyncio.create_task(node._listener.stop())
            await asyncio.sleep(0.05)
            assert not stopping.done()
            await held.let_come()
            assert await names(reader, 1) == ["a"]
            await asyncio.wait_for(stopping, 20)


async def test_a_node_that_stops_says_so_to_whom_it_leads_no_more(
    monkeypatch: pytest.MonkeyPatch,
):
    patience = "[limits]\nshutdown_timeout_s = 60"
    async with running(*settings_of(extra=patience)) as (node,), calling(node) as caller:
        await ready(caller)
        ns = await owned(caller)
        held = Held(node, monkeypatch)
        async with line(node) as (reader, writer):
            writer.write(get(f"{ns}/shards/7/owner", "first"))
            assert await names(reader, 1) == ["first"]
            writer.write(beat(ns, 2, "a") + beat(ns, 3, "b")[:20])
            await until(held._first)
            stopping = asyncio.create_task(node.stop())
            await asyncio.sleep(0.05)
            await held.let_come()
            told = await asyncio.wait_for(reader.read(), 20)
            assert told.startswith(b"HTTP/1.1 503 ")
            assert told.count(b"HTTP/1.1") == 1
            await asyncio.wait_for(stopping, 20)


# ------------------------------------------------------------------------------ who asks


async def test_only_who_would_be_let_in_is_taken_and_failures_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    keys = Keys(
        tmp_path,
        router={"role": "router"},
        slow={"role": "router", "requests_per_s": 1000},
        narrow={"role": "router", "namespaces": ["other"]},
        boss={"role": "operator"},
    )
    async with running(*settings_of(extra=keys.settings)) as (node,), calling(node) as caller:
        caller.session.headers.update(keys.bearer("boss"))
        await ready(caller)
        ns = await owned(caller)
        path = f"{ns}/shards/7/owner"
        taken = counted(node, monkeypatch)
        turned_away = node.replica.meters.turned_away

        async def asked(**headers: str) -> tuple[int, bool]:
            taken.clear()
            answer = await caller.get(path, **headers)
            return answer.status, taken[True] == 1

        assert await asked(**keys.bearer("router")) == (200, True)
        assert await asked(**keys.bearer("slow")) == (200, False)
        assert await asked(**keys.bearer("narrow")) == (403, False)
        assert turned_away["forbidden"] == 1
        assert await asked(Authorization="Bearer shc_unknown") == (401, False)
        assert await asked(Authorization="Basic eA==") == (401, False)
        assert turned_away["unknown_credential"] == 2
        answer = await caller.get(path, **keys.bearer("router"))
        assert answer.headers["X-Cluster-Id"]
        keys.withdraw("router")
        node.reload()

        async def is_unknown() -> bool:
            return await asked(**keys.bearer("router")) == (401, False)

        await until(is_unknown)
