"""Large states: snapshots are made and read in slices, and no step takes the whole of anything."""

import pytest

from coordinator.consensus.codec import Malformed
from coordinator.consensus.library import SUCCESS, Member
from coordinator.consensus.sealed import PART_BYTES_MAX, Opener, Sealer
from coordinator.consensus.snapshots import SLICE_EVERY_S
from tests.consensus.lab import Lab, entry
from tests.consensus.test_replication import acknowledgements, send_snapshot

COVERED = (entry(7, 2), entry(8, 2))


class Slow:
    """A machine that writes and reads one value a slice."""

    def __init__(self):
        self.values = []
        self.made = self.read = 0

    def apply(self, _index, payload):
        self.values.append(payload.decode())
        return len(self.values)

    def parts(self):
        return self._parts(tuple(self.values))

    def _parts(self, values):
        for value in values:
            self.made += 1
            yield value.encode()

    def prepare(self, parts):
        values = []
        for part in parts:
            if part == b"poison":
                raise ValueError(part)
            values.append(part.decode())
            self.read += 1
            yield
        return lambda: setattr(self, "values", values)


def sealed(*values):
    sealer = Sealer(COVERED)
    for value in values:
        sealer.add(value.encode())
    sealer.close()
    return bytes(sealer.sealed)


def a_slice_later(lab):
    lab.now += SLICE_EVERY_S * 1.5
    lab.step()


def leader(count):
    """Leads, and has applied so many entries that a snapshot is due."""
    lab = Lab(machine=Slow(), compaction_min_entries=count + 2)
    lab.lead()
    commit(lab, *[f"value {number}" for number in range(count)])
    commit(lab, "one too many")
    return lab


def commit(lab, *values):
    lab.answers.clear()
    for value in values:
        lab.propose(value.encode())
    lab.step()
    lab.acknowledge("n2")
    lab.step()
    assert [error for _, error in lab.answers] == [SUCCESS] * len(values)


# Making


def test_the_log_is_cut_only_when_the_last_slice_is_made():
    lab = leader(12)
    store = lab.replica.snapshots
    assert store.is_making
    while store.is_making:
        assert lab.engine.first_index == 1
        assert store.size_bytes == 0
        before = lab.machine.made
        a_slice_later(lab)
        assert lab.machine.made <= before + 1
    assert lab.engine.first_index == store.index - 1
    assert store.size_bytes > 0


def test_slices_wait_for_their_turn():
    lab = leader(12)
    made = lab.machine.made
    for _ in range(20):
        lab.step()  # no time goes by
    assert lab.machine.made <= made + 1


def test_a_snapshot_holds_what_was_there_when_it_was_begun():
    lab = leader(12)
    store = lab.replica.snapshots
    begun_at = lab.engine.applied_index - 1
    while store.is_making:
        commit(lab, "later")
        lab.now += SLICE_EVERY_S
    opener = Opener()
    opener.feed(bytes(store._sealed))
    assert [*opener.parts()] == [f"value {number}".encode() for number in range(12)]
    assert opener.covered()[1][1] == store.index == begun_at
    assert lab.machine.values[-1] == "later"


def test_a_log_that_is_too_large_is_compacted_once_not_again_and_again():
    lab = Lab(machine=Slow(), compaction_min_bytes=100)
    lab.lead()
    commit(lab, *["x" * 50] * 4)
    while lab.replica.snapshots.is_making:
        a_slice_later(lab)
    made = lab.machine.made
    for _ in range(10):
        a_slice_later(lab)
    assert lab.machine.made == made == 4


def test_the_log_stays_until_a_receiver_has_read_what_it_was_sent():
    lab = leader(12)
    store, peer = lab.replica.snapshots, Member("n3")
    while store.is_making:
        a_slice_later(lab)
    covered = store.index
    while not store.getTransmissionData(peer)[2]:
        pass
    assert not store.is_sending
    commit(lab, *["more"] * 14)
    while store.is_making:
        a_slice_later(lab)
    assert store.index > covered
    assert lab.engine.first_index == covered - 1
    lab.acknowledge("n3", covered)
    assert store.sending_from() is None


