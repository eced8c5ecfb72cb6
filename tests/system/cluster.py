"""What tests of faults ask a running cluster: its terms, heartbeats, and whether all agree."""

import asyncio

import msgspec

BEAT_S = 5.0


async def term_of(nodes, name):
    seen = await nodes.sight(name)
    assert seen is not None, f"{name} does not answer"
    return seen.term


async def agree(nodes):
    """Whether all nodes have the same state at the same index."""
    seen = await asyncio.gather(*[nodes.sight(name, "?digest=true") for name in nodes.names])
    if any(one is None or one.digest is None for one in seen):
        return False
    return len({(one.applied_index, one.digest) for one in seen}) == 1


class Beats:
    """One executor by hand: its heartbeats can be sent to any node, and are told apart."""

    def __init__(self, nodes, namespace="beats", executor="e1"):
        self._nodes = nodes
        self._namespace = namespace
        self._path = f"/v1/namespaces/{namespace}/executors/{executor}/heartbeat"
        self._sequence = 0

    async def join(self, lease_s=60.0):
        leader = await self._nodes.leader()
        status, body = await self._nodes.ask(
            "PUT",
            f"{self._nodes.api[leader]}/v1/namespaces/{self._namespace}",
            body={"kind": "open", "policy": {"lease_ttl_s": lease_s}},
            timeout_s=BEAT_S,
        )
        assert status == 201, body
        status, term = await self.send(leader, joining=True)
        assert status == 200
        return term

    async def send(self, node, *, joining=False, timeout_s=BEAT_S):
        """Its status, and the term of the leader that acknowledged it."""
        self._sequence += 1
        status, body = await self._nodes.ask(
            "POST",
            self._nodes.api[node] + self._path,
            body={
                "incarnation": "i1",
                "sequence": self._sequence,
                "joining": joining,
                "status": "active",
                "shards": {},
            },
            timeout_s=timeout_s,
        )
        return status, msgspec.json.decode(body).get("term")
