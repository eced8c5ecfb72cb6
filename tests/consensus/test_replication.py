"""What `prefix-match`, `ack-term`, `reset-order` and `snapshot-cap` prevent, message by message."""

import itertools
import random

import pytest

from coordinator.consensus import ConsensusConfig
from coordinator.consensus.library import SUCCESS, Member
from coordinator.consensus.node import CURES
from coordinator.consensus.replica import Replica
from coordinator.consensus.sealed import seal_snapshot
from tests.consensus.cluster import Register
from tests.consensus.lab import Lab, entry

FOUR = [entry(index, 1) for index in (2, 3, 4, 5)]


def acknowledged_follower(*without):
    """n1 has acknowledged the entries 2 to 5 of the leader n2."""
    lab = Lab(*without)
    lab.follow(entries=FOUR)
    (ack,) = lab.sent("n2", "next_node_idx")
    assert (ack["next_node_idx"], ack["success"]) == (6, True)
    return lab


# prefix-match


def test_a_late_resend_drops_no_acknowledged_entry():
    lab = acknowledged_follower()
    lab.follow(entries=FOUR[:2])
    assert lab.engine.last_index == 5
    (ack,) = lab.sent("n2", "next_node_idx")
    assert (ack["next_node_idx"], ack["success"]) == (4, True)  # what this message proved


def test_without_prefix_match_a_late_resend_drops_acknowledged_entries():
    lab = acknowledged_follower("prefix-match")
    lab.follow(entries=FOUR[:2])
    assert lab.engine.last_index == 3


def test_an_old_empty_append_drops_nothing_and_commits_no_further_than_it_proves():
    lab = acknowledged_follower()
    lab.follow(prev=(3, 1), commit=5)
    assert lab.engine.last_index == 5
    assert lab.engine.commit_index == 3


def test_a_real_conflict_still_cuts_the_log():
    lab = acknowledged_follower()
    lab.follow(term=2, leader="n3", entries=[FOUR[0], entry(3, 2)])
    assert lab.log() == [(1, 0), (2, 1), (3, 2)]


def test_a_conflict_below_the_commit_index_ends_the_node_instead_of_forking_it():
    lab = acknowledged_follower()
    lab.follow(prev=(5, 1), commit=5)
    lab.follow(term=2, leader="n3", entries=[entry(2, 2)])
    assert lab.engine.last_index == 5
    assert "conflicts below the commit index" in lab.replica.fatal


@pytest.mark.parametrize(("without", "expected"), [((), 9), (("prefix-match",), 5)])
def test_an_acknowledgement_rewinds_nothing_only_with_the_cure(without, expected):
    lab = Lab(*without)
    lab.lead()
    for _ in range(6):
        lab.propose()
    lab.step()
    assert lab.engine.next_index[Member("n2")] == 9
    lab.acknowledge("n2", 4)
    assert lab.match("n2") == 4
    assert lab.engine.next_index[Member("n2")] == expected


# ack-term


@pytest.mark.parametrize(("without", "commit"), [((), 2), (("ack-term",), 3)])
def test_an_acknowledgement_of_another_term_commits_nothing_only_with_the_cure(without, commit):
    lab = Lab(*without)
    term = lab.lead()
    lab.propose()
    lab.step()
    lab.acknowledge("n3", 3, term=term + 7)
    lab.step()
    assert lab.engine.commit_index == commit


@pytest.mark.parametrize(("without", "leads"), [((), False), (("ack-term",), True)])
def test_a_vote_that_comes_twice_counts_once_only_with_the_cure(without, leads):
    names = [f"n{number}" for number in range(1, 6)]
    replica = Replica(
        ConsensusConfig(name="n1", peers={name: f"{name}:1" for name in names}, api_url=""),
        Register(),
        [cure() for cure in CURES if cure.name not in {"quarantine", "pre-vote", *without}],
        rng=random.Random(1),
        clock=itertools.count(100.0, 1e-4).__next__,
    )
    for peer in names[1:]:
        replica.link_opened(peer)
    replica.engine.set_election_deadline(0.0)
    replica.step()
    vote = {"type": "response_vote", "term": replica.engine.term, "stamp": replica.engine.term}
    replica.receive("n2", vote)
    replica.receive("n2", vote)
    assert replica.engine.is_leader is leads
    replica.receive("n3", vote)
    assert replica.engine.is_leader


