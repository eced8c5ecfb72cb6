"""The garbage collector, kept from stopping the loop.

Decides what it looks at. Must not know who makes the garbage.

A full collection walks through everything that is not set aside: half a second for a million
shards, 25 ms for what is loaded at the start. Both live long and are no garbage, so they are set
aside: the modules once they are loaded, records whenever enough of them were written since the last
time. A collection right before lets no garbage be set aside with them, and has little to walk
through, as all older records are aside already. A record that is replaced is freed at once: nothing
refers back to it. Nothing is switched off: frameworks make cycles, and a node runs for months.
"""

import gc
from typing import Final

RECORDS_MAX: Final = 20_000
"""Records that a collection may have to walk through: some 10 ms."""


def spare_the_loop() -> None:
    """Call it once, when all is loaded and before anything is served."""
    gc.collect()
    gc.freeze()


class Aside:
    """Counts records written, and sets them aside in bulk."""

    def __init__(self) -> None:
        self._written = 0

    def wrote(self, records: int) -> None:
        """So many records were written just now."""
        self._written += records
        if self._written >= RECORDS_MAX:
            self._written = 0
            gc.collect()
            gc.freeze()
