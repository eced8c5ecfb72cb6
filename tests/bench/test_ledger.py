"""The judge of the demo and of the system tests sees what is wrong, and nothing else."""

from bench.demo.ledger import Note, by_key, epoch_faults, moves, orphaned_s, overlaps, tenures_of


def note(kind, at, executor, key="", epoch=0, *, until=None, incarnation="1"):
    lease_until = at + 3.0 if until is None else until
    return Note(kind, at, executor, incarnation, key, epoch, lease_until)


def handed_over(stopped_at=10.0, started_at=10.1, epochs=(1, 2)):
    return tenures_of(
        [
            note("start", 0.0, "a", "k", epochs[0]),
            note("stop", stopped_at, "a", "k", epochs[0]),
            note("start", started_at, "b", "k", epochs[1]),
        ]
    )


def test_a_handoff_in_order_is_one_move_without_overlap():
    tenures = handed_over()
    assert overlaps(tenures) == []
    assert epoch_faults(tenures) == []
    assert moves(tenures, 0.0, 100.0) == 1
    assert moves(tenures, 10.2, 100.0) == 0


def test_a_start_before_the_stop_is_an_overlap_of_that_length():
    (found,) = overlaps(handed_over(stopped_at=10.0, started_at=9.5))
    assert (found.earlier.executor, found.later.executor) == ("a", "b")
    assert found.seconds == 0.5


def test_epochs_that_stand_still_or_fall_are_faults():
    assert len(epoch_faults(handed_over(epochs=(2, 2)))) == 1
    assert len(epoch_faults(handed_over(epochs=(2, 1)))) == 1


def test_who_wins_its_lease_back_goes_on_under_the_same_epoch_and_nobody_else_does():
    notes = [note("start", 0.0, "a", "k", 5), note("stop", 1.0, "a", "k", 5)]
    assert epoch_faults(tenures_of([*notes, note("start", 1.3, "a", "k", 5)])) == []
    assert len(epoch_faults(tenures_of([*notes, note("start", 1.3, "a", "k", 4)]))) == 1
    assert len(epoch_faults(tenures_of([*notes, note("start", 1.3, "b", "k", 5)]))) == 1


def test_an_epoch_raised_in_place_counts_when_the_next_tenure_is_compared():
    notes = [
        note("start", 0.0, "a", "k", 1),
        note("epoch", 5.0, "a", "k", 7),
        note("stop", 10.0, "a", "k", 7),
        note("start", 10.1, "b", "k", 6),
    ]
    tenures = tenures_of(notes)
    assert (tenures[0].epoch_first, tenures[0].epoch_last) == (1, 7)
    assert len(epoch_faults(tenures)) == 1


def test_a_crashed_executor_stays_valid_until_the_end_of_its_last_noted_lease():
    notes = [
        note("start", 0.0, "a", "k", 1, until=3.0),
        note("lease", 2.0, "a", until=4.5),
        note("start", 4.4, "b", "k", 2),
    ]
    (found,) = overlaps(tenures_of(notes))
    assert round(found.seconds, 6) == 0.1
    assert overlaps(tenures_of([*notes[:2], note("start", 4.5, "b", "k", 2)])) == []


def test_a_stop_after_the_lease_is_valid_only_as_long_as_the_lease():
    notes = [
        note("start", 0.0, "a", "k", 1, until=3.0),
        note("stop", 9.0, "a", "k", 1, until=3.0),
        note("start", 5.0, "b", "k", 2),
    ]
    assert overlaps(tenures_of(notes)) == []


def test_who_wakes_after_its_lease_was_valid_until_the_last_end_that_it_knew():
    tenures = tenures_of(
        [
            note("start", 0.0, "a", "k", 1, until=3.0),
            note("lease", 1.0, "a", until=4.0),
            note("lease", 16.0, "a", until=16.0),
            note("stop", 16.1, "a", "k", 1, until=16.1),
            note("start", 5.0, "b", "k", 2),
        ]
    )
    assert [tenure.valid_until for tenure in tenures] == [4.0, 8.0]
    assert overlaps(tenures) == []


def test_an_overlap_with_an_earlier_but_not_the_last_tenure_is_found():
    notes = [
        note("start", 0.0, "a", "k", 1),
        note("start", 1.0, "b", "k", 2, until=1.5),
        note("stop", 1.5, "b", "k", 2, until=1.5),
        note("start", 2.0, "c", "k", 3),
        note("stop", 20.0, "a", "k", 1),
    ]
    pairs = [(one.earlier.executor, one.later.executor) for one in overlaps(tenures_of(notes))]
    assert pairs == [("a", "b"), ("a", "c")]


def test_two_processes_under_one_name_overlap_like_any_others():
    notes = [
        note("start", 0.0, "a", "k", 1, incarnation="1"),
        note("start", 1.0, "a", "k", 2, incarnation="2"),
    ]
    tenures = tenures_of(notes)
    assert len(overlaps(tenures)) == 1
    assert moves(tenures, 0.0, 100.0) == 0


def test_a_restart_of_a_shard_by_its_own_executor_is_no_overlap():
    notes = [
        note("start", 0.0, "a", "k", 1),
        note("stop", 1.0, "a", "k", 1, until=4.0),
        note("start", 1.5, "a", "k", 2),
    ]
    assert overlaps(tenures_of(notes)) == []


def test_shards_are_judged_apart_from_each_other():
    notes = [note("start", 0.0, "a", "k", 5), note("start", 1.0, "b", "l", 4)]
    tenures = tenures_of(notes)
    assert overlaps(tenures) == []
    assert epoch_faults(tenures) == []
    assert sorted(by_key(tenures)) == ["k", "l"]


def test_the_time_without_an_owner_counts_from_the_crash_and_is_infinite_without_a_successor():
    notes = [
        note("start", 0.0, "a", "k", 1),
        note("start", 0.0, "a", "l", 2),
        note("start", 0.0, "a", "m", 3),
        note("stop", 1.0, "a", "m", 3),
        note("start", 8.0, "b", "k", 4),
    ]
    assert orphaned_s(tenures_of(notes), "a", crashed_at=5.0) == {"k": 3.0, "l": float("inf")}
