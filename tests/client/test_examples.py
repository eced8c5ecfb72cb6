"""The examples, as programs: several processes of each beside a real node."""

import asyncio
import contextlib
import sqlite3
import sys
from pathlib import Path

import aiohttp
import pytest

import client
from client import Operator
from tests.client.conftest import POLICY, node_fixture
from tests.waiting import until

FOLDER = Path(client.__file__).parent / "examples"
on_nodes_loop = pytest.mark.asyncio(loop_scope="session")


@contextlib.asynccontextmanager
async def running(*command, ends_well=True):
    """A program that ends by SIGTERM, and well; or one that is killed."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
        assert process.returncode is None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate() if ends_well else process.kill()
        async with asyncio.timeout(20):
            status = await process.wait()
    assert status == 0 or not ends_well


@contextlib.asynccontextmanager
async def services(cluster, module, count, folder, *, ends_well=False):
    """So many processes of an example; gives their URLs by name."""
    async with contextlib.AsyncExitStack() as stack:
        started = [
            await stack.enter_async_context(
                running(
                    *(sys.executable, "-m", f"client.examples.{module}", "--name", name),
                    *("--endpoints", ",".join(cluster.endpoints), "--folder", folder),
                    # Whoever is the last to leave has nobody to hand over to, and waits for that.
                    ends_well=ends_well and name != "a",
                )
            )
            for name in "abc"[:count]
        ]
        urls = {}
        for process in started:
            async with asyncio.timeout(20):
                _, name, url = (await process.stdout.readline()).decode().split()
            urls[name] = url
        yield urls


@node_fixture()
async def make_namespace(cluster):
    """Namespaces that the examples find: no lease has to pass before they are placed."""
    made = []
    async with Operator(cluster.endpoints) as operator:

        async def make(name, *, shard_count=None, **policy):
            await operator.create_namespace(
                name,
                kind="open" if shard_count is None else "fixed",
                shard_count=shard_count,
                policy={**POLICY, **policy},
            )
            made.append(name)
            await cluster.close_window(name)
            return operator

        yield make
        for name in made:
            await operator.delete_namespace(name, force=True)


@on_nodes_loop
async def test_callers_are_limited_wherever_they_ask(cluster, make_namespace, tmp_path):
    operator = await make_namespace("limits", shard_count=64)
    async with (
        services(cluster, "rate_limiter", 2, tmp_path, ends_well=True) as urls,
        aiohttp.ClientSession() as http,
    ):

        async def take(caller):
            url = urls["ab"[next_one() % 2]]
            async with http.post(f"{url}/take/{caller}") as answer:
                return answer.status

        turns = iter(range(10_000))
        next_one = turns.__next__
        for caller in ("alice", "bob"):
            # Ten at once, and one more a second: whichever process is asked, it is one bucket.
            statuses = [await take(caller) for _ in range(20)]
            assert set(statuses) <= {200, 429}, statuses
            assert 10 <= statuses.count(200) <= 13
        view = await operator.executors("limits")
        assert len(view) == 2
        assert sum(one.shards for one in view) == 64


@on_nodes_loop
async def test_no_task_is_lost_or_handed_out_twice_while_lists_move(
    cluster, make_namespace, tmp_path
):
    operator = await make_namespace("lists")
    names = [f"list-{number}" for number in range(4)]
    async with (
        services(cluster, "task_lists", 2, tmp_path) as urls,
        aiohttp.ClientSession() as http,
    ):
        added, taken = set(), []

        async def add(at, number):
            url, task = urls["ab"[number % 2]], f"{names[at]}/{number}"
            while True:
                async with http.post(f"{url}/lists/{names[at]}", data=task) as answer:
                    if answer.status == 201:
                        return added.add(task)
                await asyncio.sleep(0.05)

        async def work(at):
            while True:
                async with http.get(f"{urls['ba'[at % 2]]}/lists/{names[at]}") as answer:
                    if answer.status == 200:
                        taken.append((await answer.text()).strip())
                    else:
                        await asyncio.sleep(0.05)

        workers = [asyncio.create_task(work(at)) for at in range(len(names))]
        for number in range(12):
            await asyncio.gather(*(add(at, number) for at in range(len(names))))
            if number % 4 == 2:
                key = names[number % len(names)]
                owner = (await operator.shard("lists", key)).executor
                await operator.move_shard("lists", key, "ab"[owner == "a"], reason="test")
        assert await until(lambda: _true(len(taken) >= len(added)))
        assert sorted(taken) == sorted(added)
        assert len(added) == 48
        for worker in workers:
            worker.cancel()
    with sqlite3.connect(tmp_path / "tasks.sqlite") as database:
        assert database.execute("SELECT count(*) FROM tasks").fetchone() == (0,)


async def _true(value):
    return value


@on_nodes_loop
async def test_tenants_jobs_are_done_once_and_their_cost_is_reported(
    cluster, make_namespace, tmp_path
):
    operator = await make_namespace("tenants")
    for tenant in ("acme", "beta", "corp", "dima"):
        (tmp_path / tenant).mkdir()
        for number in range(3):
            milliseconds = 300 if tenant == "acme" else 10
            (tmp_path / tenant / f"{number}.job").write_text(f"{milliseconds}\n")
    async with services(cluster, "tenant_jobs", 2, tmp_path):
        assert await until(lambda: _true(len(list(tmp_path.glob("*/*.done"))) == 12))
        assert not list(tmp_path.glob("*/*.job"))

        async def loads():
            found = {one.key: one.load async for one in operator.shards("tenants")}
            return found if len(found) == 4 and (found["acme"] or 0) > 0 else None

        found = await until(loads)
        assert max(found, key=lambda key: found[key] or 0.0) == "acme"


@on_nodes_loop
async def test_a_shell_script_can_be_an_executor(cluster, make_namespace, tmp_path):
    operator = await make_namespace("shell", lease_ttl_s=10, heartbeat_interval_s=2)
    told = tmp_path / "told"
    work = tmp_path / "work.sh"
    work.write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >> {told}\n')
    work.chmod(0o755)
    await operator.declare_shards("shell", ["orders", "a shard/with more"])
    script = FOLDER / "executor.sh"

    def lines():
        return told.read_text().splitlines() if told.exists() else []

    async with running("sh", script, cluster.endpoints[0], "shell", "sh-1", work):
        await until(lambda: _true(len(lines()) == 2))
        owner = await operator.shard("shell", "orders")
        assert owner.executor == "sh-1"
        assert f"work.sh start orders {owner.epoch}" in lines()
        async with running("sh", script, cluster.endpoints[0], "shell", "sh-2", work):
            await until(lambda: _true_of(operator, "shell", "sh-2"))
            await operator.move_shard("shell", "orders", "sh-2", reason="test")

            async def moved():
                view = await operator.shard("shell", "orders")
                return view if view.executor == "sh-2" and view.epoch > owner.epoch else None

            there = await until(moved)
            await until(lambda: _true(f"work.sh start orders {there.epoch}" in lines()))
            stop, start = f"stop orders {owner.epoch}", f"start orders {there.epoch}"
            assert lines().index(f"work.sh {stop}") < lines().index(f"work.sh {start}")
    assert sum(" start " in line for line in lines()) == sum(" stop " in line for line in lines())
    assert await operator.executors("shell") == []


async def _true_of(operator, namespace, name):
    return any(one.executor == name for one in await operator.executors(namespace))


def test_every_example_is_listed_and_says_how_it_is_started():
    about = (FOLDER / "__init__.py").read_text()
    for path in FOLDER.iterdir():
        if path.suffix in {".py", ".sh"} and path.stem not in {"__init__", "front"}:
            assert path.stem in about
            assert "client.examples" in path.read_text() or path.suffix == ".sh"
