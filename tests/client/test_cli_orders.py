"""What operators do with `shardctl` at night: previews, waits, watches, undo, past times."""

import asyncio
import io
import json
import re
from types import SimpleNamespace

import pytest

from client import Operator
from client.cli import faults, waits
from client.cli.session import Session, Settings, watched
from tests.client.cli_run import run
from tests.client.fleet import Diary
from tests.client.scripted import ok, problem, serving
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Terminal(io.StringIO):
    def isatty(self):
        return True


# ------------------------------------------------------------------------------------ undo


async def test_the_newest_order_is_taken_back_when_it_is_confirmed(
    shardctl, cluster, namespace, operator, monkeypatch
):
    await operator.declare_shards(namespace, ["a"])
    async with Diary().executor(cluster.endpoints, namespace, "e1") as executor:
        await until(executor.running)
        await shardctl("shard", "pin", "a", "--to", "e1", "--reason", "wrong")
        unasked = await shardctl("undo")
        assert unasked.status == faults.USAGE
        assert "shard_pinned of a to e1 (wrong), by 127.0.0.1" in unasked.err
        monkeypatch.setattr("sys.stdin", Terminal("no\n"))
        assert (await shardctl("undo")).status == faults.USAGE
        would = await shardctl("undo", "--dry-run")
        assert (would.status, "would take back event" in would.err) == (0, True)
        assert (await operator.shard(namespace, "a")).pinned == "e1"
        monkeypatch.setattr("sys.stdin", Terminal("undo\n"))
        done = await shardctl("undo", "--reason", "it was the other one")
        assert done.status == 0
        assert re.search(r"event \d+ is taken back by event \d+: shard_unpinned of a", done.err)
        assert (await operator.shard(namespace, "a")).pinned is None
        nothing = await shardctl("undo", "--yes")
        assert nothing.status == faults.NOT_FOUND
        assert "there is no order to take back" in nothing.err


async def test_orders_are_taken_back_from_the_newest_on_and_by_number(shardctl):
    await shardctl("executor", "cordon", "--hostname", "h1", "--reason", "one")
    await shardctl("balance", "pause", "--reason", "two", "--expires-in", "1h")
    told = await shardctl("events", "list", "--orders", "-o", "jsonl")
    first, second = (json.loads(line)["id"] for line in told.lines)
    for number in (second, first):
        done = await shardctl("undo", "--yes", "-o", "json")
        assert done.json["undoes"] == number
    again = await shardctl("undo", str(first))
    assert (again.status, "came after it" in again.err) == (faults.CONFLICT, True)
    assert (await shardctl("undo", "7")).status == faults.NOT_FOUND


async def test_an_order_that_cannot_be_taken_back_is_not_stepped_over():
    page = {
        "events": [
            {"id": 8, "kind": "shard_pinned", "by": "me", "can_undo": True},
            {"id": 9, "kind": "executor_evicted", "executor": "e1", "by": "me"},
        ],
        "cursor": "c:9",
    }
    async with serving(ok(page)) as node:
        words = ("--endpoints", node.url, "-n", "jobs", "undo", "--yes")
        refused = await asyncio.to_thread(run, *words)
    assert refused.status == faults.CONFLICT
    assert "executor_evicted of e1, by me" in refused.err


# ------------------------------------------------------------------------- previews, ends


async def test_a_dry_run_shows_load_that_moves_and_room_that_is_left(
    shardctl, diary, cluster, namespace, operator
):
    await operator.declare_shards(namespace, ["a", "b"])
    first = diary.executor(cluster.endpoints, namespace, "e1")
    async with first, diary.executor(cluster.endpoints, namespace, "e2") as second:
        await until(lambda: len(first.running()) + len(second.running()) == 2)
        would = await shardctl("executor", "drain", "e1", "--reason", "x", "--dry-run")
        assert (would.status, would.out) == (0, "")
        assert "would hand over every shard of executor e1 and place nothing there" in would.err
        assert "the 1 executors left, of capacity 1, would go from" in would.err
        assert await operator.drains(namespace) == []
        moved = await shardctl("shard", "move", "a", "--to", "e2", "--dry-run")
        assert "its target would go from" in moved.err
        as_json = await shardctl(
            "executor", "drain", "e1", "--reason", "x", "--dry-run", "-o", "json"
        )
        assert as_json.json["room"]["executors"] == 1


