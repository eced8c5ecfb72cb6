"""The product's node, with a note of how its loop turned and what it held, twice a second.

`python -m bench.scale.node NOTES ENTRIES NODE_OPTIONS...`: the node as it is shipped, API and all,
except that it compacts its log every so many entries, so that a run of minutes has some snapshots.
NOTES gets a JSON line every half second (`Note`). Reading the state costs the loop some 50 us.
"""

import asyncio
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

import coordinator.__main__ as product
from bench.snapshots.meter import look
from coordinator import process
from coordinator.consensus import ConsensusConfig, ConsensusNode
from coordinator.node import Node

NOTE_EVERY_S: Final = 0.5
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Change(msgspec.Struct, frozen=True, array_like=True):
    """What there was from a moment on."""

    at: float
    executors: int
    vacant: int


class Note(msgspec.Struct, frozen=True):
    """Half a second of a node."""

    at: float
    """On the machine's monotonic clock, which all processes share."""
    stalls_ms: list[float]
    """How long the loop stood still, of the processor's time; nothing below 0.1 ms."""
    walls_ms: list[float]
    """The same by the clock: with what the machine gave to others."""
    looks: int
    """Turns that were looked at."""
    cpu_s: float
    """Of the process, since its start."""
    memory_mb: float
    blocks: int
    """Of memory that Python has given out: unlike what the process holds, none that was freed."""
    descriptors: int
    """Files and connections that are open."""
    is_leading: bool
    applied: int
    snapshot: int
    shards: int
    changes: list[Change]


class Often(ConsensusNode):
    """Compacts its log often."""

    entries = 0

    def __init__(self, config: ConsensusConfig, *rest: Any, **named: Any) -> None:
        super().__init__(replace(config, compaction_min_entries=self.entries), *rest, **named)


class NotedNode(Node):
    """A node that is looked at."""

    consensus_type = Often
    notes = Path()

    async def start(self) -> None:
        await super().start()
        self._noting = asyncio.create_task(self._note())

    async def _note(self) -> None:
        stalls: list[float] = []
        walls: list[float] = []
        changes: list[Change] = []
        looks, seen = 0, (-1, -1)
        due = time.monotonic() + NOTE_EVERY_S
        while True:
            late_ms, stall_ms = await look()
            looks += 1
            if stall_ms > 0.1 or late_ms > 0.1:
                stalls.append(round(stall_ms, 2))
                walls.append(round(late_ms, 2))
            now = time.monotonic()
            held = self._held()
            if held != seen:
                seen = held
                changes.append(Change(round(now, 4), *held))
            if now >= due:
                due = now + NOTE_EVERY_S
                self._write(Note(now, stalls, walls, looks, **self._figures(), changes=changes))
                stalls, walls, changes, looks = [], [], [], 0

    def _held(self) -> tuple[int, int]:
        spaces = self.replica.state.namespaces.values()
        return sum(len(one.executors) for one in spaces), sum(len(one.vacant) for one in spaces)

    def _figures(self) -> dict[str, Any]:
        status = self.consensus.status()
        resident = int(Path("/proc/self/statm").read_text().split()[1])
        return {
            "cpu_s": time.process_time(),
            "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
            "memory_mb": resident * PAGE_BYTES / 1e6,
            "blocks": sys.getallocatedblocks(),
            "is_leading": self.leader.is_leading,
            "applied": status.applied_index,
            "snapshot": status.snapshot_index,
            "shards": sum(len(one.shards) for one in self.replica.state.namespaces.values()),
        }

    def _write(self, note: Note) -> None:
        with self.notes.open("ab") as file:
            file.write(msgspec.json.encode(note) + b"\n")


def main(arguments: list[str]) -> None:
    """Run the product's program with this node in place of its own."""
    NotedNode.notes = Path(arguments[1])
    Often.entries = int(arguments[2])
    process.Node = NotedNode  # type: ignore[misc]
    sys.argv = [arguments[0], *arguments[3:]]
    product.main()


if __name__ == "__main__":
    main(sys.argv)
