"""What the disk itself takes to keep a few bytes: the floor under every durable write.

Decides how it is measured. Must not know who writes.
"""

import os
import time
from pathlib import Path
from typing import Final

from bench.rows import percentile

BLOCK: Final = b"\0" * 4096
SECONDS: Final = 1.0


def sync_p50_ms(folder: Path) -> float:
    """The median of appending a block to a file of this folder and syncing it."""
    path = folder / "sync-probe"
    held = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    found: list[float] = []
    end = time.perf_counter() + SECONDS
    try:
        while time.perf_counter() < end:
            os.write(held, BLOCK)
            start = time.perf_counter()
            os.fdatasync(held)
            found.append(time.perf_counter() - start)
    finally:
        os.close(held)
        path.unlink()
    return percentile(sorted(found), 0.5) * 1e3
