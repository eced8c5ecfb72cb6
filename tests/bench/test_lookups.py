"""Look-ups are judged by what executors did: lost, misdirected, excused or true."""

from bench.demo.ledger import Note, by_key, tenures_of
from bench.demo.lookups import HANDOFF_S, LEASE_SLACK_S, Crash, Lookup, Outage, judge

HANDED_OVER = by_key(
    tenures_of(
        [
            Note("start", 0.0, "a", "1", "k", 1, 3.0),
            Note("stop", 10.0, "a", "1", "k", 1, 12.0),
            Note("start", 10.1, "b", "1", "k", 2, 13.0),
            Note("lease", 50.0, "b", "1", "", 0, 53.0),
        ]
    )
)
CRASHED = by_key(
    tenures_of(
        [
            Note("start", 0.0, "a", "1", "k", 1, 3.0),
            Note("lease", 20.0, "a", "1", "", 0, 22.5),
            Note("start", 23.0, "b", "1", "k", 2, 26.0),
            Note("lease", 50.0, "b", "1", "", 0, 53.0),
        ]
    )
)
CRASH = Crash("a", 20.0, lease_s=3.0)


def asked(at, executor="", epoch=0, key="k"):
    return Lookup(at, at + 0.01, key, executor, epoch, "http")


def judged(lookup, tenures, crashes=(), outages=()):
    verdict = judge([lookup], tenures, crashes, outages)
    assert verdict.lookups == lookup.count
    return verdict.lost, verdict.misdirected, verdict.excused


def test_the_executor_that_runs_the_shard_under_that_epoch_is_true():
    assert judged(asked(5.0, "a", 1), HANDED_OVER) == (0, 0, 0)
    assert judged(asked(20.0, "b", 2), HANDED_OVER) == (0, 0, 0)


def test_no_owner_is_lost():
    assert judged(asked(5.0), HANDED_OVER) == (1, 0, 0)
    assert judged(asked(5.0, key="unknown"), HANDED_OVER) == (1, 0, 0)


def test_another_executor_or_another_epoch_is_misdirected():
    assert judged(asked(5.0, "b", 2), HANDED_OVER) == (0, 1, 0)
    assert judged(asked(5.0, "a", 9), HANDED_OVER) == (0, 1, 0)


def test_the_former_owner_is_true_within_the_handoff_window_and_misdirected_after_it():
    assert judged(asked(10.0 + HANDOFF_S - 0.1, "a", 1), HANDED_OVER) == (0, 0, 0)
    assert judged(asked(10.0 + HANDOFF_S + 0.1, "a", 1), HANDED_OVER) == (0, 1, 0)


def test_a_handoff_that_an_outage_of_the_leader_held_up_has_a_longer_window():
    late = asked(10.0 + HANDOFF_S + 0.4, "a", 1)
    assert judged(late, HANDED_OVER, outages=[Outage(9.9, 10.5)]) == (0, 0, 0)
    assert judged(late, HANDED_OVER, outages=[Outage(40.0, 40.6)]) == (0, 1, 0)


def test_a_table_that_goes_on_naming_a_former_owner_is_misdirected_as_often_as_it_was_asked():
    kept = Lookup(9.0, 15.0, "k", "a", 1, "table", 60)
    assert judge([kept], HANDED_OVER).misdirected == 60


def test_within_a_crashed_executors_lease_its_shards_may_name_it_or_nobody():
    over_at = CRASH.at + CRASH.lease_s + LEASE_SLACK_S
    assert judged(asked(21.0), CRASHED, [CRASH]) == (0, 0, 1)
    assert judged(asked(over_at - 0.1, "a", 1), CRASHED, [CRASH]) == (0, 0, 1)
    assert judged(asked(over_at + 0.1, "a", 1), CRASHED, [CRASH]) == (0, 1, 0)
    assert judged(asked(over_at + 0.1), CRASHED, [CRASH]) == (1, 0, 0)


def test_a_shard_given_to_an_executor_in_its_last_moment_may_name_it_within_its_lease():
    given_too_late = by_key(
        tenures_of(
            [
                Note("start", 0.0, "c", "1", "k", 1, 3.0),
                Note("stop", 19.9, "c", "1", "k", 1, 22.0),
                Note("start", 23.0, "b", "1", "k", 3, 26.0),
            ]
        )
    )
    assert judged(asked(22.0, "a", 2), given_too_late, [CRASH]) == (0, 0, 1)
    assert judged(asked(22.0), given_too_late, [CRASH]) == (1, 0, 0)


def test_a_crash_excuses_nothing_about_other_executors_shards():
    others = by_key(tenures_of([Note("start", 0.0, "b", "1", "k", 1, 60.0)]))
    assert judged(asked(21.0), others, [CRASH]) == (1, 0, 0)


def test_what_was_wrong_is_told_with_what_had_happened():
    (example,) = judge([asked(5.0, "b", 2)], HANDED_OVER).examples
    assert "http k 5.000" in example
    assert "b epoch 2" in example
