"""What a load report means for the mean of each shard."""

from math import exp, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.load import LOAD_MAX, LoadBook, ProcessSignals


def book_of(*reports: float | None, horizon_s: float = 60.0, interval_s: float = 2.0) -> LoadBook:
    """One executor `a` that owns shard `s` and reports every interval."""
    book = LoadBook(horizon_s, interval_s)
    for beat, load in enumerate(reports):
        book.fold("a", {"s": load}, {"s"}, beat * interval_s)
    return book


def test_the_first_report_is_taken_as_it_is() -> None:
    assert book_of(5.0).smoothed("s") == pytest.approx(5.0)


def test_a_shard_never_measured_has_no_load() -> None:
    book = LoadBook(60.0, 2.0)
    assert book.smoothed("s") is None
    assert book.measured_s("s") == 0.0
    assert not book.is_settled("s", 0.0)
    assert len(book) == 0


def test_a_constant_load_is_its_own_mean() -> None:
    assert book_of(*[3.0] * 50).smoothed("s") == pytest.approx(3.0)


def test_one_horizon_after_a_step_63_percent_of_it_has_arrived() -> None:
    book = book_of(*[0.0] * 2000, *[1.0] * 30)
    assert book.smoothed("s") == pytest.approx(1 - exp(-1), rel=1e-6)


def test_a_report_weighs_by_the_time_it_covers() -> None:
    often, seldom = LoadBook(60.0, 2.0), LoadBook(60.0, 2.0)
    for book, beat_s in ((often, 1.0), (seldom, 10.0)):
        book.fold("a", {"s": 1.0}, ["s"], 0.0)
        for beat in range(1, round(100 / beat_s) + 1):
            book.fold("a", {"s": 4.0}, ["s"], beat * beat_s)
    assert often.smoothed("s") == pytest.approx(seldom.smoothed("s"))
    assert often.measured_s("s") == pytest.approx(seldom.measured_s("s"))


def test_one_missing_report_is_made_good_by_the_next_that_covers_its_time() -> None:
    steady, gappy = LoadBook(60.0, 2.0), LoadBook(60.0, 2.0)
    for book, times in ((steady, (0, 2, 4, 6, 8)), (gappy, (0, 2, 6, 8))):
        for at in times:
            book.fold("a", {"s": 2.0 if at else 1.0}, ["s"], float(at))
    assert gappy.smoothed("s") == pytest.approx(steady.smoothed("s"))


def test_held_without_a_load_is_no_news_and_not_zero() -> None:
    assert book_of(5.0, None, None).smoothed("s") == pytest.approx(5.0)
    assert book_of(None).smoothed("s") is None


def test_owned_and_not_listed_is_a_window_of_zero() -> None:
    book = book_of(6.0, horizon_s=2.0)
    book.fold("a", {}, {"s"}, 2.0)
    first, second = (1 - exp(-1)) * exp(-1), 1 - exp(-1)
    assert book.smoothed("s") == pytest.approx(6.0 * first / (first + second))


def test_listed_and_not_owned_is_ignored() -> None:
    book = book_of(5.0)
    book.fold("b", {"s": 900.0, "foreign": 1.0}, [], 1.0)
    assert book.smoothed("s") == pytest.approx(5.0)
    assert len(book) == 1


@pytest.mark.parametrize("load", [nan, inf, -inf, -0.001])
def test_a_figure_that_is_no_load_is_no_news(load: float) -> None:
    assert book_of(5.0, load).smoothed("s") == pytest.approx(5.0)
    assert book_of(load).smoothed("s") is None


def test_an_absurd_load_is_cut_so_that_sums_stay_finite() -> None:
    assert book_of(1e300).smoothed("s") == pytest.approx(LOAD_MAX)
    assert book_of(LOAD_MAX).smoothed("s") == pytest.approx(LOAD_MAX)


@pytest.mark.parametrize("now", [10.0, 10.0000001, 9.0, -1e9])
def test_a_clock_that_stands_still_or_runs_back_folds_nothing(now: float) -> None:
    book = LoadBook(60.0, 2.0)
    book.fold("a", {"s": 5.0}, ["s"], 10.0)
    book.fold("a", {"s": 50.0}, ["s"], now)
    assert book.smoothed("s") == pytest.approx(5.0)
    assert book.measured_s("s") == pytest.approx(2.0)


def test_a_first_report_counts_for_one_interval() -> None:
    assert book_of(5.0, interval_s=7.0).measured_s("s") == pytest.approx(7.0)


def test_a_new_incarnation_starts_with_a_first_report_again() -> None:
    book = book_of(5.0)
    book.restart("a")
    book.fold("a", {"s": 5.0}, {"s"}, 1000.0)
    assert book.measured_s("s") == pytest.approx(4.0)
    book.restart("never seen")


def test_another_interval_counts_for_first_reports_from_then_on() -> None:
    book = LoadBook(60.0, 2.0)
    book.set_interval(5.0)
    book.fold("a", {"s": 1.0}, ["s"], 0.0)
    assert book.measured_s("s") == pytest.approx(5.0)


