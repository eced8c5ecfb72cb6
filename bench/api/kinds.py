"""What is asked of a node and of the peer: each kind of request, and at whom it is aimed.

Decides the list. Must not know how a round is measured.
"""

import random
from dataclasses import dataclass
from typing import Final

from bench.api import target
from bench.api.driver import JSON, MSGPACK, Request
from bench.api.target import LARGE, USUAL, Fleet, Held

LINEARIZABLE: Final = "?consistency=linearizable"
JUDGED: Final = ("heartbeats_100_json", "lookups_local")
"""What a fleet does all day; the bars are for these."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of request."""

    name: str
    connections: list[list[Request]]
    is_forwarded: bool = False
    """Asked of a follower, which hands it on; the peer is the leader asked directly."""


def of_one_node(held: dict[Fleet, Held], rng: random.Random) -> list[Kind]:
    """All lengths and media; look-ups with proof and without."""
    found = []
    for name, media in (("json", JSON), ("msgpack", MSGPACK)):
        found += [
            Kind(f"heartbeats_0_{name}", _beats(held, USUAL, rng, media, has_loads=False)),
            Kind(f"heartbeats_100_{name}", _beats(held, USUAL, rng, media)),
            Kind(f"heartbeats_1000_{name}", _beats(held, LARGE, rng, media)),
        ]
    return found + _lookups(rng)


def of_three_nodes(held: dict[Fleet, Held], rng: random.Random) -> list[Kind]:
    """The usual at the leader, and the same through a follower."""
    beats = _beats(held, USUAL, rng, JSON)
    local, proven = _lookups(rng)
    return [
        Kind("heartbeats_100_json", beats),
        local,
        proven,
        Kind("heartbeats_100_json_forwarded", beats, is_forwarded=True),
        Kind("lookups_linearizable_forwarded", proven.connections, is_forwarded=True),
    ]


def _beats(
    held: dict[Fleet, Held],
    fleet: Fleet,
    rng: random.Random,
    media: str,
    *,
    has_loads: bool = True,
) -> list[list[Request]]:
    return target.heartbeats(fleet, held[fleet], rng, media, has_loads=has_loads)


def _lookups(rng: random.Random) -> list[Kind]:
    return [
        Kind("lookups_local", target.lookups(rng)),
        Kind("lookups_linearizable", target.lookups(rng, query=LINEARIZABLE)),
    ]
