"""A state of many slices in real nodes: written, sent and read while entries go on."""

import asyncio
import itertools
import random

import msgspec

from coordinator.codec import SLICE_RECORDS, encode_entry
from coordinator.consensus import ConsensusNode
from coordinator.core.commands import Applied, Bootstrap, CreateNamespace, DeclareShards
from coordinator.core.types import NamespaceKind, Policy
from coordinator.replica import StateMachine
from tests.consensus.cluster import Cluster
from tests.waiting import until

SHARDS = 20 * SLICE_RECORDS


class Watched(StateMachine):
    """Notes in which order entries were applied and slices were written and read."""

    def __init__(self):
        super().__init__()
        self.events = []
        self.rows_max = 0

    def apply(self, index, payload):
        self.events.append("applied")
        return super().apply(index, payload)

    def parts(self):
        return map(self._wrote, super().parts())

    def _wrote(self, part):
        self.events.append("wrote")
        tag, rows = msgspec.msgpack.decode(part)
        self.rows_max = max(self.rows_max, len(rows) if tag == "shards" else 0)
        return part

    def prepare(self, parts):
        reading = super().prepare(parts)
        while True:
            try:
                next(reading)
            except StopIteration as done:
                self.events.append("read to its end")
                return done.value
            self.events.append("read")
            yield


class LargeCluster(Cluster):
    async def boot(self, name, **changes):
        self.starts += 1
        machine = Watched()
        node = ConsensusNode(
            self.config(name, **changes), machine, rng=random.Random(f"{name} {self.starts}")
        )
        await node.start()
        self.nodes[name], self.machines[name] = node, machine
        return node


async def commit(node, command):
    outcome = await node.propose(encode_entry(command))
    assert isinstance(outcome, Applied), outcome


async def fill(leader):
    await commit(leader, Bootstrap(cluster_id="c", epoch_base=1))
    await commit(
        leader,
        CreateNamespace(
            namespace="jobs", kind=NamespaceKind.OPEN, shard_count=0, policy=Policy(), at_ms=1
        ),
    )
    for first in range(0, SHARDS, SLICE_RECORDS):
        keys = tuple(map(str, range(first, first + SLICE_RECORDS)))
        await commit(leader, DeclareShards(namespace="jobs", keys=keys))


async def write(leader, writes):
    for number in itertools.count():
        await commit(leader, DeclareShards(namespace="jobs", keys=(f"more {number}",)))
        writes.append(number)
        await asyncio.sleep(0.002)


async def test_a_large_state_is_written_sent_and_read_in_slices_while_entries_go_on():
    made = LargeCluster(compaction_min_entries=60)
    try:
        for name in made.addresses:
            await made.boot(name)
        leader = await made.elected()
        await fill(leader)
        writes = []
        writing = asyncio.create_task(write(leader, writes))
        await until(lambda: leader.status().snapshot_bytes, 30.0)
        name = made.followers()[0].config.name
        await made.kill(name)
        fresh = await made.boot(name)
        await until(lambda: fresh.status().role == "follower", 30.0)
        before = len(writes)
        await until(lambda: len(writes) > before + 5)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        nodes, machines = made.nodes.values(), made.machines.values()
        await until(lambda: len({node.status().applied_index for node in nodes}) == 1)
        assert len({machine.digest() for machine in machines}) == 1
        _is_in_slices(made.machines[leader.config.name], made.machines[name])
    finally:
        await asyncio.gather(*[node.stop() for node in made.nodes.values()])


def _is_in_slices(leader, fresh):
    assert leader.rows_max == SLICE_RECORDS
    written = leader.events
    first = written.index("wrote")
    assert "applied" in written[first : first + SHARDS // SLICE_RECORDS]
    read = fresh.events
    assert read.index("read to its end") > SHARDS // SLICE_RECORDS
    # It takes in nothing before it has read all of it.
    assert set(read[: read.index("read to its end")]) == {"read"}
