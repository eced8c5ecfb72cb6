"""The codec reads plain data of known messages, and nothing else."""

import pickle
import struct

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.consensus.codec import (
    FIELDS,
    Malformed,
    PickleStandIn,
    decode_message,
    pack,
    unpack,
)
from coordinator.consensus.sealed import open_snapshot, seal_snapshot

APPEND = {
    "type": "append_entries",
    "term": 3,
    "commit_index": 7,
    "entries": ((b"\0x", 8, 3),),
    "prevLogIdx": 7,
    "prevLogTerm": 2,
    "stamp": 3,
}


def test_a_message_comes_back_as_it_was_sent():
    assert decode_message(pack(APPEND)) == APPEND


@given(st.binary(max_size=200))
def test_random_bytes_are_malformed_or_a_message(data):
    try:
        message = decode_message(data)
    except Malformed:
        return
    assert message["type"] in FIELDS


@given(st.data())
def test_a_cut_message_is_malformed(data):
    whole = pack(APPEND)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(Malformed):
        decode_message(whole[:cut])


class Exploit:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_a_pickle_is_malformed_and_not_executed():
    with pytest.raises(Malformed):
        decode_message(pickle.dumps(Exploit()))
    with pytest.raises(Malformed):
        PickleStandIn.loads(pickle.dumps(Exploit()))


@pytest.mark.parametrize(
    "value",
    [msgpack.ExtType(1, b"x"), msgpack.Timestamp(1, 2)],
    ids=["extension", "timestamp"],
)
def test_no_type_beyond_plain_data_is_read(value):
    with pytest.raises(Malformed):
        unpack(msgpack.packb({"type": "ping", "x": value}))


def test_no_object_is_written():
    with pytest.raises(TypeError):
        pack({"x": {1, 2}})
    with pytest.raises(TypeError):
        pack(Exploit())


def test_nesting_without_end_is_malformed():
    with pytest.raises(Malformed):
        unpack(b"\x91" * 100_000)


def test_a_length_that_lies_costs_no_memory():
    with pytest.raises(Malformed):
        unpack(b"\xdd" + struct.pack(">I", 0xFFFFFFFF))
    with pytest.raises(Malformed):
        unpack(b"\xc6" + struct.pack(">I", 0xFFFFFFFF) + b"x")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"type": 5},
        {"type": ["ping"]},
        {"type": "status"},
        {"type": "add"},
        {"type": "request_vote", "term": 1, "last_log_index": 1},
        {"type": "request_vote", "term": True, "last_log_index": 1, "last_log_term": 1},
        {"type": "ping", "extra": 1},
        {**APPEND, "term": "3"},
        {**APPEND, "commit_index": 1.5},
        {**APPEND, "entries": 5},
        {**APPEND, "entries": ((b"", 8, 3),)},
        {**APPEND, "entries": ((b"x", 8),)},
        {**APPEND, "entries": (("x", 8, 3),)},
        {**APPEND, "serialized": (b"x", 1, True)},
        {**APPEND, "serialized": (b"x", True)},
        {**APPEND, "stamp": None},
        {**APPEND, "term": -1},
        {**APPEND, "commit_index": (1 << 62) + 1},
        {**APPEND, "stamp": 1 << 63},
        {**APPEND, "prevLogIdx": -1},
        {**APPEND, "entries": ((b"x", -1, 3),)},
        {**APPEND, "entries": ((b"x", 8, 1 << 63),)},
        {"type": "proceed", "nonces": {"n1": 1}},
        {"type": "proceed", "nonces": {b"n1": "x"}},
        {"type": "proceed", "nonces": {"n1": "x" * 600}},
        {"type": "rejoin", "nonce": "x", "views": {str(n): "x" for n in range(65)}},
    ],
    ids=str,
)
def test_a_message_of_another_shape_is_malformed(wrong):
    with pytest.raises(Malformed):
        decode_message(pack(wrong))


def test_a_sealed_snapshot_opens_to_what_was_sealed():
    entries = ((b"\0a", 4, 1), (b"\0b", 5, 1))
    assert open_snapshot(seal_snapshot(entries, b"state")) == (entries, b"state")


@given(st.data())
def test_a_snapshot_with_one_changed_byte_does_not_open(data):
    sealed = bytearray(seal_snapshot(((b"\0a", 4, 1), (b"\0b", 5, 1)), b"state"))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Malformed):
        open_snapshot(bytes(sealed))