def test_every_message_carries_the_term_of_its_sender():
    lab = Lab()
    lab.lead()
    lab.propose()
    lab.step()
    messages = lab.sent()
    assert messages
    assert {message["stamp"] for message in messages} == {lab.engine.term}


# reset-order


def mismatches(*without):
    """The answers to two pipelined appends that both lie beyond the local log."""
    lab = acknowledged_follower(*without)
    lab.follow(prev=(5, 1), commit=3)  # 3 is committed here, 4 and 5 may still be cut
    lab.sent()
    lab.follow(term=2, leader="n3", prev=(5, 2))
    lab.follow(term=2, leader="n3", prev=(9, 2))
    return [message["next_node_idx"] for message in lab.sent("n3", "next_node_idx")]


def test_pipelined_mismatches_agree_on_the_entry_behind_the_commit_index():
    assert mismatches() == [4, 4]


def test_without_reset_order_pipelined_mismatches_contradict_each_other():
    assert mismatches("reset-order") == [5, 6]


# snapshot-cap


def uncommitted_tail(*without):
    """n1 holds 2 to 5 of a former leader, none of it committed; n3 leads the next term."""
    lab = acknowledged_follower(*without)
    lab.step()
    assert lab.engine.commit_index == 1
    return lab


def send_snapshot(lab, sealed, parts=3, term=2, commit=9):
    size = len(sealed) // parts + 1
    chunks = [sealed[at : at + size] for at in range(0, len(sealed), size)]
    for number, chunk in enumerate([*chunks, b""]):
        is_last = number == len(chunks)
        lab.hear(
            "n3",
            "append_entries",
            term=term,
            commit_index=commit,
            serialized=(chunk, number == 0, is_last),
            stamp=term,
        )


def acknowledgements(lab):
    """What n3 was told to count on; a sign of life is none."""
    return [message for message in lab.sent("n3", "next_node_idx") if message["success"]]


def snapshot(index, term, values='["snapshot"]'):
    return seal_snapshot((entry(index - 1, term), entry(index, term)), values.encode())


@pytest.mark.parametrize(("without", "commit"), [((), 1), (("snapshot-cap",), 5)])
def test_a_snapshot_that_is_not_installed_yet_commits_nothing_only_with_the_cure(without, commit):
    lab = uncommitted_tail(*without)
    lab.hear("n3", "append_entries", term=2, commit_index=9, serialized=None, stamp=2)
    assert lab.engine.commit_index == commit
    first = (b"x", True, False)
    lab.hear("n3", "append_entries", term=2, commit_index=9, serialized=first, stamp=2)
    assert lab.engine.commit_index == commit


def test_an_installed_snapshot_replaces_state_and_log_and_is_acknowledged():
    lab = uncommitted_tail()
    lab.sent()
    send_snapshot(lab, snapshot(8, 2))
    assert lab.machine.values == ["snapshot"]
    assert lab.log() == [(7, 2), (8, 2)]
    assert (lab.engine.commit_index, lab.engine.applied_index) == (8, 8)
    (ack,) = acknowledgements(lab)
    assert ack["next_node_idx"] == 9


@pytest.mark.parametrize(("without", "acks"), [((), 0), (("snapshot-cap",), 1)])
def test_a_corrupt_snapshot_is_never_acknowledged_only_with_the_cure(without, acks):
    lab = uncommitted_tail(*without)
    lab.sent()
    sealed = bytearray(snapshot(8, 2))
    sealed[-1] ^= 1
    send_snapshot(lab, bytes(sealed), commit=1)
    assert lab.machine.values == []
    assert lab.log()[-1] == (5, 1)
    assert len(acknowledgements(lab)) == acks


def test_a_snapshot_the_machine_cannot_restore_is_never_acknowledged(caplog):
    lab = uncommitted_tail()
    lab.sent()
    send_snapshot(lab, snapshot(8, 2, "not json"))
    assert [record.getMessage() for record in caplog.records] == [
        "snapshot_refused why='not restored'"
    ]
    assert lab.log()[-1] == (5, 1)
    assert lab.engine.applied_index == 1
    assert acknowledgements(lab) == []


def test_a_snapshot_of_what_is_held_keeps_the_entries_behind_it(caplog):
    lab = acknowledged_follower()
    send_snapshot(lab, snapshot(4, 1), term=1)
    assert caplog.records == []  # nothing is wrong, so nothing is said
    assert lab.log()[-1] == (5, 1)  # acknowledged, maybe committed with this node's word
    assert lab.engine.commit_index == 4
    ack = lab.sent("n3", "next_node_idx")[-1]
    assert (ack["next_node_idx"], ack["success"]) == (5, True)
    lab.step()
    assert lab.machine.values == ["x", "x", "x"]