def test_a_moved_shard_takes_its_history_along() -> None:
    book = book_of(*[8.0] * 30)
    book.fold("b", {}, [], 58.0)
    book.fold("b", {"s": 2.0}, {"s"}, 60.0)
    kept = exp(-2 / 60)
    weight = 1 - exp(-60 / 60)
    expected = (8.0 * weight * kept + 2.0 * (1 - kept)) / (weight * kept + 1 - kept)
    assert book.smoothed("s") == pytest.approx(expected)


def test_a_shard_is_settled_once_it_was_observed_for_long_enough() -> None:
    book = book_of(*[1.0] * 5)
    assert book.measured_s("s") == pytest.approx(10.0)
    assert book.is_settled("s", 9.99)
    assert not book.is_settled("s", 10.01)


def test_a_shard_observed_for_ages_counts_as_observed_for_ever() -> None:
    book = book_of(*[1.0] * 3, horizon_s=0.01)
    assert book.measured_s("s") == inf
    assert book.is_settled("s", 1e12)


def test_another_horizon_keeps_means_and_observed_time() -> None:
    book = book_of(1.0, 2.0, 3.0)
    mean = book.smoothed("s")
    book.set_horizon(600.0)
    assert book.horizon_s == 600.0
    assert book.smoothed("s") == pytest.approx(mean)
    assert book.measured_s("s") == pytest.approx(6.0)
    book.fold("a", {"s": 100.0}, {"s"}, 6.0)
    slow = book.smoothed("s")
    other = book_of(1.0, 2.0, 3.0)
    other.set_horizon(60.0)
    other.fold("a", {"s": 100.0}, {"s"}, 6.0)
    assert slow is not None
    assert slow < (other.smoothed("s") or 0.0)


def test_a_retired_shard_is_forgotten() -> None:
    book = book_of(1.0)
    book.forget("s")
    book.forget("s")
    assert book.smoothed("s") is None
    assert book.means() == {}


@pytest.mark.parametrize(
    ("loads", "median"), [([], 0.0), ([4.0], 4.0), ([1.0, 9.0], 5.0), ([9.0, 1.0, 2.0], 2.0)]
)
def test_the_median_stands_for_unmeasured_shards(loads: list[float], median: float) -> None:
    book = LoadBook(60.0, 2.0)
    named = {f"s{at}": load for at, load in enumerate(loads)}
    book.fold("a", named, named.keys(), 0.0)
    assert book.median() == pytest.approx(median)
    assert book.means() == pytest.approx(named)


def test_shards_are_stale_when_unmeasured_or_not_reported_in_time() -> None:
    book = LoadBook(60.0, 2.0)
    book.fold("a", {"old": 1.0}, ["old"], 0.0)
    book.fold("b", {"new": 1.0}, ["new"], 8.0)
    keys = ["old", "new", "never", "neither"]
    assert book.stale_ratio(keys, 10.0, 10.0) == 0.5
    assert book.stale_ratio(keys, 10.0, 9.999) == 0.75
    assert book.stale_ratio([], 10.0, 1.0) == 0.0


def test_no_news_leaves_a_shard_as_stale_as_it_was() -> None:
    book = book_of(5.0, None)
    assert book.stale_ratio(["s"], 2.0, 1.0) == 1.0


def test_entries_restore_means_and_observed_times() -> None:
    book = book_of(1.0, 7.0)
    book.fold("b", {"t": 3.0}, ["t"], 1.0)
    entries = book.entries(["t", "unheard", "s"])
    assert [key for key, _, _ in entries] == ["t", "s"]
    warm = LoadBook(60.0, 2.0)
    warm.restore(entries, 500.0)
    assert warm.means() == pytest.approx(book.means())
    assert warm.measured_s("s") == pytest.approx(4.0)
    assert warm.stale_ratio(["s", "t"], 501.0, 5.0) == 0.0
    assert warm.stale_ratio(["s", "t"], 506.0, 5.0) == 1.0


def test_what_is_restored_lies_behind_what_was_measured_since_as_if_nobody_had_changed() -> None:
    loads = [3.0, 8.0, 1.0, 4.0, 4.0, 9.0]
    before, whole = book_of(*loads[:3]), book_of(*loads)
    after = LoadBook(60.0, 2.0)
    for beat, load in enumerate(loads[3:]):
        after.fold("a", {"s": load}, {"s"}, 6.0 + beat * 2.0)
    after.restore(before.entries(["s"]), 10.0)
    assert after.means() == pytest.approx(whole.means())
    assert after.measured_s("s") == pytest.approx(whole.measured_s("s"))


def test_what_is_restored_counts_less_the_longer_nobody_measured() -> None:
    book = LoadBook(60.0, 2.0)
    book.restore([("s", 8.0, 1.0)], 0.0, age_s=60.0)
    assert book.smoothed("s") == pytest.approx(8.0)
    assert book.entries(["s"])[0][2] == pytest.approx(exp(-1))


