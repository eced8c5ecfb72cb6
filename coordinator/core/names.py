"""What may be the key of a shard, wherever a key comes from: a path, a body, a claim.

It decides nothing but that, and must not know where a key was read.
"""

import re
from typing import Final

KEY_BYTES_MAX: Final = 256
"""Keys stand in every table and in every command that moves a shard."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def key_fault(key: str) -> str:
    """What is wrong with a shard key; empty when nothing is."""
    if key.isascii() and key.isprintable() and 0 < len(key) <= KEY_BYTES_MAX:
        return ""
    try:
        size = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not UTF-8"
    if not 1 <= size <= KEY_BYTES_MAX:
        return f"must be 1 to {KEY_BYTES_MAX} bytes, is {size}"
    return "must not contain control characters" if _CONTROL.search(key) else ""
