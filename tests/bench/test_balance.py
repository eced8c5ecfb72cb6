"""The comparison of balancing rules: what the rules do, what is read, and what is judged."""

import gzip
import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.balance import __main__ as balance
from bench.balance import solver
from bench.balance.cases import Asked, Row, rows_of
from bench.balance.fleet import Fleet
from bench.balance.ours import LEVELS, Ours
from bench.balance.rules import Mergify, Uber, run
from bench.balance.snapshots import Snapshot, executor_counts, read_folder, read_snapshot
from bench.balance.starts import STARTS
from bench.balance.verdict import misses, near_ratio, summary
from bench.chart import axis, lines, points

DATA = Path(__file__).parents[2] / "bench" / "data"


def fleet(*shelves: list[float]) -> Fleet:
    """Shards `a0`, `a1` on the first executor, `b0` on the second."""
    named = [
        (f"{chr(97 + at)}{number}", at, load)
        for at, shelf in enumerate(shelves)
        for number, load in enumerate(shelf)
    ]
    loads = {key: load for key, _, load in named}
    return Fleet(loads, {key: at for key, at, _ in named}, len(shelves))


# -- the rules ---------------------------------------------------------------------------------


def test_uber_moves_the_shard_that_brings_hot_and_coldest_closest_together() -> None:
    one = fleet([6, 3, 1], [5], [1])
    assert Uber().cycle(one, ()) == ["a1"]
    assert one.where["a1"] == 2


def test_uber_leaves_what_is_within_its_bands() -> None:
    assert Uber().cycle(fleet([11], [9.1], [9.9]), ()) == []


def test_uber_does_not_make_the_cold_host_hot_unless_it_is_unguarded() -> None:
    assert Uber().cycle(fleet([10, 2], [4], [5]), ()) == ["a1"]
    assert Uber(is_guarded=False).cycle(fleet([6, 5], [4], [4]), ()) == ["a1"]
    assert Uber().cycle(fleet([6, 5], [4], [4]), ()) == []


def test_uber_rests_what_is_held_and_spends_one_move_in_a_hundred_shards() -> None:
    one = fleet([1.0] * 200, [1.0] * 20)
    assert len(Uber().cycle(one, ())) == 3
    assert Uber().cycle(fleet([6, 3], [1]), {"a0", "a1"}) == []


def test_uber_fills_anybody_once_the_hottest_is_far_above_the_mean() -> None:
    # Nobody is under 0.9 of the mean, one is over 1.3 of it.
    one = fleet([9, 5], [9.8], [9.8], [9.8])
    assert Uber(is_guarded=False).cycle(one, ()) == []
    hot = fleet([10, 4, 1, 0.6], [9.8], [9.8], [9.8], [9.8], [9.8])
    assert Uber().cycle(hot, ()) == ["a2"]


def test_mergify_relieves_from_its_high_to_its_low_mark_two_moves_a_run() -> None:
    one = fleet([1.0] * 20, [1.0] * 8, [1.0] * 8)
    rule = Mergify()
    assert len(rule.cycle(one, ())) == 2
    run(rule, one)
    assert one.totals[0] <= 1.10 * one.mean
    assert one.totals[0] > 1.10 * one.mean - 1.0
    assert Mergify().cycle(fleet([14], [10], [10]), ()) == []


def test_mergify_makes_no_move_that_only_carries_the_heat_elsewhere() -> None:
    assert Mergify().cycle(fleet([9, 0.1], [5, 4], [4]), ()) == []


def test_a_rule_that_never_rests_is_an_error() -> None:
    class Restless:
        def cycle(self, fleet: Fleet, held: Collection[str]) -> list[str]:
            assert not held
            fleet.move("a0", 1 - fleet.where["a0"])
            return ["a0"]

    with pytest.raises(RuntimeError, match="does not come to rest"):
        run(Restless(), fleet([1.0], []))


# -- cases -------------------------------------------------------------------------------------


