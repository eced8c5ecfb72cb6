"""The blocks of client/GUIDE.md, run as they stand."""

import asyncio
import contextlib
import os
import re
import shlex
import signal
from pathlib import Path

import pytest

import client
from client import Executor, LeaseState, Misdirected, Owner, Router
from client.testing import LocalCluster
from tests.client import cli_run
from tests.client.conftest import node_fixture

PAGE = (Path(client.__file__).parent / "GUIDE.md").read_text()
PYTHON = dict(re.findall(r"```python (\S+)\n(.*?)```", PAGE, re.DOTALL))
SHELL = dict(re.findall(r"```bash (\S+)\n(.*?)```", PAGE, re.DOTALL))


def block(name, **given):
    """What a block of the page defines."""
    exec(compile(PYTHON[name], f"GUIDE.md:{name}", "exec"), given)  # noqa: S102 - our own page
    return given


def test_every_block_is_one_of_those_that_are_run():
    assert PAGE.count("```") == 2 * (len(PYTHON) + len(SHELL))
    assert set(PYTHON) == {"executor", "router", "switchboard", "test", "fallback"}
    assert set(SHELL) == {"create", "first-day", "look", "switch-on"}


class Queue:
    """A tenant's jobs, which say under which epoch they were done."""

    def __init__(self, key, jobs, done):
        self.key, self._jobs, self._done = key, jobs, done
        self.is_closed = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        while not self._jobs.get(self.key):  # noqa: ASYNC110 - it waits for ever
            await asyncio.sleep(1)
        self._jobs[self.key].pop()
        return self

    async def do(self, epoch):
        self._done.append((self.key, epoch))

    async def close(self):
        self.is_closed = True


async def test_the_executor_works_what_it_is_given_and_leaves_by_signal():
    jobs, done, queues = {"acme": [1, 2], "beta": [3]}, [], []

    async def open_queue(key):
        queues.append(Queue(key, jobs, done))
        return queues[-1]

    page = block("executor", asyncio=asyncio, open_queue=open_queue)
    async with LocalCluster(namespace="jobs") as cluster:
        running = asyncio.create_task(page["run_jobs"](cluster.endpoints, "a", "a:80"))
        await cluster.settle()
        await cluster.declare("acme", "beta")
        await cluster.until(lambda: len(done) == 3)
        assert sorted(key for key, _ in done) == ["acme", "acme", "beta"]
        assert all(epoch > 1 << 40 for _, epoch in done)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        assert len(queues) == 2
        assert all(queue.is_closed for queue in queues)
        assert cluster.owners() == {}


async def nothing(_shard):
    pass


def executor(cluster, name):
    return Executor(
        cluster.endpoints,
        namespace=cluster.namespace,
        name=name,
        address=f"{name}:80",
        on_start=nothing,
        on_stop=nothing,
    )


async def test_the_caller_finds_the_owner_before_and_after_a_move():
    async with (
        LocalCluster() as cluster,
        executor(cluster, "a") as a,
        executor(cluster, "b") as b,
        Router(cluster.endpoints, namespace="test") as router,
    ):
        calls, processes = [], {"a:80": a, "b:80": b}

        async def call(address, tenant, _job):
            calls.append(address)
            return processes[address].owned(tenant) is not None

        page = block("router", call=call)
        await page["submit"](router, "new", 1)
        assert cluster.owners()["new"] == calls[-1][0]
        await cluster.place({"acme": "a"})
        await page["submit"](router, "acme", 1)
        assert calls[-1] == "a:80"
        moving = asyncio.create_task(cluster.move("acme", "b"))
        await asyncio.sleep(0)
        await page["submit"](router, "acme", 2)
        await moving
        await page["submit"](router, "acme", 3)
        assert calls[-1] == "b:80"


async def test_the_switchboard_answers_or_sends_on():
    async with (
        LocalCluster() as cluster,
        executor(cluster, "a") as a,
        executor(cluster, "b") as b,
        cluster.router() as router,
    ):
        await cluster.place({"acme": "a", "beta": "b"})
        await cluster.settle()

        async def answer(shard, question):
            return f"{shard.key} {question} here"

        async def send_on(address, tenant, question):
            if address != "b:80" or b.owned(tenant) is None:
                raise Misdirected(tenant)
            return f"{tenant} {question} {address}"

        page = block("switchboard", answer=answer, send_on=send_on)
        assert await page["ask"](a, router, "acme", "?") == "acme ? here"
        assert await page["ask"](a, router, "beta", "?") == "beta ? b:80"


