"""Benches judge ratios the right way round, and an absent figure is a failure."""

import json
import math

from bench.rows import (
    Bar,
    Row,
    higher_is_better,
    lower_is_better,
    missed,
    percentile,
    publish,
)


def test_a_ratio_above_one_means_better_for_rates_and_durations_alike():
    assert higher_is_better("rate", 30.0, "1/s", "peer", 10.0).ratio == 3.0
    assert lower_is_better("time", 10.0, "ms", "peer", 30.0).ratio == 3.0


def test_a_bar_is_missed_by_less_by_nothing_and_by_what_cannot_be_told():
    rows = [Row("good", 1, "x", "p", 1, 10.0), Row("bad", 1, "x", "p", 1, 9.9)]
    rows.append(higher_is_better("odd", 1.0, "x", "p", 0.0))
    bars = [Bar("good", 10.0), Bar("bad", 10.0), Bar("absent", 1.0), Bar("odd", 1.0)]
    assert [fault.split(":")[0] for fault in missed(rows, bars)] == ["bad", "absent", "odd"]


def test_percentiles_are_values_that_occurred():
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert percentile([1.0], 0.99) == 1.0
    assert math.isnan(percentile([], 0.5))


def test_json_rows_have_the_promised_keys_and_the_summary_comes_last(capsys):
    publish([Row("one", 1.23456, "ms", "peer", 2.0, 3.0)], {"ok": True}, as_json=True)
    row, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert row == {
        "name": "one",
        "value": 1.235,
        "unit": "ms",
        "peer": "peer",
        "peer_value": 2.0,
        "ratio": 3.0,
    }
    assert summary == {"ok": True}
