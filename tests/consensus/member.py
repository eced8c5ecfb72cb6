"""A consensus node as a process: proposes without end while it leads, and says what happens.

`python -m tests.consensus.member NAME PEERS_JSON`: one JSON line per event on stdout. Ends when
its stdin does.
"""

import asyncio
import json
import random
import sys
import time

import uvloop

from coordinator.consensus import ConsensusConfig, ConsensusError, ConsensusNode


class Counter:
    """Counts entries, and hashes nothing: its snapshot is its count."""

    def __init__(self):
        self.count = 0

    def apply(self, _index, _payload):
        self.count += 1
        return self.count

    def snapshot(self):
        return self.count.to_bytes(8)

    def restore(self, data):
        self.count = int.from_bytes(data)


def say(**event):
    sys.stdout.write(json.dumps({"at_s": time.monotonic(), **event}) + "\n")
    sys.stdout.flush()


async def propose(node):
    """Each outcome is known to whoever reads the last line said."""
    while True:
        try:
            outcome = await node.propose(b"x")
        except ConsensusError:
            await asyncio.sleep(0.002)
        else:
            say(written=outcome)
            await asyncio.sleep(0.002)


async def main(name, peers):
    config = ConsensusConfig(name=name, peers=peers, api_url="")
    node = ConsensusNode(config, Counter(), rng=random.Random())
    await node.start()
    proposing = asyncio.create_task(propose(node))
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    role = None
    while not ended.done():
        if node.status().role != role:
            role = node.status().role
            say(role=role)
        await asyncio.sleep(0.005)
    proposing.cancel()
    await node.stop()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], json.loads(sys.argv[2])))
