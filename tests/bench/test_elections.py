"""What nodes logged of their leaderships is read term by term."""

from bench.failover.elections import leaders_by_term, rivals


def test_two_leaders_of_one_term_are_told_and_one_that_led_twice_is_not(tmp_path):
    line = "2026-01-01 info coordinator.consensus leader_elected node={} term={}\n"
    (tmp_path / "n1.log").write_text(line.format("n1", 1) + "other\n" + line.format("n1", 3))
    (tmp_path / "n2.log").write_text(line.format("n2", 2))
    assert leaders_by_term(tmp_path, ["n1", "n2"]) == {1: {"n1"}, 2: {"n2"}, 3: {"n1"}}
    assert rivals(tmp_path, ["n1", "n2"]) == []
    (tmp_path / "n2.log").write_text(line.format("n2", 3))
    assert rivals(tmp_path, ["n1", "n2"]) == ["term 3 had 2 leaders: n1, n2"]
