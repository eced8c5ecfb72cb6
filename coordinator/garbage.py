"""The garbage collector, kept from stopping the loop.

Decides what it looks at, and when all of it. Must not know who makes the garbage.

A full collection walks through everything that is not set aside: half a second for a million
shards, 25 ms for what is loaded at the start. Both live long and are no garbage, so they are set
aside: the modules once they are loaded, records whenever enough of them were written since the last
time. A collection right before lets no garbage be set aside with them, and has little to walk
through, as all older records are aside already. A record that is replaced is freed at once: nothing
refers back to it. Nothing is switched off: frameworks make cycles, and a node runs for months.

Connections are set aside as well, and aiohttp leaves a small cycle of each that is closed. So
what is aside is counted, and once in many days of many writes all of it is looked at.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

RECORDS_MAX: Final = 4_000
"""Records that a collection may have to walk through, with what brought them: 4 ms."""
LARGE: Final = 10_000
"""Records of a state from which on they are set aside: fewer are walked through in 5 ms."""
YOUNG: Final = 1
"""Up to this generation a collection sees what was made lately, in less than a millisecond."""
STRANGERS_MAX: Final = 300_000
"""Objects aside that cannot be records: at 100 bytes each, some 30 MB of what may be garbage."""
PER_WRITE: Final = 4
"""A record, its event and their places in the rings: what is written later pushes them out."""
PER_SHARD: Final = 1
"""A shard's record. Its load is a number among numbers, which no collection looks at."""


def spare_the_loop() -> None:
    """Call it once, when all is loaded and before anything is served."""
    gc.collect()
    gc.freeze()


class Aside:
    """Counts records written, and sets them aside in bulk."""

    def __init__(self) -> None:
        self._written = 0
        self._strangers = 0
        """Objects set aside since they were counted last that were no records."""

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
        """So many records were written just now; `held` tells how many there are in all."""
        self._written += records
        if self._written < RECORDS_MAX:
            return
        records, self._written = self._written, 0
        if held is not None and self._strangers > STRANGERS_MAX:
            self._strangers = 0
            # Counting them walks through them: 50 ms of a million, in more than a million writes.
            if gc.get_freeze_count() > PER_SHARD * held() + STRANGERS_MAX:
                gc.unfreeze()
        gc.collect()
        self._strangers += max(0, len(gc.get_objects()) - PER_WRITE * records)
        gc.freeze()
