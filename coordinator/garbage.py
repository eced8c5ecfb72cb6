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
came and went. So whatever outlives a full collection is set aside at its end (`Survivors`): it was
just seen to be alive, and a closed connection leaves no cycle. What is aside is counted all the
same, and when it is more than can be alive, all of it is looked at once more.
"""

import gc
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
"""Objects aside that cannot be records: at 100 bytes each, some 30 MB of what may be garbage."""
OURS: Final = "coordinator."
"""Where records and commands come from: they make no cycles, and go when nobody needs them."""
PER_SHARD: Final = 1
"""A shard's record. Its load is a number among numbers, which no collection looks at."""
PER_CONNECTION: Final = 64
"""A connection with a request that waits on it: some 50."""
FULL_AFTER: Final = 3
"""Younger collections before a full one, which then walks through 20,000 objects: 15 ms. Python's
own ten make it 70,000. In all it is the same work, as nothing is walked through twice."""


def spare_the_loop(held: Callable[[], int] = int) -> None:
    """Call it once, when all is loaded and before anything is served.

    `held` tells how many long-lived objects there are at least: those are no garbage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], FULL_AFTER)
    gc.callbacks.append(Survivors(held))


def _is_stranger(one: object) -> bool:
    """Whether it is of a kind that may make cycles. A few kinds name no module."""
    module: object = type(one).__module__
    return not (isinstance(module, str) and module.startswith(OURS))


class Survivors:
    """Sets aside what outlives a full collection, so that none of it is walked through again."""

    def __init__(self, held: Callable[[], int]) -> None:
        self._held = held
        self._strangers = 0

    def __call__(self, phase: str, about: Mapping[str, int]) -> None:
        """Told by the collector when it begins and when it ends."""
        if phase != "stop" or about["generation"] <= YOUNG:
            return
        self._strangers += sum(map(_is_stranger, gc.get_objects()))
        gc.freeze()
        if self._strangers > STRANGERS_MAX:
            self._strangers = 0
            if gc.get_freeze_count() > self._held() + STRANGERS_MAX:
                gc.unfreeze()  # the next full collection looks at everything


class Aside:
    """Counts records written, and sets them aside in bulk."""

    def __init__(self) -> None:
        self._written = 0
        self._strangers = 0
        """Objects set aside since they were counted last that were neither records nor commands."""

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

    def wrote(self, records: int, held: Callable[[], int] | None = None) -> None:
        """So many records were written just now; `held` tells how many objects live long."""
        self._written += records
        if self._written < RECORDS_MAX:
            return
        self._written = 0
        if held is not None and self._strangers > STRANGERS_MAX:
            self._strangers = 0
            # Counting them walks through them: 0.2 s of a million, in many millions of writes.
            if gc.get_freeze_count() > held() + STRANGERS_MAX:
                gc.unfreeze()
        gc.collect()
        self._strangers += sum(map(_is_stranger, gc.get_objects()))
        gc.freeze()
