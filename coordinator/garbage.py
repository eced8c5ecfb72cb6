"""The garbage collector, kept from stopping the loop.

Decides what it looks at, and when all of it. Must not know who makes the garbage.

A full collection walks through everything that is not set aside: half a second for a million
shards, 25 ms for what is loaded at the start. Both live long and are no garbage, so they are set
aside: the modules once they are loaded, records whenever enough of them were written since the last
time. A collection right before lets no garbage be set aside with them, and has little to walk
through, as all older records are aside already. A record that is replaced is freed at once: nothing
refers back to it. Nothing is switched off: frameworks make cycles, and a node runs for months.

Connections are set aside as well, with all who wait on them: eight thousand are 400,000 objects,
and a full collection of those stood still for a third of a second, every two seconds while callers
came and went. So whatever outlives a full collection is set aside at its end: it was just seen to
be alive, and a closed connection leaves no cycle. What went aside and is no record is counted, and
when it is much, and memory holds more than what lives can take, all of it is looked at once more.
"""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

RECORDS_MAX: Final = 1_000
"""Records that a collection may have to walk through, with what brought them: 2 ms; 4,000 of them
took 6 to 10 behind a command that itself takes 10."""
LARGE: Final = 10_000
"""Records of a state from which on they are set aside: fewer are walked through in 5 ms."""
YOUNG: Final = 1
"""Up to this generation a collection sees what was made lately, in less than a millisecond."""
STRANGERS_MAX: Final = 300_000
"""Objects that went aside and cannot be records: at 100 bytes each, 30 MB that may be garbage."""
BLOCKS_PER_OBJECT: Final = 5
"""Blocks of memory that belong to a long-lived object: a shard's record has a name and an epoch,
its load a place, and its last command may still be in the log."""
OURS: Final = "coordinator."
"""Where records and commands come from: they make no cycles, and go when nobody needs them."""
PER_SHARD: Final = 1
"""A shard's record. Its load is a number among numbers, which no collection looks at."""
PER_CONNECTION: Final = 64
"""A connection with a request that waits on it: some 50."""
FULL_AFTER: Final = 3
"""Younger collections before a full one, which then walks through 20,000 objects: 15 ms. Python's
own ten make it 70,000. In all it is the same work, as nothing is walked through twice."""


def _is_stranger(one: object) -> bool:
    """Whether it is of a kind that may make cycles. A few kinds name no module."""
    module: object = type(one).__module__
    return not (isinstance(module, str) and module.startswith(OURS))


class Aside:
    """Sets aside what lives long, and sees that no garbage stays among it.

    There is one collector in a process; a process of several nodes, as tests make them, sets aside
    for all of them.
    """

    def __init__(self, held: Callable[[], int] = int) -> None:
        """`held` tells how many long-lived objects there are at least: those are no garbage."""
        self._held = held
        self._written = 0
        self._strangers = 0
        """Objects set aside since memory was looked at last that were no records nor commands."""
        self._blocks = sys.getallocatedblocks()
        """In use when memory was clean, with so much alive."""
        self._alive = 0
        self._is_cleaned = False
        """Whether all that was aside is looked at by the next full collection, or just was."""

    def spare_the_loop(self) -> None:
        """Call it once, when all is loaded and before anything is served."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], FULL_AFTER)
        gc.callbacks.append(self._told)

    def _told(self, phase: str, about: Mapping[str, int]) -> None:
        """By the collector, when it begins and when it ends."""
        if phase == "stop" and about["generation"] > YOUNG:
            self._survived()

    def wrote(self, records: int) -> None:
        """So many records were written just now."""
        self._written += records
        if self._written < RECORDS_MAX:
            return
        self._written = 0
        gc.collect()
        self._survived()

    def _survived(self) -> None:
        """Whatever the collector walks through was just seen to be alive."""
        if self._is_cleaned:
            self._is_cleaned = False
            self._blocks, self._alive = sys.getallocatedblocks(), self._held()
            gc.freeze()
            return
        self._strangers += sum(map(_is_stranger, gc.get_objects()))
        gc.freeze()
        if self._strangers > STRANGERS_MAX:
            self._strangers = 0
            if self._is_more_than_can_live():
                gc.unfreeze()
                self._is_cleaned = True

    def _is_more_than_can_live(self) -> bool:
        """By memory in use: to count what is aside takes 0.2 s where a million shards are."""
        came = BLOCKS_PER_OBJECT * max(0, self._held() - self._alive)
        return sys.getallocatedblocks() > self._blocks + came + STRANGERS_MAX

    @contextmanager
    def bulk(self, records: int) -> Iterator[None]:
        """What is made in this block, after so many records, are records again.

        So nothing is looked at meanwhile, and all of them are set aside at its end.
        """
        if records < LARGE:
            yield
            return
        gc.collect(YOUNG)
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.enable()
