"""An executor that stands still or is cut off with work in its hands: its successor works alone."""

import asyncio
import contextlib
import signal
import sys
import time

import msgspec
import pytest

from bench.cluster import Nodes
from bench.processes import Processes
from client import Operator
from tests.fencing_store import FencingStore
from tests.system.namespaces import NamespacedNodes, Network, lack
from tests.system.worker import Task
from tests.waiting import until

NAMESPACE = "work"
LEASE_S = 1.5
POLICY = {
    "lease_ttl_s": LEASE_S,
    "heartbeat_interval_s": 0.3,
    "initial_hold_s": 1.0,  # both are up before anything is placed
    "balancer": {"mode": "off"},
}
KEYS = [f"shard-{number}" for number in range(8)]
UP_S = 20.0


class Crew:
    """Two workers, a store that both write to, and nodes."""

    def __init__(self, folder, processes, nodes):
        self.folder = folder
        self.processes = processes
        self.nodes = nodes
        self.store = FencingStore(folder / "store.db")
        self.operator = Operator(nodes.urls)

    async def start(self, name, within=()):
        task = Task(
            name=name,
            urls=self.nodes.urls,
            namespace=NAMESPACE,
            store=str(self.folder / "store.db"),
            told=str(self.folder / f"{name}.told"),
        )
        argv = [sys.executable, "-m", "tests.system.worker", msgspec.json.encode(task).decode()]
        await self.processes.start(name, [*within, *argv])

    def told(self, name):
        """What a worker was told: when and what."""
        lines = (self.folder / f"{name}.told").read_text().splitlines()
        return [(float(at), what) for at, _, what in (line.partition(" ") for line in lines)]

    def of(self, name):
        """The shards that a worker wrote to last of all."""
        last = {one.shard: one.writer for one in self.store.accepted()}
        return sorted(key for key, writer in last.items() if writer == name)


@contextlib.asynccontextmanager
async def working(folder, processes, nodes, **within):
    """Both work on half of the shards each."""
    crew = Crew(folder, processes, nodes)
    try:
        await nodes.start_all()
        await crew.operator.create_namespace(NAMESPACE, kind="open", policy=POLICY)
        await crew.operator.declare_shards(NAMESPACE, KEYS)
        for name in ("one", "two"):
            await crew.start(name, within.get(name, ()))
        await until(
            lambda: crew.of("one") and sorted(crew.of("one") + crew.of("two")) == KEYS, UP_S
        )
        yield crew
    finally:
        await crew.operator.close()
        await nodes.close()


async def test_an_executor_that_stood_still_for_three_leases_wakes_to_a_loss_and_writes_nothing(
    tmp_path,
):
    async with (
        Processes(tmp_path) as processes,
        working(tmp_path, processes, Nodes(tmp_path, processes)) as crew,
    ):
        lost = crew.of("one")
        processes.send("one", signal.SIGSTOP)
        stopped_at = time.monotonic()
        seen = len(crew.told("one"))
        await until(lambda: crew.of("two") == KEYS, UP_S)
        await asyncio.sleep(max(0.0, stopped_at + 3 * LEASE_S - time.monotonic()))
        before = len(crew.store.writes())
        processes.send("one", signal.SIGCONT)
        await until(lambda: {f"stop {key}" for key in lost} <= set(whats(crew, seen)), 5.0)
        callbacks = [what for what in whats(crew, seen) if not what.startswith("fenced")]
        assert callbacks[0] == "lease lost" or callbacks[:2] == ["lease suspended", "lease lost"]
        await asyncio.sleep(0.5)
        # What it had in its hands when it was stopped came late, and was refused.
        late = [one for one in crew.store.writes()[before:] if one.writer == "one"]
        assert sorted(one.shard for one in late) == lost
        assert all(one.is_refused for one in late)
        assert crew.store.faults() == []
        assert crew.of("two") == KEYS


def whats(crew, seen):
    return [what for _, what in crew.told("one")[seen:]]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(lack() is not None, reason=lack() or "")
async def test_an_executor_that_is_cut_off_stops_by_itself_before_its_successor_begins(tmp_path):
    async with Processes(tmp_path) as processes:
        network = Network(processes, ("n1", "n2", "n3", "one", "two"))
        await network.open()
        try:
            nodes = NamespacedNodes(tmp_path, processes, network, names=("n1", "n2", "n3"))
            within = {name: network.within(name) for name in ("one", "two")}
            async with working(tmp_path, processes, nodes, **within) as crew:
                lost = crew.of("one")
                network.cut("one", "n1", "n2", "n3")
                seen = len(crew.told("one"))
                await until(lambda: crew.of("two") == KEYS, UP_S)
                begun = {what: at for at, what in crew.told("two")}
                ended = {what: at for at, what in crew.told("one")[seen:]}
                for key in lost:
                    assert ended[f"stop {key}"] < begun[f"start {key}"]
                # It lives and could write: that it did not is its own doing, not the store's.
                assert crew.store.refused() == []
                network.heal()
                await asyncio.sleep(2.0)
                assert crew.store.refused() == []
                assert crew.store.faults() == []
        finally:
            await network.close()