async def test_a_drain_without_room_says_what_to_do(shardctl, diary, cluster, namespace, operator):
    await operator.declare_shards(namespace, ["a"])
    async with diary.executor(cluster.endpoints, namespace, "e1") as executor:
        await until(executor.running)
        refused = await shardctl("executor", "drain", "e1", "--reason", "x")
        assert refused.status == faults.CONFLICT
        assert "would_overload: no other executor may be given its 1 shards" in refused.err
        assert "repeat with --force" in refused.err
        assert refused.err.count("\n") == 1


async def test_orders_are_given_for_a_while(shardctl, diary, cluster, namespace, operator):
    await operator.declare_shards(namespace, ["a"])
    async with diary.executor(cluster.endpoints, namespace, "e1") as executor:
        await until(executor.running)
        cordoned = await shardctl("executor", "cordon", "e1", "--expires-in", "2h", "-o", "json")
        assert cordoned.json["cordon"]["until"] > cordoned.json["cordon"]["since"]
        await shardctl("executor", "uncordon", "e1")
        words = ("shard", "pin", "a", "--to", "e1", "--expires-in", "1d", "-o", "json")
        assert (await shardctl(*words)).json["pinned_until"]
        drain = await shardctl(
            *("executor", "drain", "--hostname", "h9", "--reason", "x", "--expires-in", "90s"),
            *("-o", "json"),
        )
        assert drain.json["until"]
        wrong = await shardctl("executor", "cordon", "e1", "--expires-in", "soon")
        assert (wrong.status, wrong.err.count("\n")) == (faults.USAGE, 1)


# ----------------------------------------------------------------------------------- waits


async def test_a_move_a_pin_and_an_undrain_are_waited_for(
    shardctl, diary, cluster, namespace, operator
):
    await operator.declare_shards(namespace, ["a"])
    first = diary.executor(cluster.endpoints, namespace, "e1")
    async with first, diary.executor(cluster.endpoints, namespace, "e2") as second:
        await until(lambda: first.running() or second.running())
        here, there = ("e1", "e2") if first.running() else ("e2", "e1")
        moved = await shardctl("shard", "move", "a", "--to", there, "--reason", "x", "--wait")
        assert (moved.status, moved.out) == (0, "")
        assert f"a to {there}: owned on {there}, 1 of 1 moved" in moved.err
        assert (await operator.shard(namespace, "a")).executor == there
        pinned = await shardctl("shard", "pin", "a", "--to", here, "--wait")
        assert pinned.status == 0
        assert (await operator.shard(namespace, "a")).executor == here
        await shardctl("shard", "unpin", "a")
        drained = await shardctl("executor", "drain", here, "--reason", "x", "--wait")
        assert (drained.status, "drained, 1 of 1 moved" in drained.err) == (0, True)
        for words in ((here,), ("--host", f"host-{here}"), ("--hostname", f"host-{here}")):
            undrained = await shardctl("executor", "undrain", *words, "--wait")
            assert (undrained.status, "active, 0 of 0 moved" in undrained.err) == (0, True)


async def test_a_move_that_was_given_up_is_a_conflict():
    going = {"key": "a", "state": "releasing", "executor": "e1", "next": "e2"}
    kept = {"key": "a", "state": "owned", "executor": "e1"}
    async with serving(ok(going), ok(going), problem(503, "no_leader"), ok(kept)) as node:
        words = ("--endpoints", node.url, "-n", "jobs", "shard", "move", "a", "--to", "e2")
        given_up = await asyncio.to_thread(run, *words, "--wait")
    assert given_up.status == faults.CONFLICT
    assert "a did not get to e2: it is owned on e1" in given_up.err


async def test_a_shard_that_arrived_and_is_sent_on_at_once_has_arrived():
    going = {"key": "a", "state": "releasing", "executor": "e1", "next": "e2"}
    gone_on = {"key": "a", "state": "releasing", "executor": "e2", "next": "e3"}
    async with serving(ok(going), ok(gone_on)) as node:
        words = ("--endpoints", node.url, "-n", "jobs", "shard", "move", "a", "--to", "e2")
        moved = await asyncio.to_thread(run, *words, "--wait")
    assert moved.status == 0
    assert "1 of 1 moved" in moved.err


