"""Callers over time: known by another token, known no more, too many, from elsewhere."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.api.app import DESK
from coordinator.api.rates import FAILURES_MAX
from coordinator.node import Node, StartError
from tests.api.keys import Keys
from tests.api.nodes import Answer, Caller, calling, running, settings_of
from tests.waiting import until
from tests.windows import close_window

SEED = '[namespaces.jobs]\nkind = "open"\npolicy = { initial_hold_s = 0.0 }\n'
NS = "/v1/namespaces/jobs"
BEAT: dict[str, Any] = {"incarnation": "i1", "sequence": 1, "joining": True, "host": "h1"}


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path, boss={"role": "operator"}, eye={"role": "viewer"})


@contextlib.asynccontextmanager
async def guarded(keys: Keys, count: int = 1) -> AsyncIterator[tuple[list[Node], list[Caller]]]:
    """Nodes that know these, with a namespace whose claim window is over."""
    settings = settings_of(count, extra=keys.settings + SEED)
    async with contextlib.AsyncExitStack() as stack:
        nodes = await stack.enter_async_context(running(*settings))
        callers = [await stack.enter_async_context(calling(node)) for node in nodes]
        await until(lambda: all("jobs" in node.replica.state.namespaces for node in nodes))
        await close_window(nodes, "jobs")
        yield nodes, callers


async def order(caller: Caller, token: dict[str, str], path: str = f"{NS}/balance/pause") -> Answer:
    return await caller.ask("POST", path, {"reason": "test"}, headers=token)


async def test_an_order_is_written_down_under_the_label_of_its_token(keys: Keys):
    async with guarded(keys) as (_, (api,)):
        sent = keys.bearer("boss") | {"X-Forwarded-By": "n9", "X-Forwarded-Caller": "10.9.9.9"}
        assert (await order(api, sent)).status == 200
        shown = await api.get(f"{NS}/balance", **keys.bearer("eye"))
        assert shown.body["pause"]["by"] == "boss"
        events = await api.get(f"{NS}/events", **keys.bearer("eye"))
        assert "boss" in {event["by"] for event in events.body["events"]}


async def test_every_order_is_logged_with_who_gave_it_and_what_it_came_to(
    keys: Keys, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "coordinator.api")
    async with guarded(keys) as (_, (api,)):
        await order(api, keys.bearer("boss"))
        gone = f"{NS}?confirm=jobs&dry_run=true"
        await api.ask("DELETE", gone, headers=keys.bearer("boss"))
        await order(api, keys.bearer("boss"), f"{NS}/shards/none/drain")
        await order(api, keys.bearer("eye"))
    orders = [line.getMessage() for line in caplog.records if line.getMessage()[:6] == "order "]
    assert orders == [
        f"order by=boss method=POST path={NS}/balance/pause came_to=done",
        f"order by=boss method=DELETE path={gone} came_to=done",
        f"order by=boss method=POST path={NS}/shards/none/drain came_to=shard_not_found",
    ]


async def test_a_forwarded_order_is_checked_and_written_down_by_the_leader_itself(keys: Keys):
    async with guarded(keys, 3) as (nodes, callers):
        leader = next(node for node in nodes if node.leader.is_leading)
        (follower, *_) = [
            caller for node, caller in zip(nodes, callers, strict=True) if node is not leader
        ]
        assert (await order(follower, keys.bearer("boss"))).status == 200
        assert leader.replica.state.namespaces["jobs"].info.pause.by == "boss"
        # A node whose file knows more than the leader's hands the question on, not the answer.
        book = leader.app[DESK].door.book
        keys.withdraw("boss")
        await until(lambda: leader.app[DESK].door.book is not book)
        others = [node for node in nodes if node is not leader]
        for node in others:
            node.app[DESK].door.exchange(book)
        refused = await order(follower, keys.bearer("boss"))
        assert (refused.status, refused.reason) == (401, "unauthenticated")
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")


async def test_a_token_is_good_while_its_line_stands_and_several_are_at_once(keys: Keys):
    async with guarded(keys) as ((node,), (api,)):
        keys.add("boss-2", role="operator")
        await until(lambda: "boss-2" in (node.app[DESK].door.book or set()).labels)
        for label in ("boss", "boss-2"):
            assert (await order(api, keys.bearer(label))).status == 200
        keys.withdraw("boss")
        await until(lambda: "boss" not in node.app[DESK].door.book.labels)
        assert (await order(api, keys.bearer("boss"))).status == 401
        assert (await order(api, keys.bearer("boss-2"))).status == 200


async def test_a_long_poll_tells_nothing_to_whose_token_was_withdrawn_meanwhile(keys: Keys):
    async with guarded(keys) as ((node,), (api,)):
        cursor = (await api.get(f"{NS}/events", **keys.bearer("eye"))).body["cursor"]
        path = f"{NS}/events?after={cursor}&wait=30s"
        polls = [
            asyncio.ensure_future(api.get(path, **keys.bearer(label))) for label in ("eye", "boss")
        ]
        await until(lambda: node.app[DESK].polls.count == 2)
        keys.withdraw("eye")
        await until(lambda: "eye" not in node.app[DESK].door.book.labels)
        assert (await order(api, keys.bearer("boss"))).status == 200
        withdrawn, known = await asyncio.gather(*polls)
        assert (withdrawn.status, known.status) == (401, 200)


async def test_a_file_that_cannot_be_used_leaves_the_former_in_use(
    keys: Keys, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    async with guarded(keys) as ((node,), (api,)):
        for spoil in (
            lambda: keys.path.write_text("[tokens"),
            lambda: keys.path.chmod(0o644),
            keys.path.unlink,
        ):
            caplog.clear()
            spoil()
            node.reload()
            await until(lambda: "tokens_kept" in caplog.text)
            assert (await order(api, keys.bearer("boss"))).status == 200
            assert (await order(api, {})).status == 401
        caplog.clear()
        keys.write()
        node.reload()
        await until(lambda: "tokens_read" in caplog.text)


async def test_a_reload_reads_the_file_although_it_looks_the_same(
    keys: Keys, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    async with guarded(keys) as ((node,), _):
        node.reload()
        await until(lambda: "tokens_read" in caplog.text)


async def test_a_node_does_not_start_with_a_file_that_cannot_be_used(keys: Keys):
    keys.path.chmod(0o604)
    (settings,) = settings_of(extra=keys.settings)
    with pytest.raises(StartError, match=r"open to others .*chmod 600"):
        Node(settings)


async def test_an_address_that_fails_often_is_told_to_wait_and_who_is_known_is_let_in(
    keys: Keys, caplog: pytest.LogCaptureFixture
):
    async with guarded(keys) as ((node,), (api,)):
        caplog.clear()
        wrong = {"Authorization": "Bearer shc_wrong"}
        told = [await order(api, wrong) for _ in range(FAILURES_MAX + 5)]
        assert [answer.status for answer in told] == [401] * FAILURES_MAX + [429] * 5
        assert int(told[-1].headers["Retry-After"]) > 1
        assert not {"X-Cluster-Id", "X-Leader"} & set(told[-1].headers)
        assert (await order(api, keys.bearer("boss"))).status == 200
        counted = node.replica.meters.turned_away
        assert counted["unknown_credential"] == FAILURES_MAX
        assert counted["too_many_failures"] == 5
        assert caplog.text.count("turned_away") <= 2, "a flood must not fill a disk"
        assert "shc_wrong" not in caplog.text


async def test_a_token_with_a_rate_gets_no_more(keys: Keys):
    keys.add("slow", role="viewer", requests_per_s=0.001)
    async with guarded(keys) as (_, (api,)):
        assert (await api.get(NS, **keys.bearer("slow"))).status == 200
        refused = await api.get(NS, **keys.bearer("slow"))
        assert (refused.status, refused.reason) == (429, "rate_limited")
        assert int(refused.headers["Retry-After"]) > 100
        assert (await api.get(NS, **keys.bearer("eye"))).status == 200


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic Zm9v", "bearer\tx", "Token x", "Bearer x y"]
)
async def test_other_ways_to_say_who_one_is_are_none(keys: Keys, header: str):
    async with guarded(keys) as (_, (api,)):
        assert (await order(api, {"Authorization": header})).status == 401


async def test_a_token_in_the_query_is_no_token_and_is_not_repeated(keys: Keys):
    async with guarded(keys) as (_, (api,)):
        asked = f"{NS}?token={keys['boss']}"
        assert (await api.get(asked)).status == 401
        refused = await api.get(asked, **keys.bearer("boss"))
        assert refused.status == 422
        assert keys["boss"] not in refused.raw.decode()


async def test_a_page_of_another_site_gives_no_orders():
    async with running(*settings_of(extra=SEED)) as (node,), calling(node) as api:
        await until(lambda: "jobs" in node.replica.state.namespaces)
        for origin in ("http://evil.example", "null", f"http://evil.example/{api.base}"):
            refused = await order(api, {"Origin": origin})
            assert (refused.status, refused.reason) == (403, "forbidden")
        assert (await order(api, {"Origin": api.base})).status == 200
        assert (await order(api, {})).status == 200


async def test_a_node_on_loopback_is_asked_by_its_own_names_only():
    async with running(*settings_of(extra=SEED)) as (node,), calling(node) as api:
        await until(lambda: "jobs" in node.replica.state.namespaces)
        port = api.base.rpartition(":")[2]
        for host in ("evil.example", f"evil.example:{port}", "[::1", "127.0.0.1.evil.example"):
            refused = await api.get("/v1/namespaces", Host=host)
            assert (refused.status, refused.reason) == (403, "forbidden")
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", "[::1]:7070"):
            assert (await api.get("/v1/namespaces", Host=host)).status == 200
        assert (await api.get("/livez", Host="anything.example")).status == 200


async def test_a_token_bound_to_executors_speaks_for_no_other(keys: Keys):
    keys.add("one", role="executor", namespaces=["jobs"], executors=["e-*"])
    one = keys.bearer("one")
    async with guarded(keys) as (_, (api,)):
        assert (await api.post(f"{NS}/executors/e-1/heartbeat", BEAT, **one)).status == 200
        for method, path in (
            ("POST", "executors/f-1/heartbeat"),
            ("GET", "executors/f-1/assignments?incarnation=i1"),
            ("POST", "executors/f-1/acks"),
            ("DELETE", "executors/f-1?incarnation=i1"),
        ):
            refused = await api.ask(method, f"{NS}/{path}", headers=one)
            assert (refused.status, refused.reason) == (403, "forbidden"), path


async def test_a_token_bound_to_hosts_takes_no_name_from_another(keys: Keys):
    for host in ("h1", "h2"):
        keys.add(host, role="executor", namespaces=["jobs"], hosts=[host])
    ours, theirs = keys.bearer("h1"), keys.bearer("h2")
    async with guarded(keys) as (_, (api,)):
        path = f"{NS}/executors/e1"
        lying = await api.post(f"{path}/heartbeat", BEAT, **theirs)
        assert lying.reason == "forbidden", "it says that it is on h1"
        assert (await api.post(f"{path}/heartbeat", BEAT, **ours)).status == 200
        taking = BEAT | {"incarnation": "i2", "host": "h2"}
        assert (await api.post(f"{path}/heartbeat", taking, **theirs)).reason == "forbidden"
        for method, rest, body in (
            ("GET", "/assignments?incarnation=i1", None),
            ("POST", "/acks", {"incarnation": "i1"}),
            ("DELETE", "?incarnation=i1", None),
        ):
            answers = [
                await api.ask(method, f"{NS}/executors/{name}{rest}", body, headers=theirs)
                for name in ("e1", "absent")
            ]
            assert {answer.reason for answer in answers} == {"forbidden"}
            assert answers[0].body["detail"] == answers[1].body["detail"]
            assert (await api.ask(method, path + rest, body, headers=ours)).status < 300
        again = await api.ask("DELETE", f"{path}?incarnation=i1", headers=ours)
        assert again.status == 204, "saying so twice is saying it once"


async def test_a_token_bound_to_hosts_takes_nothing_that_is_kept_for_another(keys: Keys):
    for host in ("h1", "h2"):
        keys.add(host, role="executor", namespaces=["jobs"], hosts=[host])
    ours, theirs = keys.bearer("h1"), keys.bearer("h2")
    path = f"{NS}/executors/e1"
    leaving = BEAT | {"sequence": 2, "joining": False, "status": "leaving", "back_within_s": 20}
    async with guarded(keys) as ((node,), (api,)):
        assert (await api.post(f"{path}/heartbeat", BEAT, **ours)).status == 200
        assert (await api.get(f"{NS}/shards/a/owner", **keys.bearer("boss"))).status == 200
        assert (await api.post(f"{path}/heartbeat", leaving, **ours)).status == 200
        left = await api.ask("DELETE", f"{path}?incarnation=i1", headers=ours)
        assert left.status == 204
        assert "e1" in node.replica.state.namespaces["jobs"].reservations
        taking = BEAT | {"incarnation": "i2", "host": "h2"}
        assert (await api.post(f"{path}/heartbeat", taking, **theirs)).reason == "forbidden"
        back = BEAT | {"incarnation": "i3"}
        assert (await api.post(f"{path}/heartbeat", back, **ours)).status == 200
        assert list(node.replica.state.namespaces["jobs"].owned("e1")) == ["a"]
