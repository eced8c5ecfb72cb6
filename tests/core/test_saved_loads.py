"""Loads in the log: what comes back out of the bytes, and which sweep counts."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core import commands as c
from coordinator.core.commands import Reason
from coordinator.core.load import LOAD_MAX
from coordinator.core.saved_loads import (
    CHUNK_BYTES_MAX,
    CHUNKS_MAX,
    SavedLoads,
    Sweep,
    entry_bytes,
    packed,
    unpacked,
)
from coordinator.core.state import ClusterState
from tests.core.builders import NS, applied, fleet, space

KEYS = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=20)
ENTRIES = st.lists(st.tuples(KEYS, st.floats(0.0, LOAD_MAX), st.floats(1e-4, 1.0)), max_size=30)


@given(ENTRIES)
def test_entries_come_back_as_exact_as_a_load_needs(
    entries: list[tuple[str, float, float]],
) -> None:
    found = unpacked(packed(entries))
    assert [key for key, _, _ in found] == [key for key, _, _ in entries]
    for (_, mean, weight), (_, read, known) in zip(entries, found, strict=True):
        assert read == pytest.approx(mean, rel=1e-6, abs=1e-37)
        assert known == pytest.approx(weight, abs=1e-5)
        assert known > 0.0
    raw = zlib.decompress(packed(entries))
    assert len(raw) <= 4 + sum(entry_bytes(key) for key, _, _ in entries)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_chunk_hold_nothing(noise: bytes) -> None:
    assert unpacked(noise) == []
    assert isinstance(unpacked(zlib.compress(noise)), list)


def test_a_chunk_that_was_cut_off_or_is_a_bomb_holds_nothing() -> None:
    whole = packed([("s", 1.0, 1.0)])
    assert unpacked(whole[:-1]) == []
    assert unpacked(zlib.compress(bytes(8 * CHUNK_BYTES_MAX))) == []


def record(
    state: ClusterState,
    number: int,
    chunk: bytes = b"x",
    *,
    sweep_ms: int = 7,
    is_last: bool = False,
) -> c.Outcome:
    return state.apply(
        c.RecordLoads(namespace=NS, sweep_ms=sweep_ms, number=number, chunk=chunk, is_last=is_last)
    )


def test_a_sweep_counts_when_its_last_chunk_has_come_and_the_one_before_until_then() -> None:
    state = fleet()
    record(state, 0, b"a", is_last=True)
    assert space(state).loads == SavedLoads(whole=Sweep(7, (b"a",)))
    record(state, 0, b"b", sweep_ms=8)
    record(state, 1, b"c", sweep_ms=8)
    assert space(state).loads == SavedLoads(Sweep(7, (b"a",)), Sweep(8, (b"b", b"c")))
    record(state, 2, b"d", sweep_ms=8, is_last=True)
    assert space(state).loads == SavedLoads(Sweep(8, (b"b", b"c", b"d")))


@pytest.mark.parametrize(("number", "sweep_ms"), [(2, 7), (1, 8), (-1, 7)])
def test_a_chunk_that_does_not_follow_is_refused_and_changes_nothing(
    number: int, sweep_ms: int
) -> None:
    state = fleet()
    record(state, 0)
    before = space(state).loads
    outcome = record(state, number, sweep_ms=sweep_ms)
    assert isinstance(outcome, c.Refused)
    assert outcome.reason is Reason.CONFLICT
    assert space(state).loads is before


def test_chunks_are_bounded_in_size_and_number() -> None:
    state = fleet()
    outcome = record(state, 0, bytes(CHUNK_BYTES_MAX + 1))
    assert isinstance(outcome, c.Refused)
    assert outcome.reason is Reason.INVALID
    for number in range(CHUNKS_MAX):
        assert isinstance(record(state, number, bytes(1)), c.Applied)
    outcome = record(state, CHUNKS_MAX)
    assert isinstance(outcome, c.Refused)
    assert outcome.reason is Reason.QUOTA_EXCEEDED


def test_recorded_loads_wake_nobody_who_waits_for_news() -> None:
    state = fleet()
    before = (state.next_revision, space(state).revision)
    applied(state, c.RecordLoads(namespace=NS, sweep_ms=1, number=0, chunk=b"x", is_last=True))
    assert (state.next_revision, space(state).revision) == before