def test_snapshots_are_any_files_of_key_and_load_gzipped_or_not(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("key,load\nx,1\ny,2.5\n")
    with gzip.open(tmp_path / "a.csv.gz", "wt") as out:
        out.write("key,load\nz,0\n")
    (tmp_path / "c.csv").write_text("key,cells\nz,0\n")
    (tmp_path / "README.md").write_text("key,load\n")
    assert [(one.name, one.loads) for one in read_folder(tmp_path)] == [
        ("a", {"z": 0.0}),
        ("b", {"x": 1.0, "y": 2.5}),
    ]


@pytest.mark.parametrize("load", ["-1", "nan", "inf"])
def test_a_load_that_is_none_is_an_error(tmp_path: Path, load: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"key,load\nx,{load}\n")
    with pytest.raises(ValueError, match="'x'"):
        read_snapshot(path)


def test_each_snapshot_is_tried_on_two_counts_the_second_without_a_dominant_shard() -> None:
    even = Snapshot("even", {f"s{at}": 1.0 for at in range(53)})
    assert executor_counts(even) == (6, 3)
    heavy = Snapshot("heavy", {**even.loads, "x": 13.0})
    assert executor_counts(heavy) == (6, 5)
    assert executor_counts(Snapshot("alone", {"x": 1.0, "y": 0.0})) == (6, 2)
    assert executor_counts(Snapshot("idle", {"x": 0.0})) == (6, 3)


@pytest.mark.parametrize("start", STARTS)
def test_every_start_has_all_shards_on_as_many_executors_as_asked(start: str) -> None:
    snapshot = read_snapshot(DATA / "flights_routes_week.csv.gz")
    one, again = (STARTS[start](snapshot, 5) for _ in range(2))
    assert len(one) == 5
    assert one.where.keys() == snapshot.loads.keys()
    assert (one.where, one.loads) == (again.where, again.loads)
    assert (one.loads == snapshot.loads) is (start != "drift")
    assert (min(one.totals) == 0.0) is (start == "join")


CASES = (("npm_packages_2000.csv.gz", 30), ("mergify_like.csv", 9))


def rows(level: str = "default", cases: Sequence[tuple[str, int]] = CASES) -> list[Row]:
    asked = Asked(level, ("hash",), ("hash", "uber", "uber_unguarded", "mergify", "ours"))
    return [
        row for name, count in cases for row in rows_of(read_snapshot(DATA / name), count, asked)
    ]


def test_a_row_says_what_each_method_left_and_what_it_cost() -> None:
    by_method = {row.method: row for row in rows(cases=CASES[1:])}
    assert by_method["hash"].moves == 0
    assert by_method["hash"].spread > by_method["uber"].spread > by_method["ours"].spread
    for row in by_method.values():
        assert row.spread >= row.bound
        assert row.max_over_mean >= row.max_bound
        assert (row.moved_load > 0.0) is (row.moves > 0)


def test_the_bars_hold_on_real_loads_and_are_missed_by_a_worse_planner() -> None:
    assert misses(rows("default"), "default") == []
    assert misses(rows("tight"), "tight") == []
    worse = [
        replace(row, spread=row.spread + 0.3, moves=row.moves + 999, moved_load=1.0)
        if row.method == "ours"
        else row
        for row in rows()
    ]
    assert len(misses(worse, "default")) == 3
    assert len(misses(worse, "tight")) == 3


def solved(ours: Row, **changes: object) -> Row:
    return replace(ours, method="solver", **changes)  # type: ignore[arg-type]


def test_beside_a_solver_one_percent_of_its_spread_and_a_quarter_more_moves_are_allowed() -> None:
    ours = replace(
        next(row for row in rows("tight") if row.method == "ours"),
        spread=0.1,
        bound=0.1,
        moves_to_near=5,
    )
    fine = solved(ours, spread=0.0995, moves_to_near=4, moves_to_near_proven=4)
    assert misses([ours, fine], "tight") == []
    assert near_ratio([ours, fine]) == 1.25
    better = solved(ours, spread=0.098, moves_to_near=3, moves_to_near_proven=3)
    assert len(misses([ours, better], "tight")) == 2
    assert summary([ours, better])["moves_to_near_over_proven"] == pytest.approx(5 / 3, abs=0.001)
    assert near_ratio([ours]) is None
    assert near_ratio([ours, replace(better, moves_to_near=4)]) is None


@pytest.mark.skipif(not solver.is_installed(), reason="OR-tools is not installed")
def test_the_solver_is_asked_for_the_level_and_for_the_fewest_moves() -> None:
    one = fleet([5.0, 3.0, 2.0], [1.0, 1.0], [])
    assert Fleet(one.loads, solver.most_level(one, one.where, 5.0), 3).figures().spread < 0.21
    least = solver.fewest_moves(one, 5.0, 5.0)
    assert (least.found, least.proven) == (1, 1)


def test_the_planner_continues_a_descent_that_its_budget_cut_short() -> None:
    one = fleet([1.0] * 300, [1.0] * 20, [1.0] * 40)
    rule = Ours(*LEVELS["default"])
    assert len(rule.cycle(one, ())) == 4
    assert rule.is_descending


# -- the command -------------------------------------------------------------------------------


def test_the_command_prints_rows_and_a_summary_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "small.csv").write_text("key,load\n" + "".join(f"s{n},{n}\n" for n in range(40)))
    chart = tmp_path / "charts" / "one.svg"
    options = ["--data", str(tmp_path), "--executors", "4", "--json", "--svg", str(chart)]
    monkeypatch.setattr("sys.argv", ["bench.balance", *options])
    assert balance.main() in (0, 1)
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["start"], one["method"]) for one in printed[:-1]] == [
        (start, method)
        for start in ("hash", "drift", "join", "leave")
        for method in ("hash", "uber", "uber_unguarded", "mergify", "ours")
    ]
    assert printed[-1]["cases"] == 4
    assert chart.read_text().count("<circle") > 10


@pytest.mark.parametrize("options", [["--starts", "nowhere"], ["--methods", "magic"], []])
def test_what_cannot_be_compared_is_said_in_so_many_words(
    tmp_path: Path,
    options: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["bench.balance", "--data", str(tmp_path), *options])
    assert balance.main() == 2
    assert capsys.readouterr().err


def test_charts_name_their_series_and_escape_what_is_not_theirs() -> None:
    x, y = axis("x < y", [0.0, 2.0]), axis("y", [])
    drawn = points("<title>", x, y, {"a&b": [(1.0, 0.5)], "none": []})
    assert "a&amp;b" in drawn
    assert "&lt;title&gt;" in drawn
    drawn = lines("t", x, y, {"one": [(0.0, 0.0), (2.0, 1.0)]}, mark=(1.0, "here"))
    assert "here" in drawn
    assert "polyline" in drawn