def test_a_deposed_leader_keeps_no_log_for_receivers():
    lab = leader(12)
    store = lab.replica.snapshots
    while store.is_making:
        a_slice_later(lab)
    store.getTransmissionData(Member("n3"))
    assert store.sending_from() is not None
    lab.follow(term=9, leader="n2", prev=(lab.engine.last_index, lab.engine.last_term))
    lab.step()
    assert store.sending_from() is None


# Reading


def receiver(*values):
    """A follower of n3 that has just received the last chunk of a snapshot up to index 8."""
    lab = Lab(machine=Slow())
    lab.follow(term=2, leader="n3")
    lab.sent()
    send_snapshot(lab, sealed(*values))
    return lab


def heartbeat(lab, leader="n3", term=2, last=8):
    lab.follow(term=term, leader=leader, prev=(last, 2), commit=last)


VALUES = [f"value {number}" for number in range(6)]


def test_a_snapshot_is_read_one_slice_at_a_time_and_installed_by_the_next_append():
    lab = receiver(*VALUES)
    while not lab.replica.snapshots.is_read:
        before = lab.machine.read
        a_slice_later(lab)
        assert lab.machine.read <= before + 1
        assert lab.machine.values == []
    assert acknowledgements(lab) == []
    heartbeat(lab)
    assert lab.machine.values == VALUES
    assert lab.log() == [(7, 2), (8, 2)]
    assert (lab.engine.commit_index, lab.engine.applied_index) == (8, 8)
    assert [ack["next_node_idx"] for ack in acknowledgements(lab)] == [9]


def test_while_it_reads_a_node_is_there_but_agrees_to_nothing_and_contradicts_nothing():
    lab = receiver(*VALUES)
    lab.sent()
    for _ in range(3):
        lab.now += 0.4
        heartbeat(lab)
    told = lab.sent("n3", "next_node_idx")
    assert [(m["success"], m["reset"]) for m in told] == [(False, False)] * 3
    assert lab.engine.election_deadline_s > lab.now + 0.4
    assert lab.engine.commit_index == 1
    assert lab.replica.leader == "n3"


def test_every_chunk_is_answered_with_a_sign_of_life():
    lab = Lab(machine=Slow())
    lab.follow(term=2, leader="n3")
    lab.sent()
    send_snapshot(lab, sealed(*VALUES), parts=4)
    told = lab.sent("n3", "next_node_idx")
    assert [(m["success"], m["reset"]) for m in told] == [(False, False)] * 5


def test_a_new_leader_has_installed_what_the_former_sent():
    lab = receiver(*VALUES)
    heartbeat(lab, leader="n2", term=5)
    while not lab.replica.snapshots.is_read:
        a_slice_later(lab)
    heartbeat(lab, leader="n2", term=5)
    assert lab.machine.values == VALUES
    (ack,) = [m for m in lab.sent("n2", "next_node_idx") if m["success"]]
    assert ack["next_node_idx"] == 9


def test_the_words_of_a_leader_that_is_over_install_nothing():
    lab = receiver(*VALUES)
    heartbeat(lab, leader="n2", term=5)
    while not lab.replica.snapshots.is_read:
        a_slice_later(lab)
    heartbeat(lab, leader="n3", term=2)
    assert lab.machine.values == []


def test_a_snapshot_that_cannot_be_read_to_its_end_is_gone_and_asked_for_again(caplog):
    lab = receiver(*VALUES[:3], "poison", *VALUES)
    while lab.replica.snapshots.is_reading:
        a_slice_later(lab)
    assert not lab.replica.snapshots.is_whole
    assert [r.getMessage() for r in caplog.records] == ["snapshot_refused why='not restored'"]
    lab.sent()
    heartbeat(lab)
    (answer,) = lab.sent("n3", "next_node_idx")
    assert (answer["success"], answer["reset"]) == (False, True)
    assert lab.machine.values == []


def test_a_large_snapshot_of_what_is_held_already_is_not_even_read():
    lab = Lab(machine=Slow())
    entries = [entry(index, 2) for index in range(2, 9)]
    lab.follow(term=2, leader="n3", entries=entries)
    send_snapshot(lab, sealed(*VALUES))  # covers 8, which is here by now
    assert lab.engine.commit_index == 8
    lab.step()
    assert lab.machine.values == ["x"] * 7
    assert lab.machine.read == 0


