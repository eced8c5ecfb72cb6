"""Letting go of large tables: a bounded slice at a time, and unchanged for whoever reads it."""

import sys
from itertools import pairwise

from coordinator.discard import SLICE_RECORDS, Discard
from tests.core.builders import fleet, space


def test_a_namespace_that_is_let_go_is_freed_in_slices_of_bounded_size():
    state = fleet(2, 3 * SLICE_RECORDS)
    sample = [*space(state).shards.values()][::64]
    held = [sys.getrefcount(record) for record in sample]
    discard = Discard()
    discard.put(state.namespaces.values())
    del state
    freed = [0]
    while discard:
        discard.work()
        now = [sys.getrefcount(record) for record in sample]
        freed.append(sum(after < before for after, before in zip(now, held, strict=True)))
    assert max(after - before for before, after in pairwise(freed)) <= SLICE_RECORDS / 64
    assert freed[-1] == len(sample)


def test_whoever_still_reads_what_is_let_go_reads_what_it_was():
    state = fleet(2, 10)
    reader = space(state)
    discard = Discard()
    discard.put([reader])
    while discard:
        discard.work()
    assert sorted(reader.shards) == [str(number) for number in range(10)]
    assert not discard
    discard.work()  # nothing is left to do
