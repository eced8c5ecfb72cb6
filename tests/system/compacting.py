"""The product's program with a log that is compacted every few hundred entries.

So that a round of some seconds has snapshots, cuts and installations in it. Nothing else differs.
"""

from functools import partial

import coordinator.node
from coordinator.__main__ import main
from coordinator.consensus import ConsensusConfig

COMPACTION_ENTRIES = 300

if __name__ == "__main__":
    coordinator.node.ConsensusConfig = partial(
        ConsensusConfig, compaction_min_entries=COMPACTION_ENTRIES
    )
    main()