class Service:
    """What the test of the guide is a test of."""

    def __init__(self, endpoints, name):
        self._executor = Executor(
            endpoints, namespace="test", name=name, on_start=nothing, on_stop=nothing
        )

    async def __aenter__(self):
        await self._executor.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self._executor.__aexit__(None, None, None)

    async def serves(self, key):
        return self._executor.owned(key) is not None

    def running(self):
        return self._executor.running()


async def test_the_test_passes():
    (test,) = [
        found for name, found in block("test", Service=Service).items() if name.startswith("test_")
    ]
    cluster = LocalCluster()
    try:
        await test(cluster)
    finally:
        await cluster.__aexit__(None, None, None)


async def test_a_router_of_today_hashes_until_there_is_a_table(tmp_path):
    fleet = {name: f"{name}:80" for name in ("a", "b", "c")}
    # The page's folder is a server's; the test has one of its own.
    made = PYTHON["fallback"].replace("/var/lib/tenants", str(tmp_path))
    page = {}
    exec(compile(made, "GUIDE.md:fallback", "exec"), page)  # noqa: S102
    policy = {"initial_placement": "hash", "initial_hold_s": 60, "balancer": {"mode": "dry_run"}}
    keys = [f"tenant-{number}" for number in range(30)]
    async with contextlib.AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(LocalCluster(namespace="tenants", policy=policy))
        cluster.down()
        router = await stack.enter_async_context(page["router_of_today"](cluster.endpoints, fleet))
        before = {key: router.owner(key) for key in keys}
        assert all(isinstance(owner, Owner) and owner.epoch == 0 for owner in before.values())
        cluster.up()
        for name in fleet:
            await stack.enter_async_context(executor(cluster, name))
            await cluster.advance(20)
        await cluster.operator().declare_shards("tenants", keys)
        await cluster.until(lambda: len(cluster.owners()) == len(keys), within_s=120)
        await cluster.settle()
        for key in keys:
            now = router.owner(key)
            assert now is not None
            assert now.epoch > 0
            assert (now.executor, now.address) == (before[key].executor, before[key].address)


@node_fixture()
async def shell(cluster):
    """Runs a block line by line, as a shell reads it; what it printed."""

    async def run(name):
        printed = ""
        for line in SHELL[name].replace("$API", cluster.endpoints[0]).splitlines():
            command, *words = shlex.split(line, comments=True)
            assert command == "shardctl"
            done = await asyncio.to_thread(cli_run.run, *words)
            assert done.status == 0, done.err
            printed += done.out
        return printed

    yield run


@pytest.mark.asyncio(loop_scope="session")
async def test_the_commands_do_what_the_guide_says(shell, operator):
    await shell("create")
    assert (await operator.namespace("jobs")).kind == "open"
    assert (await operator.namespace("sessions")).shard_count == 256
    await shell("first-day")
    policy = (await operator.namespace("tenants")).policy
    assert (policy.initial_placement, policy.balancer.mode) == ("hash", "dry_run")
    assert "spread" in (await shell("look")).lower()
    await shell("switch-on")
    policy = (await operator.namespace("tenants")).policy
    assert policy.balancer.mode == "on"


def test_every_state_and_role_of_the_table_exists():
    for word in ("SUSPENDED", "LOST", "CONTINUED"):
        assert word in PAGE
        assert LeaseState[word]
    for name in ("ShardParked", "FencedOut", "IncarnationClosed", "NoLeader", "Unreachable"):
        assert name in PAGE
        assert name in client.__all__


def test_what_the_guide_says_can_be_ordered_of_a_cluster_exists():
    (sentence,) = re.findall(r"What can be ordered of a cluster: (.*?)\. Code", PAGE)
    for name in re.findall(r"`(\w+)`", sentence):
        assert callable(getattr(LocalCluster, name)), name
