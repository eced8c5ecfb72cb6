"""The front doors are asked for the same, and what is absent is left out of the rows."""

import base64
import json

from bench.consensus import etcd, fronts
from bench.consensus.fronts import CONNECTIONS, DURABLE, PEER, Measured, best_of, rows_of

OWNERS = [(str(number), f"executor-{number % 8}") for number in range(fronts.POOL)]


def measured(figure):
    return Measured(figure, figure, figure, figure)


def found(*servers):
    return {(name, count): measured(2.0) for name in servers for count in CONNECTIONS}


def test_a_pin_names_the_executor_that_owns_the_shard_anyway():
    (requests, *_) = fronts.pins(OWNERS, 4)
    assert len(requests) == fronts.KEYS
    owners = dict(OWNERS)
    for request in requests:
        key = request.path.split("/")[-2]
        assert json.loads(request.body) == {"executor": owners[key]}


def test_a_put_carries_an_assignment_through_the_gateway():
    (requests, *_) = fronts.puts(4)
    assert len(requests) == fronts.KEYS
    body = json.loads(requests[0].body)
    assert base64.b64decode(body["key"]).startswith(b"/bench/shards/")
    assert json.loads(base64.b64decode(body["value"]))["owner"] == "executor-17"


def test_without_the_peer_there_are_our_figures_and_no_ratio():
    rows = rows_of(found(DURABLE, "ours"))
    assert {row.peer for row in rows} == {None}
    assert {row.ratio for row in rows} == {None}
    assert len({row.name for row in rows}) == len(rows) == 2 * len(CONNECTIONS) * 4


def test_beside_the_peer_more_writes_and_less_time_are_better(monkeypatch):
    monkeypatch.setattr(fronts, "peer_name", lambda: "peer")
    figures = found(DURABLE, "ours", PEER)
    figures[PEER, 1] = Measured(4.0, 1.0, 1.0, 1.0)
    ratios = {row.name: row.ratio for row in rows_of(figures)}
    assert ratios["http_writes_per_s_journal_1"] == 0.5
    assert ratios["http_write_latency_p50_journal_1"] == 0.5
    assert ratios["http_processor_time_memory_1"] == 0.5
    assert ratios["http_writes_per_s_journal_64"] == 1.0


def test_the_best_of_rounds_is_taken_figure_by_figure():
    one, other = Measured(1.0, 2.0, 3.0, 4.0), Measured(4.0, 3.0, 2.0, 1.0)
    assert best_of(one, other) == Measured(4.0, 2.0, 2.0, 1.0)


def test_the_peers_version_is_what_it_says():
    assert etcd.version_of("etcd Version: 3.4.23\nGit SHA: x") == "3.4.23"
    assert etcd.version_of("") == "of unknown version"
