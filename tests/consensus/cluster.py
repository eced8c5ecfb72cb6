"""Builders for tests: a register as state machine, and real nodes on loopback in one loop."""

import asyncio
import contextlib
import json
import random
import socket
from collections.abc import AsyncIterator, Awaitable

from coordinator.consensus import ConsensusConfig, ConsensusNode
from tests.waiting import until


class Register:
    """Keeps every payload it was given, in order; answers with its place."""

    def __init__(self):
        self.values = []

    def apply(self, _index, payload):
        self.values.append(payload.decode())
        return len(self.values)

    def snapshot(self):
        return json.dumps(self.values).encode()

    def restore(self, data):
        self.values = [str(value) for value in json.loads(data)]


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


class Cluster:
    """Real nodes on loopback. `kill` loses a node's memory, `boot` starts it anew."""

    def __init__(self, size=3, node_class=ConsensusNode, **settings):
        names = [f"n{number + 1}" for number in range(size)]
        self.addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(size), strict=True)
        }
        self.node_class = node_class
        self.settings = settings
        self.nodes: dict[str, ConsensusNode] = {}
        self.machines: dict[str, Register] = {}
        self.starts = 0

    def config(self, name, **changes):
        return ConsensusConfig(
            name=name,
            peers=self.addresses,
            api_url=f"http://{name}.example",
            **{**self.settings, **changes},
        )

    async def boot(self, name, **changes):
        self.starts += 1
        machine = Register()
        node = self.node_class(
            self.config(name, **changes), machine, rng=random.Random(f"{name} {self.starts}")
        )
        await node.start()
        self.nodes[name], self.machines[name] = node, machine
        return node

    async def kill(self, name):
        await self.nodes.pop(name).stop()

    def leader(self):
        leaders = [node for node in self.nodes.values() if node.status().role == "leader"]
        ready = [node for node in leaders if node._replica.is_ready_leader]
        return ready[0] if len(leaders) == 1 and ready else None

    async def elected(self, timeout_s=10.0):
        return await until(self.leader, timeout_s)

    def followers(self):
        leader = self.leader()
        return [node for node in self.nodes.values() if node is not leader]


@contextlib.asynccontextmanager
async def cluster(size=3, **settings) -> AsyncIterator[Cluster]:
    """A running cluster of this many nodes; everything is stopped at the end."""
    made = Cluster(size, **settings)
    try:
        for name in made.addresses:
            await made.boot(name)
        yield made
    finally:
        stops: list[Awaitable[None]] = [node.stop() for node in made.nodes.values()]
        await asyncio.gather(*stops)