def test_an_own_snapshot_that_is_being_made_ends_with_the_installation_of_another():
    lab = Lab(machine=Slow(), compaction_min_entries=4)
    entries = [entry(index, 2) for index in range(2, 7)]
    lab.follow(term=2, leader="n3", entries=entries, commit=6)
    lab.step()
    assert lab.replica.snapshots.is_making
    send_snapshot(lab, sealed("one"))
    while not lab.replica.snapshots.is_read:
        a_slice_later(lab)
    heartbeat(lab)
    assert not lab.replica.snapshots.is_making
    assert lab.log() == [(7, 2), (8, 2)]


# Sealed bytes


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_sealed_bytes_open_however_they_are_cut(size):
    data = sealed(*VALUES)
    opener = Opener()
    for at in range(0, len(data), size):
        opener.feed(data[at : at + size])
    assert opener.covered() == COVERED
    assert [*opener.parts()] == [value.encode() for value in VALUES]


def test_a_part_beyond_the_limit_is_neither_written_nor_read():
    with pytest.raises(ValueError, match="at most"):
        Sealer(COVERED).add(b"x" * (PART_BYTES_MAX + 1))
    with pytest.raises(Malformed):
        Opener().feed((PART_BYTES_MAX + 1).to_bytes(4, "little"))


def test_a_part_that_swells_beyond_the_limit_is_refused(monkeypatch):
    data = sealed("x" * 5000)
    opener = Opener()
    opener.feed(data)
    monkeypatch.setattr("coordinator.consensus.sealed.PART_BYTES_MAX", 4999)
    with pytest.raises(Malformed):
        next(opener.parts())


def test_what_follows_the_end_of_a_snapshot_is_refused():
    opener = Opener()
    with pytest.raises(Malformed):
        opener.feed(sealed("one") + b"more")


# Applying


class Busy(Slow):
    """A machine whose entries take a millisecond each."""

    lab = None

    def apply(self, index, payload):
        self.lab.now += 0.001
        return super().apply(index, payload)


def test_a_backlog_is_applied_over_many_steps_and_in_order():
    machine = Busy()
    lab = machine.lab = Lab(machine=machine)
    lab.follow(term=2, leader="n3", entries=[entry(i, 2, b"%d" % i) for i in range(2, 1002)])
    lab.follow(term=2, leader="n3", prev=(1001, 2), commit=1001)
    steps = 0
    while lab.engine.is_behind:
        before = len(machine.values)
        lab.step()
        steps += 1
        assert 0 < len(machine.values) - before <= 100
    assert steps > 9
    assert machine.values == [str(index) for index in range(2, 1002)]
    assert lab.engine.applied_index == lab.engine.commit_index == 1001


def test_large_entries_are_looked_at_one_by_one():
    machine = Busy()
    lab = machine.lab = Lab(machine=machine)
    entries = [entry(index, 2, b"x" * 100_000) for index in range(2, 22)]
    lab.follow(term=2, leader="n3", entries=entries)
    lab.follow(term=2, leader="n3", prev=(21, 2), commit=21)
    lab.step()
    assert 10 <= len(machine.values) < 20


def test_the_steps_of_one_turn_together_apply_no_more_than_one_of_them_may():
    machine = Busy()
    lab = machine.lab = Lab(machine=machine)
    turns = []
    lab.engine.next_turn = turns.append
    lab.follow(term=2, leader="n3", entries=[entry(i, 2, b"%d" % i) for i in range(2, 502)])
    lab.follow(term=2, leader="n3", prev=(501, 2), commit=501)
    while lab.engine.is_behind:
        lab.step()
        applied = len(machine.values)
        lab.step()
        assert len(machine.values) == applied or not lab.engine.is_behind
        for go_on in turns:
            go_on()
        turns.clear()
    assert machine.values == [str(index) for index in range(2, 502)]


def test_the_steps_of_one_turn_together_take_one_slice_however_long_they_last():
    lab = receiver(*VALUES)
    turns = []
    lab.replica.snapshots.next_turn = turns.append
    while not lab.replica.snapshots.is_read:
        before = lab.machine.read
        for _ in range(3):
            a_slice_later(lab)
        assert lab.machine.read <= before + 1
        for go_on in turns:
            go_on()
        turns.clear()
    heartbeat(lab)
    assert lab.machine.values == VALUES
