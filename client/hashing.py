"""The one hash of this system: a key's place among n, the same in every process and version.

Decides which shard of a fixed namespace a key belongs to, and whom a service without a coordinator
would ask. It is `blake2s` of the key's UTF-8 bytes, read as one big-endian number, modulo n; the
coordinator's `initial_placement: hash` uses the same, so a fleet can change over without a move.
"""

from collections.abc import Sequence
from hashlib import blake2s


def place_of(key: str, count: int) -> int:
    """A number from 0 to `count` - 1; raises ValueError when there is nothing to choose from."""
    if count < 1:
        raise ValueError("there is nothing to choose from")
    return int.from_bytes(blake2s(key.encode()).digest(), "big") % count


def shard_for(key: str, shard_count: int) -> str:
    """The shard of a fixed namespace ("0" ... "n-1") that anything with this key belongs to.

        shard_for("customer-7", 1024)

    The answer for a key never changes as long as `shard_count` does not.
    """
    return str(place_of(key, shard_count))


def hashed(key: str, sorted_fleet: Sequence[str]) -> str:
    """Whom `hash % n` names, over a fleet in ascending order."""
    return sorted_fleet[place_of(key, len(sorted_fleet))]
