"""Means lie side by side and are found by name, wherever they were put meanwhile."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.load import LoadBook
from coordinator.core.means import LOOSE_MAX, SPARSE, MeanTable, Run

KEYS = [f"s{number}" for number in range(40)]
few = st.lists(st.sampled_from(KEYS), unique=True, min_size=1)
figure = st.floats(0.01, 100.0)
change = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), figure),
    st.tuples(st.just("remove"), st.sampled_from(KEYS), figure),
    st.tuples(st.just("lay"), few, figure),
)


@given(st.lists(change, max_size=60))
def test_a_table_is_a_dictionary_with_bounded_room(changes) -> None:
    table, model = MeanTable(), {}
    for what, of, value in changes:
        match what:
            case "put":
                table.put(of, (value, 1.0, value))
                model[of] = (value, 1.0, value)
            case "remove":
                table.remove(of)
                model.pop(of, None)
            case _:
                table.lay(tuple(of), [value] * len(of), [2.0] * len(of), value)
                model.update(dict.fromkeys(of, (value, 2.0, value)))
    assert {key: table.get(key) for key in table} == model
    assert len(table) == len(model)
    assert table.room <= 2 * len(model) + SPARSE * len(model)
    known = sorted(model)
    assert table.means_of(known) == [model[key][0] / model[key][1] for key in known]
    for oldest in (0.0, 50.0, 101.0):
        heard = sum(ended >= oldest for _, _, ended in model.values())
        assert table.heard_since(KEYS, oldest) == heard
        assert table.look_up(known, oldest) == (table.means_of(known), heard)


work = st.one_of(
    change, st.tuples(st.just("fold"), few, figure), st.tuples(st.just("rescale"), few, figure)
)


@given(st.lists(work, max_size=40))
def test_the_total_of_a_run_is_the_sum_of_its_means_whatever_was_written(changes) -> None:
    table = MeanTable()
    for what, of, value in changes:
        match what:
            case "put":
                table.put(of, (value, 0.5, value))
            case "remove":
                table.remove(of)
            case "lay":
                weights = [0.5 if key < "s2" else value / 100.0 for key in of]
                table.lay(tuple(of), [value] * len(of), weights, value)
            case "fold":
                for run in table.runs():
                    run.fold([value] * len(run.keys), 0.9, 0.1, value)
            case _:
                table.rescale(20.0, 10.0)
        for run in table.runs():
            assert run.total == pytest.approx(sum(run.means))


def test_a_run_of_which_most_is_elsewhere_is_packed() -> None:
    table = MeanTable()
    keys = tuple(f"k{number}" for number in range(1_000))
    run = table.lay(keys, [1.0] * 1_000, [1.0] * 1_000, 5.0)
    assert run.is_of(keys)
    for gone in keys[:501]:
        table.remove(gone)
    assert table.room == 499
    assert not run.is_of(keys)
    assert table.get(keys[999]) == (1.0, 1.0, 5.0)
    for gone in keys[501:]:
        table.remove(gone)
    assert table.room == 0


def test_single_shards_share_runs_of_bounded_length() -> None:
    table = MeanTable()
    for number in range(LOOSE_MAX + 1):
        table.put(f"k{number}", (float(number), 1.0, 0.0))
    assert table.room == LOOSE_MAX + 1
    assert table.get(f"k{LOOSE_MAX}") == (float(LOOSE_MAX), 1.0, 0.0)
    for number in range(LOOSE_MAX + 1):
        table.remove(f"k{number}")
    table.put("k", (1.0, 1.0, 0.0))
    assert table.room == 1


def test_a_garbage_collection_passes_over_the_names_of_full_runs() -> None:
    table = MeanTable()
    laid = table.lay(tuple(f"a{number}" for number in range(100)), [1.0] * 100, [1.0] * 100, 5.0)
    for number in range(LOOSE_MAX + 1):
        table.put(f"k{number}", (1.0, 1.0, 0.0))
    gc.collect()
    full = [run for run in table.runs() if len(run.keys) == LOOSE_MAX]
    assert [gc.is_tracked(run.keys) for run in (laid, *full)] == [False, False]
    for gone in laid.keys[:51]:
        table.remove(gone)
    gc.collect()
    packed = [run for run in table.runs() if len(run.keys) == 49]
    assert [gc.is_tracked(run.keys) for run in packed] == [False]
    table.put("a70", (2.0, 1.0, 0.0))
    assert table.get("a70") == (2.0, 1.0, 0.0)


def test_a_sealed_run_can_go_on() -> None:
    run = Run(1)
    run.append("a", (1.0, 1.0, 0.0))
    run.seal()
    run.append("b", (2.0, 1.0, 0.0))
    assert (run.is_of(("a", "b")), run.live) == (False, 2)
    run.seal()
    assert run.is_of(("a", "b"))


def test_what_was_never_measured_is_not_found() -> None:
    table = MeanTable()
    assert table.get("x") is None
    assert "x" not in table
    assert table.means_of(["x"]) is None
    assert table.look_up(["x"], 0.0) is None
    assert table.means_of([]) == []
    table.remove("x")


reports = st.lists(
    st.tuples(
        st.lists(st.one_of(st.none(), st.floats(0.0, 10.0)), min_size=3, max_size=3),
        st.floats(0.5, 5.0),
    ),
    min_size=1,
    max_size=12,
)


@given(reports)
def test_the_short_way_comes_to_the_same_figures_as_the_long_one(reported) -> None:
    keys = ("a", "b", "c")
    long, short = LoadBook(60.0, 2.0), LoadBook(60.0, 2.0)
    now = 0.0
    for loads, gap_s in reported:
        now += gap_s
        listed = dict(zip(keys, loads, strict=True))
        long.restore([], now)  # nothing, but it shows that both are asked in between
        long.fold("e", listed, keys, now)
        if not short.fold_again("e", keys, loads, now):
            short.fold("e", listed, keys, now)
        assert short.entries(keys) == long.entries(keys)
        assert short.version("e")[1] == long.version("e")[1]


def test_the_short_way_takes_only_what_it_can_vouch_for() -> None:
    book = LoadBook(60.0, 2.0)
    assert not book.fold_again("e", ("a", "b"), [1.0, 2.0], 0.0)  # nothing was reported before
    book.fold("e", {"a": 1.0, "b": 2.0}, ["a", "b"], 2.0)
    for loads in ([1.0, None], [1.0, -1.0], [1.0, float("inf")], [1.0, float("nan")]):
        assert not book.fold_again("e", ("a", "b"), loads, 4.0)
    assert not book.fold_again("e", ("b", "a"), [1.0, 2.0], 4.0)
    assert not book.fold_again("e", ("a",), [1.0], 4.0)
    assert book.smoothed("a") == 1.0
    assert book.fold_again("e", ("a", "b"), [1.0, 2.0], 2.0)  # a repetition: no window, no change
    assert book.version("e") == (0, 1)
    book.forget("b")
    assert not book.fold_again("e", ("a", "b"), [1.0, 2.0], 6.0)


def test_a_shard_that_another_executor_reports_lies_with_its_own() -> None:
    book = LoadBook(60.0, 2.0)
    book.fold("e", {"a": 1.0, "b": 2.0}, ["a", "b"], 2.0)
    book.fold("f", {"b": 4.0, "c": 3.0}, ["b", "c"], 3.0)
    assert not book.fold_again("e", ("a", "b"), [9.0, 9.0], 4.0)
    assert book.fold_again("f", ("b", "c"), [4.0, 3.0], 5.0)
    assert book.smoothed("a") == 1.0
    assert book.smoothed("c") == pytest.approx(3.0)
    assert 2.0 < (book.smoothed("b") or 0.0) < 4.0
