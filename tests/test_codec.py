"""Bytes of the log and of snapshots: exact, versioned, and refused in one way when unreadable."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.codec import (
    FORMAT,
    FORMATS,
    SLICE_RECORDS,
    Formats,
    MalformedError,
    NotReadableYetError,
    UnknownFormatError,
    decode_entry,
    decode_snapshot,
    encode_entry,
    encode_snapshot,
    read_snapshot,
)
from coordinator.core import commands as c
from coordinator.core.balance_series import BalancePoint
from coordinator.core.saved_loads import CHUNK_BYTES_MAX, SavedLoads, Sweep
from coordinator.core.state import ClusterState
from coordinator.core.types import Claim, Policy
from tests.core.any_commands import CLUSTER_KINDS, NAMESPACE_KINDS, any_command
from tests.core.builders import (
    NS,
    applied,
    close,
    cordon,
    create,
    declare,
    drain,
    evict,
    fleet,
    park,
    pin,
    refused,
    space,
    start,
)

packed = msgspec.msgpack.encode
DEEP = b"\x91" * 100_000 + b"\xc0"


def rich() -> ClusterState:
    """A state with something in every table."""
    state = fleet(3, 6)
    start(state, "0", "e2")
    for order in (park("1"), pin("2", "e3"), drain("e1"), cordon("e2"), evict("e3")):
        applied(state, order)
    applied(state, c.PauseBalancer(namespace=NS, reason="r", by="ops", at_ms=1, until_ms=2))
    applied(state, create(name="other", policy=Policy(lease_ttl_s=3.0)))
    applied(state, c.Once(key="k", digest="d", command=close("e1")))
    applied(state, c.MoveMember(node="n1", raft="10.0.0.1:1", api="http://10.0.0.1"))
    refused(state, c.Once(key="k2", digest="d", command=declare("9")))
    return state


@pytest.mark.parametrize("kind", [*CLUSTER_KINDS, *NAMESPACE_KINDS], ids=lambda one: one.__name__)
def test_every_command_comes_back_as_it_was(kind: type[c.Command]) -> None:
    pick = random.Random(1).choice
    for _ in range(20):
        command = any_command(pick, (kind,))
        assert decode_entry(encode_entry(command)) == command
        once = c.Once(key="k", digest="d", command=command)
        assert decode_entry(encode_entry(once)) == once


def test_an_entry_names_its_format_and_its_command() -> None:
    assert msgspec.msgpack.decode(encode_entry(declare("a")))[:2] == [FORMAT, "DeclareShards"]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        packed([]),
        packed([FORMAT + 1, "DeclareShards", {"namespace": "n", "keys": []}]),
        packed([FORMAT, "Unheard", {}]),
        packed([FORMAT, "DeclareShards", {"namespace": "n"}]),
        packed([FORMAT, "DeclareShards", {"namespace": 1, "keys": []}]),
        packed([FORMAT, "Once", ["k", "d", "Unheard", {}]]),
        packed([FORMAT, "Once", ["k", "d", "Once", ["k", "d", "ResumeBalancer", {}]]]),
        packed([FORMAT, "Once", []]),
        packed([FORMAT, "DeclareShards", {"namespace": b"\xff", "keys": []}]),
        packed([FORMAT, "DeclareShards", {"namespace": "n", "keys": []}]) + b"\x00",
        b"\x93\x01\xadDeclareShards\x82\xa9namespace\xa1\xff\xa4keys\x90",
        b"\x93\x01\xa1\xff\x80",
        DEEP,
        b"\x93\x01\xadDeclareShards" + DEEP,
        b"\x93\x01\xadDeclareShards\x81\xa1x" + DEEP,
    ],
)
def test_bytes_that_are_no_entry_of_this_format_are_refused_in_one_way(payload: bytes) -> None:
    with pytest.raises(UnknownFormatError):
        decode_entry(payload)


# -- formats -----------------------------------------------------------------------------------

EVERY = (*CLUSTER_KINDS, *NAMESPACE_KINDS)
OLD = Formats({kind: FORMAT for kind in EVERY if kind is not c.ResumeBalancer})
NEW = Formats(dict.fromkeys(EVERY, FORMAT) | {c.ResumeBalancer: FORMAT + 1})
RESUME = c.ResumeBalancer(namespace=NS)


def test_a_version_reads_from_its_oldest_format_to_its_newest() -> None:
    assert (OLD.oldest, OLD.newest) == (FORMAT, FORMAT)
    assert (NEW.oldest, NEW.newest) == (FORMAT, FORMAT + 1)
    assert FORMATS.newest == FORMAT


def test_a_command_is_written_in_the_format_in_which_it_came_to_be() -> None:
    for entry in (RESUME, c.Once(key="k", digest="d", command=RESUME)):
        assert NEW.decode(NEW.encode(entry, FORMAT + 1)) == (FORMAT + 1, entry)
    for entry in (declare("a"), c.Once(key="k", digest="d", command=declare("a"))):
        assert NEW.encode(entry, FORMAT + 1) == OLD.encode(entry, FORMAT)
        assert OLD.decode(NEW.encode(entry, FORMAT + 1)) == (FORMAT, entry)


def test_a_command_that_not_all_read_is_not_written_and_the_reason_says_what_to_do() -> None:
    with pytest.raises(NotReadableYetError, match=r"needs format 2.*Upgrade every node first"):
        NEW.encode(RESUME, FORMAT)
    with pytest.raises(NotReadableYetError):
        NEW.encode(c.Once(key="k", digest="d", command=RESUME), FORMAT)


def test_an_older_version_tells_a_newer_entry_from_bytes_that_are_none() -> None:
    with pytest.raises(UnknownFormatError) as newer:
        OLD.decode(NEW.encode(RESUME, FORMAT + 1))
    assert not isinstance(newer.value, MalformedError)
    with pytest.raises(MalformedError):
        OLD.decode(b"junk")
    with pytest.raises(MalformedError):  # every version that reads format 1 refuses it alike
        OLD.decode(packed([FORMAT, "DeclareShards", {"namespace": 1, "keys": []}]))


def test_a_snapshot_names_the_newest_format_that_was_used() -> None:
    state = rich()
    state.format = FORMAT + 1
    parts = [*encode_snapshot(state.image())]
    reading = read_snapshot(parts, FORMAT + 1)
    for _ in parts:
        next(reading)
    with pytest.raises(StopIteration) as done:
        next(reading)
    assert done.value.value.image() == state.image()
    with pytest.raises(UnknownFormatError) as newer:
        decode_snapshot(parts)
    assert not isinstance(newer.value, MalformedError)


SOME = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@SOME
@given(st.binary(max_size=60), st.integers(0, 200))
@example(b"", 0)
def test_any_bytes_are_an_entry_or_are_refused(junk: bytes, at: int) -> None:
    whole = encode_entry(c.MarkOverdue(namespace=NS, claims=(Claim("a", 1), Claim("b", 2**53))))
    for payload in (junk, whole[:at] + junk, whole[:at] + junk + whole[at + len(junk) :]):
        try:
            decode_entry(payload)
        except UnknownFormatError:
            continue


# -- snapshots ---------------------------------------------------------------------------------


def test_a_snapshot_comes_back_as_the_state_it_was_and_as_the_same_bytes() -> None:
    state = rich()
    space(state).events.forgotten = 7
    parts = [*encode_snapshot(state.image())]
    twin = decode_snapshot(parts)
    assert twin.image() == state.image()
    assert len(space(twin).events) == len(space(state).events) > 0
    assert space(twin).events.forgotten == 7
    assert [*encode_snapshot(twin.image())] == parts


def test_recorded_loads_come_back_whole_and_coming_each_chunk_in_a_part_of_its_own() -> None:
    state = fleet()
    chunks = [bytes([number]) * CHUNK_BYTES_MAX for number in range(3)]
    point = BalancePoint(7, 2.0, 1.0, 0.5, 0.3, executors=4, static_hash=3.0)
    for number, (chunk, is_last) in enumerate(zip(chunks, (False, True, False), strict=True)):
        record = c.RecordLoads(
            namespace=NS,
            sweep_ms=7,
            number=number % 2,
            chunk=chunk,
            is_last=is_last,
            point=point if is_last else None,
        )
        assert isinstance(state.apply(record), c.Applied)
    parts = [*encode_snapshot(state.image())]
    assert max(map(len, parts)) < CHUNK_BYTES_MAX + 100
    restored = decode_snapshot(parts).namespaces[NS].loads
    assert restored == SavedLoads(
        Sweep(7, tuple(chunks[:2])), Sweep(7, tuple(chunks[2:])), past=(point,)
    )


def test_the_snapshot_of_nothing_is_a_snapshot() -> None:
    assert (
        decode_snapshot(encode_snapshot(ClusterState().image())).image() == ClusterState().image()
    )


@pytest.mark.parametrize(("tag", "most"), [("shards", 60), ("tenures", 24)])
def test_a_snapshot_spends_few_bytes_on_a_shard_and_on_an_owner_of_it(tag: str, most: int) -> None:
    parts = [*encode_snapshot(fleet(2, 1000).image())]
    bytes_of = [len(part) for part in parts if msgspec.msgpack.decode(part)[0] == tag]
    assert 0 < sum(bytes_of) / 1000 < most


def test_no_part_of_a_snapshot_has_more_records_than_a_slice() -> None:
    state = fleet(2, 3 * SLICE_RECORDS + 5)
    rows = [
        len(body)
        for tag, body in map(msgspec.msgpack.decode, encode_snapshot(state.image()))
        if tag == "shards"
    ]
    assert rows == [SLICE_RECORDS] * 3 + [5]


def test_parts_made_while_shards_change_tell_of_the_moment_they_were_begun() -> None:
    state = fleet(2, 3 * SLICE_RECORDS)
    before = [*encode_snapshot(state.image())]
    parts = encode_snapshot(state.view())
    made = [next(parts) for _ in range(6)]  # some of the shards are written, others are not
    for key in ("0", str(SLICE_RECORDS), str(3 * SLICE_RECORDS - 1)):
        applied(state, park(key))
    assert [*made, *parts] == before
    assert [*encode_snapshot(state.image())] != before


def test_a_snapshot_is_read_one_part_a_step() -> None:
    parts = [*encode_snapshot(fleet(2, 2 * SLICE_RECORDS).image())]
    taken: list[bytes] = []

    def giving() -> Iterator[bytes]:
        for part in parts:
            taken.append(part)
            yield part

    reading = read_snapshot(giving())
    for number, _ in enumerate(reading, start=1):
        assert len(taken) == number
    assert taken == parts


def test_executors_of_a_restored_state_share_their_name() -> None:
    state = decode_snapshot(encode_snapshot(fleet(2, 100).image()))
    owners = {id(shard.executor) for shard in state.namespaces[NS].shards.values()}
    assert len(owners) == 2
    assert owners == {id(tenure.executor) for tenure in state.namespaces[NS].tenures.kept()}


def changed(tag: str, body: Any) -> list[bytes]:
    """A snapshot with the body of its first part of this kind replaced."""
    rows = [msgspec.msgpack.decode(part) for part in encode_snapshot(rich().image())]
    at = next(number for number, row in enumerate(rows) if row[0] == tag)
    rows[at][1] = {**rows[at][1], **body} if isinstance(body, dict) else body
    return [packed(row) for row in rows]


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b""],
        [DEEP],
        changed("head", {"format": FORMAT + 1}),
        changed("namespace", {"info": {}}),
        changed("head", {"next_epoch": "many"}),
        changed("once", [{"key": "k", "digest": "d", "applied": None, "refused": None}]),
        changed("head", {"cluster_id": None}),
        changed("end", {"parts": 3}),
        changed("shards", 7),
        [packed(("shards", []))],
        [*changed("head", {})[:1], packed(("shards", []))],
        [*changed("head", {})[:1], packed(("surprise", []))],
        [*changed("head", {})[:1] * 2],
        [*changed("head", {}), packed(("once", []))],
    ],
)
def test_bytes_that_are_no_snapshot_of_this_format_are_refused_in_one_way(
    parts: list[bytes],
) -> None:
    with pytest.raises(UnknownFormatError):
        decode_snapshot(parts)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_half_a_snapshot_is_refused(share: float) -> None:
    parts = [*encode_snapshot(rich().image())]
    with pytest.raises(UnknownFormatError):
        decode_snapshot(parts[: int(len(parts) * share)])
    with pytest.raises(UnknownFormatError):
        decode_snapshot([*parts[:-1], parts[-1][: int(len(parts[-1]) * share)]])
