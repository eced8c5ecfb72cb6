"""Real nodes on loopback, in the test's own process."""

import asyncio
import contextlib
import itertools
import signal
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from client import Operator
from client.errors import ShardCoordinatorError
from client.testing.virtual_time import VirtualTime
from coordinator.node import Node
from coordinator.settings import ApiSettings, NodeSettings, Settings
from tests.client.cli_run import run
from tests.client.fleet import Diary
from tests.windows import close_window

NAMESPACE = "jobs"
_NUMBERS = itertools.count(1)
# Short enough that a lost lease is seen within a test, long enough for a busy machine.
POLICY = {
    "lease_ttl_s": 1.5,
    "heartbeat_interval_s": 0.2,
    "initial_hold_s": 0.0,
    "balancer": {"mode": "off"},
    "handoff": {"release_timeout_s": 1.0},
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """Nodes by name, with their base URLs."""

    def __init__(self, count: int) -> None:
        names = [f"n{number}" for number in range(1, count + 1)]
        peers = {name: f"127.0.0.1:{free_port()}" for name in names}
        self.nodes: dict[str, Node] = {}
        self.urls: dict[str, str] = {}
        for name in names:
            bind = f"127.0.0.1:{free_port()}"
            settings = Settings(
                node=NodeSettings(name=name, peers=peers), api=ApiSettings(bind=bind)
            )
            self.nodes[name] = Node(settings)
            self.urls[name] = f"http://{bind}"

    @property
    def endpoints(self) -> list[str]:
        return list(self.urls.values())

    async def start(self, namespace: str = NAMESPACE) -> None:
        await asyncio.gather(*(node.start() for node in self.nodes.values()))
        async with Operator(self.endpoints) as operator, asyncio.timeout(20):
            while True:
                with contextlib.suppress(ShardCoordinatorError):
                    await operator.create_namespace(namespace, policy=POLICY)
                    break
                await asyncio.sleep(0.05)
        await self.close_window(namespace)

    async def close_window(self, namespace: str) -> None:
        """Nobody is there who could claim anything: tests need not wait for a lease to pass."""
        await close_window(self.nodes.values(), namespace)

    async def stop(self, *names: str) -> None:
        for name in names or tuple(self.nodes):
            node = self.nodes.pop(name)
            self.urls.pop(name)
            await node.stop()


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path_factory):
    for name in ("ENDPOINTS", "NAMESPACE", "TOKEN_FILE", "TOKEN", "PROFILE"):
        monkeypatch.delenv(f"SHARDCTL_{name}", raising=False)
    # The profiles of whoever runs the tests are none of theirs.
    monkeypatch.setenv("SHARDCTL_CONFIG_DIR", str(tmp_path_factory.getbasetemp() / "no-profiles"))


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """What a shell starts in the background ignores SIGINT, and so would all that tests start."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
async def virtual_time() -> AsyncIterator[VirtualTime]:
    """Time of the test's loop that passes when nothing else is to be done, so waiting is free."""
    taken = VirtualTime.shared(asyncio.get_running_loop(), limit_s=600.0)
    yield taken
    taken.give_back()


def node_fixture(**options: Any) -> Any:
    """An async fixture on the loop that lasts for all tests, where the node lives."""
    return pytest_asyncio.fixture(loop_scope="session", **options)


@node_fixture(scope="session")
async def cluster() -> AsyncIterator[Cluster]:
    """One node for all tests that need a real one; each takes a namespace of its own."""
    one = Cluster(1)
    await one.start()
    yield one
    await one.stop()


@pytest.fixture
async def three_nodes() -> AsyncIterator[Cluster]:
    """Three nodes for one test."""
    three = Cluster(3)
    await three.start()
    yield three
    await three.stop()


@node_fixture()
async def operator(cluster: Cluster) -> AsyncIterator[Operator]:
    async with Operator(cluster.endpoints) as one:
        yield one


@node_fixture()
async def namespace(cluster: Cluster, operator: Operator) -> AsyncIterator[str]:
    """An open namespace that no other test uses."""
    name = f"ns-{next(_NUMBERS)}"
    await operator.create_namespace(name, policy=POLICY)
    await cluster.close_window(name)
    yield name
    await operator.delete_namespace(name, force=True)


@pytest.fixture
def diary():
    return Diary()


@pytest.fixture
def shardctl(cluster, namespace):
    async def call(*arguments):
        common = ("--endpoints", ",".join(cluster.endpoints), "-n", namespace)
        return await asyncio.to_thread(run, *common, *arguments)

    return call
