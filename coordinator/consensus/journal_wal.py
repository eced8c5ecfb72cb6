"""What SQLite does not tell of its write-ahead file: that its middle is damaged.

Decides whether a synced transaction is missing. SQLite reads up to the first frame whose checksum
differs and takes the rest for a torn end. That is right after a crash, where at most the last
transaction is torn; when whole transactions follow, synced data was damaged.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

import struct
from pathlib import Path
from typing import Final

HEADER_BYTES: Final = 32
FRAME_HEADER_BYTES: Final = 24
MAGIC: Final = (0x377F0682, 0x377F0683)


def damage(path: Path) -> str | None:
    """What is wrong with the file; None when it is whole, empty, absent or torn at its end."""
    if not path.exists():
        return None
    data = path.read_bytes()
    if not data:
        return None
    if len(data) < HEADER_BYTES:
        return None  # a crash while its first bytes were written: nothing was synced yet
    magic, _, page_bytes = struct.unpack_from(">III", data)
    order = ">" if magic & 1 else "<"
    sums = _sum(data[:24], order, (0, 0))
    if magic not in MAGIC or sums != struct.unpack_from(">II", data, 24):
        return "has a damaged header"
    salt = data[16:24]
    first_bad, commits_behind = None, 0
    size = FRAME_HEADER_BYTES + page_bytes
    for number, at in enumerate(range(HEADER_BYTES, len(data) - size + 1, size)):
        if data[at + 8 : at + 16] != salt:
            # The file is written again from its beginning: the rest is of its former life.
            break
        if first_bad is None:
            page = at + FRAME_HEADER_BYTES
            sums = _sum(data[at : at + 8], order, sums)
            sums = _sum(data[page : page + page_bytes], order, sums)
            if sums != struct.unpack_from(">II", data, at + 16):
                first_bad = number
        if first_bad is not None and data[at + 4 : at + 8] != b"\0\0\0\0":
            commits_behind += 1
    # The transaction that was torn by a crash may have brought its last frame to disk.
    return f"is damaged at frame {first_bad}" if commits_behind > 1 else None


def _sum(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
