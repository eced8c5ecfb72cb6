"""Figures of a run become a table and a picture, and nothing of the text around them is lost."""

import json
import re

import pytest

from bench import report
from bench.__main__ import BENCHES, QUICK
from bench.chart import bars
from bench.report import BEGIN, END, read, table, write

ROWS = [
    {"name": "beats", "value": 4572.4, "unit": "1/s", "peer": "bare", "peer_value": 9663.0,
     "ratio": 0.473},
    {"name": "alone", "value": 1.0, "unit": "s", "peer": None, "peer_value": None, "ratio": None},
]  # fmt: skip
SUMMARY = {"ok": False, "missed": ["beats: 0.473 where 0.6 is to be reached"],
           "load_average": 1.5, "skipped": {"etcd": "etcd is not installed"}}  # fmt: skip


@pytest.fixture
def results(tmp_path, monkeypatch):
    folder = tmp_path / "results"
    folder.mkdir()
    lines = [json.dumps(one) for one in (*ROWS, SUMMARY)]
    (folder / "api.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(report, "RESULTS", folder)
    return folder


def test_only_benches_that_ran_are_told_of(results):
    ended = read(results, ("consensus", "api"))
    assert [one.name for one in ended] == ["api"]
    assert [row.name for row in ended[0].rows] == ["beats", "alone"]


def test_the_table_has_rows_with_a_peer_what_was_missed_and_what_was_skipped(results):
    told = table(read(results, ("api",)))
    assert "| `api` | beats | 4,572 1/s | bare | 9,663 1/s | 0.473 |" in told
    assert "alone" not in told
    assert "missed beats: 0.473 where 0.6 is to be reached; skipped: etcd is not installed" in told
    assert "load average 1.5" in told


@pytest.mark.usefixtures("results")
def test_it_is_put_between_its_marks_again_and_again(tmp_path):
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for _ in range(2):
        assert write(tmp_path, ("api",)) == page
        told = page.read_text()
        assert told.startswith(f"before\n{BEGIN}\n")
        assert told.endswith(f"{END}\nafter\n")
        assert told.count("| `api` | beats") == 1
        assert "old" not in told
    assert (tmp_path / "figures.svg").read_text().endswith("</svg>\n")


@pytest.mark.usefixtures("results")
def test_a_page_without_marks_is_left_alone(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("nothing here\n")
    with pytest.raises(ValueError, match="no place for figures"):
        write(tmp_path, ("api",))
    assert page.read_text() == "nothing here\n"


def test_better_and_worse_lie_on_two_sides_of_one():
    drawn = bars("t", [("better", 10.0), ("even", 1.0), ("worse", 0.1)])
    found = re.findall(r'<rect x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)"', drawn)
    better, even, worse = [(float(x), float(width)) for x, width in found]
    assert better[0] == even[0] > worse[0]
    assert better[1] == worse[1] > even[1] == 0.0


def test_what_is_run_quickly_is_run_at_all():
    assert QUICK.keys() <= BENCHES.keys()