async def test_what_stands_against_several_executors_is_said_once():
    others = [
        {"executor": name, "rule": rule, "why": why}
        for name, rule, why in (
            ("e2", "cooldown", "it rests"),
            ("e3", "banned", "it failed to start on e3 lately"),
            ("e4", "cooldown", "it rests"),
        )
    ]
    view = {"key": "a", "state": "owned", "executor": "e1", "why_here": "it had no owner"}
    async with serving(ok(view | {"why_not_there": others})) as node:
        words = ("--endpoints", node.url, "-n", "jobs", "shard", "inspect", "a")
        told = await asyncio.to_thread(run, *words)
    against = [" ".join(line.split()) for line in told.lines if line.startswith("WHY-NOT ")]
    assert against == ["WHY-NOT e2, e4: it rests", "WHY-NOT e3: it failed to start on e3 lately"]


async def test_an_interrupted_wait_for_a_move_says_that_it_goes_on(monkeypatch):
    async def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        waits, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": interrupted})
    )
    going = {"key": "a", "state": "releasing", "executor": "e1", "next": "e2"}
    async with serving(ok(going)) as node:
        words = ("--endpoints", node.url, "-n", "jobs", "shard", "move", "a", "--to", "e2")
        ended = await asyncio.to_thread(run, *words, "--wait")
    assert ended.status == faults.INTERRUPTED
    assert "a to e2 goes on; follow it with `shardctl shard show a`" in ended.err


async def test_a_wait_for_a_move_times_out():
    going = {"key": "a", "state": "releasing", "executor": "e1", "next": "e2"}
    async with serving(*(ok(going) for _ in range(9))) as node:
        words = ("--endpoints", node.url, "-n", "jobs", "shard", "move", "a", "--to", "e2")
        late = await asyncio.to_thread(run, *words, "--wait", "--timeout", "100ms")
    assert late.status == faults.WAIT_TIMED_OUT
    assert "it goes on" in late.err


# --------------------------------------------------------------------------- watch, times


class SeenEnoughError(Exception):
    pass


async def test_what_is_watched_is_shown_again_when_something_happens(
    cluster, namespace, operator, monkeypatch
):
    monkeypatch.setattr("client.cli.session.WATCH_WAIT_S", 20.0)
    await operator.declare_shards(namespace, ["a"])
    seen = []

    async def draw(session):
        seen.append((await session.operator.shard(namespace, "a")).state)
        if seen[-1] == "parked":
            raise SeenEnoughError
        await operator.drain_shard(namespace, "a", reason="poison")

    shown = Session(Settings(tuple(cluster.endpoints), namespace), operator)
    with pytest.raises(SeenEnoughError):
        await asyncio.wait_for(watched(draw)(shown), 20)
    assert seen == ["vacant", "parked"]


async def test_a_watch_outlives_an_outage():
    answers = (problem(503, "no_leader"), ok({"events": [], "cursor": "c:1"}))
    async with serving(*answers) as node, Operator([node.url], timeout_s=0.1) as operator:

        async def draw(_):
            raise SeenEnoughError

        with pytest.raises(SeenEnoughError):
            await watched(draw)(Session(Settings((node.url,), "jobs"), operator))
    assert len(node.seen) >= 2


async def test_what_has_no_end_is_no_document(shardctl):
    assert (await shardctl("shard", "list", "--watch", "-o", "json")).status == faults.USAGE


async def test_who_owned_a_shard_at_a_time_and_who_ordered_what_since(
    shardctl, diary, cluster, namespace, operator
):
    await operator.declare_shards(namespace, ["a"])
    async with diary.executor(cluster.endpoints, namespace, "e1") as executor:
        await until(executor.running)
        since = (await operator.shard(namespace, "a")).since
        told = await shardctl("shard", "inspect", "--shard-key", "a", "--at", since)
        assert told.lines[0].split()[:3] == ["THEN", "e1", "owned"]
        early = await shardctl("shard", "show", "a", "--at", "2020-01-01")
        assert "it is not known who owned it before" in early.lines[0]
        as_json = await shardctl("shard", "show", "a", "--at", since, "-o", "json")
        assert as_json.json["then"]["executor"] == "e1"
        wrong = await shardctl("shard", "show", "a", "--at", "25:00")
        assert (wrong.status, wrong.err.count("\n")) == (faults.USAGE, 1)
        await shardctl("executor", "cordon", "e1", "--reason", "sick")
        for words in (("--host", "host-e1"), ("--since", "1h"), ("--hostname", "host-e1")):
            orders = await shardctl("events", "list", "--orders", *words, "--no-header")
            assert [line.split()[1] for line in orders.lines] == ["cordon_started"], words
        assert (await shardctl("events", "list", "--orders", "--until", "1h")).out == ""
