"""The demo's verdict: good only when nothing was lost, and it says what was."""

import io

import pytest
from rich.console import Console

from bench.demo.__main__ import main
from bench.demo.ledger import Note, tenures_of
from bench.demo.lookups import Crash, Lookup, Outage
from bench.demo.scene import Balance, Scene, Share
from bench.demo.story import Findings
from bench.demo.summary import show, summarise
from bench.demo.view import frame
from client.views import ShardView

NOTES = [
    Note("start", 0.0, "executor-1", "1", "k", 1, 3.0),
    Note("lease", 10.0, "executor-1", "1", "", 0, 12.5),
    Note("start", 13.0, "executor-2", "1", "k", 2, 16.0),
    Note("start", 0.0, "executor-2", "1", "l", 3, 16.0),
    Note("lease", 30.0, "executor-2", "1", "", 0, 33.0),
]
LOOKUPS = [
    Lookup(5.0, 9.0, "k", "executor-1", 1, "table", 40),
    Lookup(20.0, 20.1, "k", "executor-2", 2, "http"),
    Lookup(21.0, 21.1, "l", "executor-2", 3, "http"),
]
WHY = "it was placed here when executor-1 was lost: its lease had run out"


def findings(**changes):
    found = Findings(
        before=Balance(spread=0.4, hottest=1.9, mean=1.0, best_possible=0.0),
        after=Balance(spread=0.03, hottest=1.04, mean=1.0, best_possible=0.01, static_hash=0.41),
        balancing_from=1.0,
        drain_from=5.0,
        drains_started=1,
        drains_completed=1,
        failover_s=0.2,
        crashes=[Crash("executor-1", 10.0, 3.0)],
        outages=[Outage(6.0, 6.2)],
        asked_at=20.0,
        inspected={"k": ShardView("k", "executor-2", epoch=2, why_here=WHY)},
    )
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def summary(found=None, notes=NOTES, lookups=LOOKUPS):
    return summarise(found or findings(), tenures_of(notes), list(lookups), 60.0)


def test_a_run_in_which_nothing_was_lost_is_good_and_has_every_promised_key():
    told = summary()
    assert told.faults == []
    assert told.ok
    assert (told.spread_before, told.spread_after, told.best_possible) == (0.4, 0.03, 0.01)
    assert (told.spread_hash, told.hottest_before, told.hottest_after) == (0.41, 1.9, 1.04)
    assert (told.lookups, told.lost_lookups, told.overlaps) == (42, 0, 0)
    assert (told.moves, told.moves_before_drain, told.moves_total) == (0, 0, 1)
    assert told.moves_after_leader_loss == 0
    assert (told.moves_explained, told.example_shard, told.example_why) == (1, "k", WHY)
    assert (told.drains_completed, told.failover_s, told.crash_recovery_s) == (1, 0.2, 3.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"drains_completed": 0}, "0 of 1 drains completed"),
        ({"drains_started": 0, "drains_completed": 0}, "0 of 0 drains completed"),
        ({"failover_s": None}, "the loss of the leader was not survived"),
        ({"crashes": []}, "the killed executor's shards were not all run again"),
        ({"inspected": {}}, "1 of 1 moves are not explained"),
        ({"inspected": {}}, "nothing says why k went from executor-1 to executor-2"),
    ],
)
def test_what_did_not_come_to_its_end_is_a_fault(changes, said):
    told = summary(findings(**changes))
    assert said in told.faults
    assert not told.ok


def test_a_run_that_ended_early_asked_nothing_and_complains_of_nothing_else():
    told = summary(findings(failover_s=None, asked_at=None, inspected={}))
    assert told.faults == ["the loss of the leader was not survived"]
    assert (told.moves_total, told.moves_explained) == (1, 0)


def test_a_lost_look_up_an_overlap_or_no_look_up_at_all_is_a_fault():
    lost = summary(lookups=[*LOOKUPS, Lookup(25.0, 25.1, "k", way="http", error="Unassigned")])
    assert "1 look-ups found no owner" in lost.faults
    early = [*NOTES[:2], Note("start", 12.0, "executor-2", "1", "k", 2, 16.0), *NOTES[3:]]
    overlapping = summary(notes=early)
    assert overlapping.overlaps == 1
    assert not overlapping.ok
    assert not summary(lookups=[]).ok


def test_people_see_before_and_after_and_every_fault():
    told = summary(findings(drains_completed=0))
    paper = io.StringIO()
    show(told, Console(file=paper, width=100))
    assert "0.40" in paper.getvalue()
    assert "0.03" in paper.getvalue()
    assert "explained 1 of 1 moves" in paper.getvalue()
    assert "executor-1 was lost" in " ".join(paper.getvalue().split())
    assert "FAULT: 0 of 1 drains completed" in paper.getvalue()


def test_the_picture_shows_every_executor_the_figures_and_what_happened():
    scene = Scene(60.0, phase="balancing", passed_s=20.0, moves=7, drain="host/host-1 draining")
    scene.nodes = {"n1": "leader", "n2": "follower"}
    scene.executors = {"executor-1": "active", "executor-2": "draining", "executor-3": "killed"}
    shares = [Share("executor-1", 8.0, 0.5, 30), Share("executor-2", 4.0, 0.25, 20)]
    scene.balance = Balance(executors=shares, hottest=0.5, mean=0.4, coldest=0.25, spread=0.2)
    scene.spreads.extend([0.4, 0.2])
    scene.tell("balancer on")
    paper = io.StringIO()
    Console(file=paper, width=100).print(frame(scene))
    seen = paper.getvalue()
    for text in ("executor-1", "50%", "30 shards", "killed", "n1 leader", "balancer on", "0.200"):
        assert text in seen


def test_a_time_that_is_too_short_is_refused_before_anything_starts(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench.demo", "--seconds", "5"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "between 40 and 3600" in capsys.readouterr().err