def test_broken_entries_are_not_restored() -> None:
    book = book_of(9.0)
    book.restore([("zero", 1.0, 0.0), ("much", 1.0, 1.5), ("bad", nan, 0.5)], 10.0)
    book.restore([("old", 1.0, 1.0)], 10.0, age_s=1e9)
    assert book.means() == pytest.approx({"s": 9.0})


def test_saturation_signals_are_kept_apart_and_end_with_the_incarnation() -> None:
    book = LoadBook(60.0, 2.0)
    assert book.process("a") is None
    book.observe_process("a", ProcessSignals(cpu_cores=0.5))
    book.observe_process("a", ProcessSignals(cpu_cores=0.99, event_loop_lag_s=0.2, backlog=40))
    signals = book.process("a")
    assert signals == ProcessSignals(0.99, 0.2, 40)
    book.restart("a")
    assert book.process("a") is None


REPORTS = st.one_of(st.none(), st.floats(0.0, 1e9), st.just("absent"))


@given(st.lists(st.tuples(st.floats(0.001, 1e6), REPORTS), min_size=1, max_size=40))
def test_a_mean_lies_within_what_was_reported_and_its_weight_within_one(
    beats: list[tuple[float, float | str | None]],
) -> None:
    book = LoadBook(3600.0, 2.0)
    now, seen = 0.0, []
    for gap_s, report in beats:
        now += gap_s
        listed = {} if isinstance(report, str) else {"s": report}
        book.fold("a", listed, ("s",), now)
        if report is not None:
            seen.append(0.0 if isinstance(report, str) else report)
    mean = book.smoothed("s")
    if mean is None:
        assert seen == []
    else:
        # A weight times a subnormal load rounds to zero: 1e-300 of any unit is nothing.
        assert min(seen) * (1 - 1e-9) - 1e-300 <= mean <= max(seen) * (1 + 1e-9)
        ((_, _, weight),) = book.entries(book.known())
        assert 0.0 < weight <= 1.0


# -- the two load models that fail -------------------------------------------------------------


def test_peaks_do_not_add_up_and_means_do() -> None:
    """Eight shards that are busy in turn: their executor is never busier than one of them."""
    shards = [f"s{number}" for number in range(8)]
    book, peaks, total = LoadBook(600.0, 2.0), dict.fromkeys(shards, 0.0), 0.0
    for beat in range(1200):
        loads = {key: 1.0 if beat % 8 == number else 0.0 for number, key in enumerate(shards)}
        book.fold("a", loads, shards, beat * 2.0)
        peaks = {key: max(peaks[key], load) for key, load in loads.items()}
        total = max(total, sum(loads.values()))
    assert sum(peaks.values()) == 8.0  # as if eight cores were needed
    assert total == 1.0  # one is
    assert sum(book.means().values()) == pytest.approx(1.0, rel=0.01)


def test_the_peak_of_a_metric_with_a_ceiling_is_always_the_ceiling() -> None:
    """A process of one core, asked for half of one and for three: peaks tell no difference."""
    book = LoadBook(600.0, 2.0)
    peaks = {}
    for name, demand in (("calm", 0.5), ("swamped", 3.0)):
        lag_s, waiting = 0.0, 0.0
        for beat in range(1200):
            burst = 2.0 * demand if beat % 4 == 0 else 2.0 / 3.0 * demand
            waiting = max(0.0, waiting + burst - 1.0)
            load = min(1.0, burst)  # what a process can show at most
            lag_s = 0.3 if waiting > 1.0 else 0.0
            peaks[name] = max(peaks.get(name, 0.0), load)
            book.fold(name, {name: load}, [name], beat * 2.0)
            signals = ProcessSignals(event_loop_lag_s=lag_s, backlog=waiting)
            book.observe_process(name, signals)
    assert peaks == {"calm": 1.0, "swamped": 1.0}
    calm, swamped = book.smoothed("calm"), book.smoothed("swamped")
    assert calm is not None
    assert swamped is not None
    assert calm == pytest.approx(0.5, rel=0.05)
    # The mean is clipped as well, so no figure of load says how much is missing: the signals do.
    assert swamped == pytest.approx(1.0, rel=0.05)
    assert (book.is_saturated("calm"), book.is_saturated("swamped")) == (False, True)


def test_one_bad_report_is_no_saturation_and_a_backlog_that_gets_less_is_none() -> None:
    book = LoadBook(60.0, 2.0)
    for lag_s in (0.5, 0.5, 0.0, 0.5):
        book.observe_process("a", ProcessSignals(event_loop_lag_s=lag_s))
    assert not book.is_saturated("a")
    for waiting in (90.0, 70.0, 40.0, 10.0):
        book.observe_process("b", ProcessSignals(backlog=waiting))
    assert not book.is_saturated("b")
    for waiting in (10.0, 10.0, 30.0, 31.0):
        book.observe_process("c", ProcessSignals(backlog=waiting))
    assert book.is_saturated("c")
    book.restart("c")
    assert not book.is_saturated("c")
    assert not book.is_saturated("never heard")