def test_without_snapshot_cap_a_snapshot_of_what_is_held_drops_acknowledged_entries():
    lab = acknowledged_follower("snapshot-cap")
    send_snapshot(lab, snapshot(4, 1), term=1)
    assert lab.log()[-1] == (4, 1)


def compact(lab):
    for _ in range(4):
        lab.step()
    assert lab.engine.first_index > 2
    lab.sent()


def test_a_leader_sends_a_bounded_share_of_a_snapshot_in_one_step():
    lab = Lab(compaction_min_entries=4)
    lab.lead()
    lab.replica.snapshots.chunk_bytes = 4
    for _ in range(12):
        lab.propose(b"0123456789")
    lab.step()
    lab.acknowledge("n2")
    lab.step()
    assert [error for _, error in lab.answers] == [SUCCESS] * 12
    compact(lab)
    lab.acknowledge("n3", 1, reset=True, success=False)  # n3 has nothing
    shares = []
    for _ in range(30):
        lab.now += 0.03
        lab.step()
        shares.append([m for m in lab.sent("n3", "append_entries") if "serialized" in m])
    whole = b"".join(m["serialized"][0] for share in shares for m in share)
    assert max(map(len, shares)) <= 9
    assert sum(map(len, shares)) > 20
    assert whole[: len(lab.replica.snapshots._sealed)] == lab.replica.snapshots._sealed


@pytest.mark.parametrize(("without", "limit"), [((), 1), (("snapshot-cap",), 100)])
def test_a_snapshot_that_is_being_made_is_no_spin_only_with_the_cure(without, limit):
    lab = Lab(*without, compaction_min_entries=4)
    lab.lead()
    for _ in range(12):
        lab.propose()
    lab.step()
    lab.acknowledge("n2")
    compact(lab)
    lab.replica.snapshots._sealed = None  # as while the first one is being made
    lab.acknowledge("n3", 1, reset=True, success=False)
    lab.engine.replicate()
    empty = [m for m in lab.sent("n3", "append_entries") if "serialized" in m]
    assert len(empty) >= 1
    assert (len(empty) <= limit) is (limit == 1)


def grow(lab, count, *, rounds=4):
    """Commits entries with n2 alone, and lets the log be compacted."""
    for _ in range(count):
        lab.propose(b"0123456789")
    for _ in range(rounds):
        lab.step()
        lab.acknowledge("n2")


@pytest.mark.parametrize(("without", "follows"), [((), True), (("snapshot-cap",), False)])
def test_a_slow_receiver_can_go_on_from_the_snapshot_it_is_being_sent(without, follows):
    lab = Lab(*without, compaction_min_entries=10)
    lab.lead()
    grow(lab, 15)
    snapshots, member = lab.replica.snapshots, Member("n3")
    covered = snapshots.index
    snapshots.chunk_bytes = 8
    assert snapshots.getTransmissionData(member)[1]  # the first chunk is on its way
    grow(lab, 15)
    assert snapshots.index > covered  # a newer snapshot was made meanwhile
    assert (lab.engine.first_index == covered - 1) is follows


def test_a_receiver_that_is_too_slow_does_not_make_the_log_grow_without_end():
    lab = Lab(compaction_min_entries=10)
    lab.lead()
    grow(lab, 15)
    lab.replica.snapshots.chunk_bytes = 8
    lab.replica.snapshots.getTransmissionData(Member("n3"))
    for _ in range(20):
        grow(lab, 15)
        assert len(lab.engine.log) <= 4 * 10 + 2 * 15


def test_the_snapshot_a_receiver_gets_is_one_snapshot_from_its_first_chunk_to_its_last():
    lab = Lab(compaction_min_entries=10)
    lab.lead()
    grow(lab, 15)
    snapshots, member = lab.replica.snapshots, Member("n3")
    snapshots.chunk_bytes = 8
    sealed = snapshots._sealed
    parts = [snapshots.getTransmissionData(member)]
    grow(lab, 15)
    while not parts[-1][2]:
        parts.append(snapshots.getTransmissionData(member))
    assert b"".join(data for data, _, _ in parts) == sealed
    assert snapshots._sealed != sealed
