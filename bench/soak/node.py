"""A soak's node: noted like `bench.scale.node`, its rings full before anything is measured.

`python -m bench.soak.node NOTES ENTRIES NODE_OPTIONS...`. A namespace keeps its newest events and
changes of owners, a cluster its newest idempotency keys: tens of thousands of each, some 15 MB in
all. Under this churn that takes hours to fill, and grows meanwhile by 3 to 8 MB an hour as it is
meant to. Here they hold some hundred, so that whatever still grows has no bound. All nodes hold the
same, or their states would differ.
"""

import sys
from functools import partial
from typing import Final

from bench.scale.node import main
from coordinator.core import balance_series, events, namespace, routing, state, tenures

RING: Final = 256
"""Entries of each: filled by the orders that come first and the first minutes of churn."""


def shrink() -> None:
    """Make every replicated ring small; before any state is made."""
    events.EVENTS_MAX = RING  # type: ignore[misc]
    tenures.TENURES_MAX = RING  # type: ignore[misc]
    namespace.CLOSED_MAX = RING  # type: ignore[misc]
    state.ONCE_MAX = RING  # type: ignore[misc]
    balance_series.PAST_MAX = 4  # type: ignore[misc]
    namespace.ChangeRing = partial(routing.ChangeRing, names_max=RING)  # type: ignore[assignment, misc]


if __name__ == "__main__":
    shrink()
    main(sys.argv)
