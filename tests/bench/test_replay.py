"""Series replayed, and Mergify's table: read, judged, and what must hold on the project's data."""

import json
import tomllib
from pathlib import Path

import pytest

from bench import mergify
from bench.balance.ours import Ours
from bench.balance.rules import Mergify, run
from bench.balance.snapshots import read_snapshot
from bench.balance.starts import hashed
from bench.replay import __main__ as replay
from bench.replay.play import Setting, play
from bench.replay.series import read_series

ROOT = Path(__file__).parents[2]
DATA = ROOT / "bench" / "data"


def minutes(folder: Path, text: str) -> Path:
    path = folder / "calls.csv"
    path.write_text(f"key,mean_ms,cells_every_minute\n{text}")
    return path


def test_cells_are_loads_by_step_and_weigh_their_duration_if_asked(tmp_path: Path) -> None:
    path = minutes(tmp_path, "a,500,0:4 2:2\nb,10,\n")
    series = read_series(path)
    assert (series.step_s, series.window, series.keys) == (60.0, 60, ("a", "b"))
    assert series.steps == ({"a": 4.0}, {}, {"a": 2.0})
    assert read_series(path, is_weighed=True).steps[0] == {"a": 2.0}
    (tmp_path / "other.csv").write_text("key,load\n")
    with pytest.raises(ValueError, match="cells_every_hour"):
        read_series(tmp_path / "other.csv")


def test_without_a_rule_nothing_moves_and_the_judging_begins_when_the_window_is_full(
    tmp_path: Path,
) -> None:
    cells = " ".join(f"{at}:1" for at in range(200))
    series = read_series(minutes(tmp_path, "".join(f"k{n},1,{cells}\n" for n in range(8))))
    found = play(series, None, Setting(2, 600.0, 0.0, on_after=60))
    assert (found.moves, len(found.track), len(found.excess)) == (0, 200, 80)
    hottest, mean, coldest = found.track[-1]
    assert hottest + coldest == 2 * mean == 8 * 60
    assert found.excess[-1] == pytest.approx(hottest / mean - 1.0)


def test_eight_weeks_of_flights_stay_near_the_best_possible_with_few_moves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    series, chart = DATA / "nyc_flights_hourly_8weeks.csv.gz", tmp_path / "replay.svg"
    options = ["--series", str(series), "--executors", "10", "--horizon-s", "259200"]
    monkeypatch.setattr("sys.argv", ["bench.replay", *options, "--json", "--svg", str(chart)])
    assert replay.main() == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rows = {row["method"]: row for row in printed[:-1]}
    assert list(rows) == ["hash", "uber", "mergify", "ours"]
    assert rows["hash"]["excess_over_best"] > 0.5
    assert rows["ours"]["excess_over_best"] <= 0.06
    assert rows["ours"]["moves"] <= 20
    assert chart.read_text().count("polyline") == 3


def test_under_a_quiet_mark_no_process_is_worse_off_than_under_mergifys_rule(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["bench.mergify", "--json"])
    assert mergify.main() == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    quiet = [row for row in printed[:-1] if row["method"] == "ours_quiet"]
    assert [row["processes"] for row in quiet] == list(range(8, 17))
    assert all(row["worst"] <= max(65.0, 1.04 * row["bound"]) for row in quiet)
    assert all(row["moves"] <= 10 for row in quiet)


def test_so_it_is_with_the_policy_that_is_shipped_for_this_case() -> None:
    """Gaps and mark of `configs/policies/small-tenants.toml`, as its reader would append it."""
    settings = tomllib.loads((ROOT / "configs" / "policies" / "small-tenants.toml").read_text())
    shipped = settings["namespaces"]["tenants"]["policy"]["balancer"]
    assert (shipped["quiet_mark"], shipped["high_mark"]) == (0.65, mergify.HIGH_MARK / 100.0)
    mark = 100.0 * shipped["quiet_mark"]
    snapshot = read_snapshot(mergify.DATA)
    for processes in range(8, 17):
        fleets = [hashed(snapshot, processes), hashed(snapshot, processes)]
        run(Ours(shipped["start_gap"], shipped["stop_gap"], quiet_mark=mark), fleets[0])
        theirs = Mergify(mergify.HIGH_MARK, mergify.LOW_MARK, mergify.IMPROVEMENT, mean=1.0)
        run(theirs, fleets[1])
        ours_worst, their_worst = (one.figures().hottest_utilisation for one in fleets)
        assert ours_worst <= their_worst, processes


def test_where_mergifys_rule_does_better_the_bench_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["bench.mergify", "--processes", "12", "--quiet-mark", "99"])
    assert mergify.main() == 1
    shown = capsys.readouterr()
    assert "12 processes" in shown.err
    assert "published hash" in shown.out
    rows = mergify.rows_of(read_snapshot(mergify.DATA), 12, "level", 65.0)
    assert mergify.misses(rows) == []
