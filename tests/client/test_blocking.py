"""The kit without a loop: threads that wait, processes that fork, signals that end a wait."""

import asyncio
import inspect
import subprocess
import sys
import textwrap
import threading

import pytest

import client
from client import blocking
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


def public(kind):
    return {name for name in vars(kind) if not name.startswith("_")}


async def test_no_call_of_the_kit_is_missing():
    assert public(client.Operator) - {"connection"} <= public(blocking.Operator)
    for kind, facade in ((client.Operator, blocking.Operator), (client.Router, blocking.Router)):
        for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction):
            if not name.startswith("_"):
                assert inspect.signature(getattr(facade, name)) == inspect.signature(method)
                assert getattr(facade, name).__doc__ == method.__doc__
        assert inspect.signature(facade) == inspect.signature(kind)
    assert public(client.Router) - {"cursor"} <= public(blocking.Router)
    assert public(client.Executor) <= public(blocking.Executor)
    assert inspect.signature(blocking.Executor) == inspect.signature(client.Executor)


async def test_a_thread_runs_an_executor_and_routes_to_it(cluster, namespace):
    started, stopped, threads = [], [], set()

    def start(shard):
        threads.add(threading.current_thread().name)
        started.append(shard.key)

    def work():
        with (
            blocking.Operator(cluster.endpoints) as operator,
            blocking.Executor(
                cluster.endpoints,
                namespace=namespace,
                name="e1",
                address="here:1",
                on_start=start,
                on_stop=lambda shard: stopped.append(shard.key),
                leave_timeout_s=0.5,
            ) as executor,
            blocking.Router(cluster.endpoints, namespace=namespace) as router,
        ):
            router.ready(timeout_s=5)
            operator.declare_shards(namespace, ["a", "b"])
            assert router.lookup("a").address == "here:1"
            while len(router) < 2 or set(executor.running()) != {"a", "b"}:
                assert not executor.wait(0.01)
            assert router.owner("a") == router.owners()["a"]
            assert router.owner("unknown") is None
            assert {shard.key for shard in operator.shards(namespace)} == {"a", "b"}
            assert executor.lease_state is client.LeaseState.CONNECTED
            with pytest.raises(client.NotFound):
                operator.shard(namespace, "unknown")
        return executor.name

    assert await asyncio.to_thread(work) == "e1"
    assert sorted(started) == sorted(stopped) == ["a", "b"]
    assert threading.main_thread().name not in threads


async def test_an_executor_that_is_ended_wakes_who_waits_and_says_why(cluster, namespace, operator):
    entered = threading.Event()

    def work():
        with blocking.Executor(
            cluster.endpoints,
            namespace=namespace,
            name="e1",
            on_start=lambda _: None,
            on_stop=lambda _: None,
        ) as executor:
            entered.set()
            assert executor.wait(10)

    working = asyncio.create_task(asyncio.to_thread(work))
    await until(entered.is_set)
    await operator.evict_executor(namespace, "e1", reason="test")
    with pytest.raises(client.IncarnationClosed, match="evicted"):
        await working


async def test_an_executor_that_cannot_join_says_so_at_the_door(cluster):
    def work():
        with blocking.Executor(
            cluster.endpoints,
            namespace="unknown",
            name="e1",
            on_start=lambda _: None,
            on_stop=lambda _: None,
        ):
            raise AssertionError("it has not joined")

    with pytest.raises(client.NotFound):
        await asyncio.to_thread(work)


async def test_a_callback_on_the_kits_own_loop_cannot_wait_for_itself(cluster, namespace):
    failures = []

    async def start(_):
        try:
            operator.namespaces()
        except RuntimeError as error:
            failures.append(str(error))

    def work():
        with blocking.Executor(
            cluster.endpoints,
            namespace=namespace,
            name="e1",
            on_start=start,
            on_stop=lambda _: None,
            leave_timeout_s=0.5,
        ) as executor:
            operator.declare_shards(namespace, ["a"])
            while not failures:
                executor.wait(0.01)

    operator = await asyncio.to_thread(blocking.Operator, cluster.endpoints)
    await asyncio.to_thread(work)
    assert "would wait for itself" in failures[0]
    await asyncio.to_thread(operator.close)


async def run(program, *arguments):
    """The output of a program of its own."""
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), *arguments],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split("\n")


async def test_a_forked_child_makes_its_own_and_the_parents_go_on(cluster):
    told = await run(
        """
        import os, sys
        from client import blocking

        before = blocking.Operator([sys.argv[1]])
        before.namespaces()
        router = blocking.Router([sys.argv[1]], namespace="any")
        executor = blocking.Executor([sys.argv[1]], namespace="any", name="e",
                                     on_start=print, on_stop=print)
        # Those that ask no loop would answer in the child, and never hear of a change.
        asked = [before.namespaces, lambda: router.owner("a"), lambda: router.is_stale,
                 lambda: len(router), lambda: executor.lease_state, lambda: executor.owned("a"),
                 executor.wait]
        if os.fork() == 0:
            refused = 0
            for ask in asked:
                try:
                    ask()
                except blocking.ForkedError as error:
                    refused += 1
                    text = error
            print("child:", text, flush=True)
            print("refused:", refused == len(asked), flush=True)
            with blocking.Operator([sys.argv[1]]) as own:
                print("own:", len(own.namespaces()) > 0, flush=True)
            os._exit(0)
        os.wait()
        print("parent:", len(before.namespaces()) > 0)
        before.close()
        """,
        cluster.endpoints[0],
    )
    assert told[0].startswith("child: made in process")
    assert told[1:4] == ["refused: True", "own: True", "parent: True"]


async def test_a_signal_ends_the_body_of_a_worker_which_then_hands_over(cluster, namespace):
    told = await run(
        """
        import os, signal, sys, threading
        from client import blocking

        with blocking.Executor([sys.argv[1]], namespace=sys.argv[2], name="w",
                               on_start=print, on_stop=print) as executor:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
            print(executor.run_until_signalled().name)
        print("left")
        """,
        cluster.endpoints[0],
        namespace,
    )
    assert told[:2] == ["SIGTERM", "left"]


async def test_an_interrupted_wait_takes_its_work_with_it():
    told = await run(
        """
        import os, signal, threading, time
        from client import blocking

        router = blocking.Router(["http://127.0.0.1:9"], namespace="jobs")
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        try:
            router.lookup("a", timeout_s=30)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - began < 10)
        """
    )
    assert told[0] == "interrupted True"
