"""The peers are asked for what they should be, and compared round by round."""

import math

from bench.peers.__main__ import BARS, rows_of
from bench.peers.driver import command, field, report, varint
from bench.rows import missed


def test_numbers_and_bytes_are_written_as_protobuf_has_them():
    assert varint(0) == b"\x00"
    assert varint(300) == b"\xac\x02"  # the example of its documentation
    assert field(1, 150) == b"\x08\x96\x01"
    assert field(2, b"testing") == b"\x12\x07testing"


def test_a_command_is_written_as_redis_reads_it():
    assert command("SET", "k", "vv") == b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n"


def test_a_report_has_as_many_loads_as_wanted_and_other_ones_each_time():
    assert len(report(100, 1)) == 100
    assert report(100, 1) != report(100, 2)


def test_ratios_are_taken_round_by_round():
    found = {"ours": [300.0, 100.0, 310.0], "etcd_http": [100.0, 30.0, 100.0]}
    (row,) = rows_of(found, {"etcd_http": "etcd x"})
    assert (row.value, row.peer_value, row.peer) == (300.0, 100.0, "etcd x")
    assert math.isclose(row.ratio or 0.0, 3.1)
    assert missed([row], BARS) == []


def test_without_a_peer_there_is_our_figure_alone():
    (row,) = rows_of({"ours": [300.0]}, {})
    assert row.ratio is None
