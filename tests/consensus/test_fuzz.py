"""Whatever reads bytes of peers and disks, on bytes that are wrong: one documented error, soon.

`python -m bench.fuzz` does the same for longer, guided by coverage.
"""

import random
import subprocess
import sys
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.fuzz.corpus import framed, spoiled, valid, valid_messages
from bench.fuzz.targets import HELLO, TARGETS, Owner, frames, linked, strangers
from coordinator.consensus.codec import (
    FIELDS,
    FRAME_BYTES_MAX,
    Malformed,
    decode_message,
    pack,
    unpack,
)
from coordinator.consensus.handshake import encode_hello

SOME = settings(max_examples=150, deadline=None, derandomize=True, database=None)
CORPUS = valid()


@pytest.mark.parametrize("target", TARGETS)
@SOME
@given(data=st.data())
def test_any_bytes_are_read_or_refused_in_the_documented_way(target, data):
    TARGETS[target](data.draw(st.binary(max_size=300)))


@pytest.mark.parametrize("target", TARGETS)
@SOME
@given(data=st.data())
def test_valid_bytes_with_something_wrong_are_read_or_refused(target, data):
    said = data.draw(st.sampled_from(CORPUS[target]))
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(data.draw(st.integers(1, 3))):
        said = spoiled(said, rng)
    TARGETS[target](said)


@pytest.mark.parametrize("target", TARGETS)
def test_valid_bytes_are_read(target):
    for said in CORPUS[target]:
        TARGETS[target](said)


def test_every_message_is_read_with_all_that_it_may_have():
    made = valid_messages()
    assert {message["type"] for message in made} == set(FIELDS)
    for message in made:
        assert decode_message(pack(message)) == message


@SOME
@given(st.data())
def test_frames_are_the_same_however_reads_cut_them(data):
    messages = [pack(m) for m in valid_messages()]
    sent = data.draw(st.lists(st.sampled_from(messages), min_size=1, max_size=8))
    stream = framed(encode_hello(HELLO)) + b"".join(map(framed, sent))
    owner = Owner()
    link, _ = linked(owner)
    at = 0
    while at < len(stream):
        end = at + data.draw(st.integers(1, len(stream)))
        link.data_received(stream[at:end])
        at = end
    assert owner.delivered == [decode_message(frame) for frame in sent]
    assert link.transport is not None


@pytest.mark.parametrize(
    "frame",
    [
        b"\xdd" + (FRAME_BYTES_MAX - 5).to_bytes(4, "big"),
        b"\xdf" + (FRAME_BYTES_MAX // 2).to_bytes(4, "big"),
        b"".join(b"\xdd" + (FRAME_BYTES_MAX // 2).to_bytes(4, "big") for _ in range(500)),
        b"".join(b"\x81\xa1x\xdf" + (1 << 22).to_bytes(4, "big") for _ in range(400)),
        b"\x91" * 100_000,
        b"\xc6\xff\xff\xff\xff",
    ],
    ids=["array", "map", "nested arrays", "nested maps", "deep", "bytes"],
)
def test_lengths_that_lie_in_the_largest_frame_cost_neither_memory_nor_time(frame):
    data = frame + b"\xc0" * (FRAME_BYTES_MAX - len(frame) - 1000)
    tracemalloc.start()
    try:
        began = time.process_time()
        with pytest.raises(Malformed):
            unpack(data)
        spent_s = time.process_time() - began
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert spent_s < 2.0  # 0.1 s without tracing
    assert peak < 3 * FRAME_BYTES_MAX


def test_a_stranger_cannot_make_a_node_hold_more_than_a_little():
    owner = Owner()
    link, _ = linked(owner)
    for _ in range(100):
        link.data_received(b"\xff\x3f\0\0" + b"x" * 1000)  # 16,383 bytes are announced
        if link.transport is None:
            break
    assert owner.told == ["link_malformed"]
    assert len(link._buffer) < 20_000


def test_the_targets_are_what_they_say():
    """An assertion of a target that is broken is not swallowed."""
    with pytest.raises(AssertionError):
        frames_with_a_broken_check()
    strangers(b"")
    frames(b"")


def frames_with_a_broken_check():
    owner = Owner()
    link, _ = linked(owner)
    link.data_received(framed(encode_hello(HELLO)))
    link.data_received(framed(b"\xc1"))
    assert owner.told == []


def test_without_atheris_the_command_says_so_and_ends_with_2():
    hidden = "import sys; sys.modules['atheris'] = None; import runpy; sys.argv = ['bench.fuzz']"
    ended = subprocess.run(
        [sys.executable, "-c", f"{hidden}; runpy.run_module('bench.fuzz', run_name='__main__')"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 2
    assert "needs atheris" in ended.stderr
