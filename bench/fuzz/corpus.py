"""Bytes that are right: what fuzzing starts from, and what is spoiled."""

import random
from itertools import pairwise
from typing import Any, Final

from bench.fuzz.targets import HELLO
from coordinator.codec import encode_entry, encode_snapshot
from coordinator.consensus.codec import FIELDS, NAMED, OPTIONAL, pack
from coordinator.consensus.handshake import Refusal, encode_hello, encode_refusal
from coordinator.consensus.sealed import seal_snapshot
from coordinator.core.commands import Bootstrap, CreateNamespace, DeclareShards, MoveMember, Once
from coordinator.core.state import ClusterState
from coordinator.core.types import NamespaceKind, Policy

ENTRY: Final = (b"\0command", 8, 3)
SPECIAL: Final[dict[str, Any]] = {
    "entries": (ENTRY, ENTRY),
    "serialized": (b"chunk", True, False),
    "moved": {"n3": (7, "h:1")},
}
FOREIGN: Final = (
    b"\xff",
    b"\xc1",
    b"\xc7\x01\x05x",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\x7f\xff\xff\xff",
    b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + b"\0" * 7,
    b"\x91" * 600,
    b"\x81\xa1x" * 600,
)
BY_TYPE: Final[dict[type, Any]] = {int: 7, bool: True, bytes: b"x", str: "x", dict: {}}


def valid_messages() -> list[dict[str, Any]]:
    """One of each kind with its required fields, and one with all that it may have."""
    made = []
    for kind, required in FIELDS.items():
        least: dict[str, Any] = {"type": kind}
        for field, kinds in required.items():
            least[field] = {"n1": "a"} if NAMED.get(kind) == field else BY_TYPE[kinds[0]]
        most = {**least, "stamp": 3}
        for field, kinds in OPTIONAL.get(kind, {}).items():
            most[field] = SPECIAL.get(field, BY_TYPE.get(kinds[0]))
        made += [least, most]
    return made


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "little") + body


def entries() -> list[bytes]:
    commands = (
        Bootstrap(cluster_id="c", epoch_base=1),
        CreateNamespace(
            namespace="n", kind=NamespaceKind.OPEN, shard_count=0, policy=Policy(), at_ms=1
        ),
        DeclareShards(namespace="n", keys=("a", "b")),
        MoveMember(node="n1", raft="h:1", api="http://h"),
    )
    once = Once(key="k", digest="d", command=commands[2])
    return [encode_entry(command) for command in (*commands, once)]


def valid() -> dict[str, list[bytes]]:
    """Seeds of each target."""
    messages = [pack(message) for message in valid_messages()]
    hellos = [encode_hello(HELLO), encode_refusal(Refusal("no"))]
    parts = [*encode_snapshot(ClusterState().image())]
    sealed = seal_snapshot((ENTRY, ENTRY), b"".join(parts))
    return {
        "strangers": [b"\xff" + framed(hellos[0]) + framed(messages[0])],
        "frames": [b"\x10" + framed(a) + framed(b) for a, b in pairwise(messages)],
        "message": messages,
        "hello": hellos,
        "entry": entries(),
        "snapshot": [b"\x20" + sealed],
        "state": parts,
    }


def spoiled(data: bytes, rng: random.Random) -> bytes:
    """The same bytes with one thing wrong: cut, changed, doubled, or something foreign in them."""
    at = rng.randrange(len(data) + 1)
    to = rng.randrange(at, len(data) + 1)
    foreign = rng.choice(FOREIGN)
    match rng.randrange(5):
        case 0:
            return data[:at]
        case 1 if data:
            spot = min(at, len(data) - 1)
            return data[:spot] + bytes([data[spot] ^ (1 << rng.randrange(8))]) + data[spot + 1 :]
        case 2:
            return data[:at] + foreign + data[at:]
        case 3:
            return data[:at] + foreign + data[to:]
        case _:
            return data[:to] + data[at:]
