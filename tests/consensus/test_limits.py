"""What `journal-floor`, `total-apply`, `bounded`, `once` and `membership-gate` prevent."""

import pytest

from coordinator.consensus import ENTRY_BYTES_MAX, ApplyFailed, Overloaded, TooLarge, UnknownEntry
from coordinator.consensus.cures.limits import APPEND_ENTRIES_MAX, APPENDS_PER_STEP_MAX
from coordinator.consensus.library import NOT_LEADER, SUCCESS, UNKNOWN_OUTCOME, Member
from coordinator.consensus.sealed import seal_snapshot
from tests.consensus.cluster import Register
from tests.consensus.lab import Lab, entry
from tests.consensus.test_replication import send_snapshot, snapshot

# journal-floor


@pytest.mark.parametrize(("without", "ends"), [((), False), (("journal-floor",), True)])
@pytest.mark.parametrize("cut", ["deleteEntriesTo", "deleteEntriesFrom"])
def test_a_cut_past_the_end_leaves_a_working_node_only_with_the_cure(without, ends, cut):
    lab = Lab(*without)
    lab.follow(entries=[entry(2, 1), entry(3, 1)])
    getattr(lab.engine.log, cut)(0 if cut == "deleteEntriesFrom" else 99)
    if ends:
        assert len(lab.engine.log) == 0
        lab.pass_s(2.0)
        assert "tick fails" in lab.replica.fatal
    else:
        assert len(lab.engine.log) >= 1
        lab.step()
        assert lab.replica.fatal is None


def test_a_log_knows_its_size_whatever_is_cut():
    lab = Lab()
    log = lab.engine.log
    before = log.size_bytes
    lab.follow(entries=[entry(index, 1, b"12345") for index in range(2, 12)])
    assert log.size_bytes == before + 60
    log.deleteEntriesFrom(6)
    assert log.size_bytes == before + 30
    log.deleteEntriesTo(3)
    assert log.size_bytes == 18
    log.clear()
    assert log.size_bytes == 0


# total-apply


class Poisoned(Register):
    def apply(self, index, payload):
        if payload == b"poison":
            raise ZeroDivisionError("poison")
        return super().apply(index, payload)


def with_poison(*without):
    lab = Lab(*without, machine=Poisoned())
    lab.lead()
    for payload in (b"before", b"poison", b"after"):
        lab.propose(payload)
    lab.step()
    lab.acknowledge("n2")
    for _ in range(4):
        lab.step()
    return lab


def test_an_entry_the_machine_raises_on_is_answered_with_a_value_and_the_next_is_applied():
    lab = with_poison()
    assert lab.machine.values == ["before", "after"]
    failed = ApplyFailed(4, "ZeroDivisionError: poison")
    assert lab.answers == [(1, SUCCESS), (failed, SUCCESS), (2, SUCCESS)]
    assert lab.replica.fatal is None


def test_without_total_apply_one_entry_stops_the_node_and_it_says_so():
    lab = with_poison("total-apply")
    assert lab.machine.values == ["before"]
    assert "tick fails" in lab.replica.fatal


# bounded


@pytest.mark.parametrize(("without", "refused"), [((), True), (("bounded",), False)])
def test_a_payload_above_the_limit_is_refused_only_with_the_cure(without, refused):
    lab = Lab(*without)
    lab.lead()
    lab.propose(b"x" * ENTRY_BYTES_MAX)
    if refused:
        with pytest.raises(TooLarge):
            lab.propose(b"x" * (ENTRY_BYTES_MAX + 1))
    else:
        lab.propose(b"x" * (ENTRY_BYTES_MAX + 1))


@pytest.mark.parametrize(("without", "refused"), [((), True), (("bounded",), False)])
def test_one_proposal_too_many_is_refused_only_with_the_cure(without, refused):
    lab = Lab(*without)
    lab.lead()
    lab.replica.propose(b"x", print, 19_999)
    if refused:
        with pytest.raises(Overloaded):
            lab.replica.propose(b"x", print, 20_000)
    else:
        lab.replica.propose(b"x", print, 20_000)


@pytest.mark.parametrize(("without", "refused"), [((), True), (("bounded",), False)])
def test_a_log_that_nobody_acknowledges_stops_growing_only_with_the_cure(without, refused):
    lab = Lab(*without)
    lab.lead()
    lab.engine.log.size_bytes = (256 << 20) + 1
    if refused:
        with pytest.raises(Overloaded):
            lab.propose()
    else:
        lab.propose()


def test_the_largest_entries_are_never_split():
    lab = Lab()
    lab.lead()
    for _ in range(4):
        lab.propose(b"x" * ENTRY_BYTES_MAX)
    lab.step()
    appends = lab.sent("n3", "append_entries")
    assert [len(m["entries"]) for m in appends] == [2, 2]
    assert not any("transmission" in m for m in appends)


@pytest.mark.parametrize(("without", "sent"), [((), False), (("bounded",), True)])
def test_a_peer_that_does_not_read_is_sent_nothing_more_only_with_the_cure(without, sent):
    lab = Lab(*without)
    lab.lead()
    lab.replica.is_congested = lambda peer: peer == "n3"
    lab.propose()
    lab.step()
    assert len(lab.sent("n2", "append_entries")) == 1
    lab.propose()
    lab.step()
    assert bool(lab.sent("n3", "append_entries")) is sent
    lab.replica.is_congested = lambda _peer: False
    lab.pass_s(0.15)
    assert lab.sent("n3", "append_entries")
    assert Member("n3") in lab.engine.connected


def far_behind(*without, entries):
    """A leader, a follower that has all, and n3 that lacks so many entries."""
    lab = Lab(*without)
    lab.lead()
    lab.replica.link_shut("n3")
    first = lab.engine.last_index
    for _ in range(entries - 1):
        lab.propose()
    lab.step()
    lab.sent()
    lab.replica.link_opened("n3")
    lab.acknowledge("n3", first, reset=True, success=False)
    lab.propose()
    return lab


@pytest.mark.parametrize("without", [(), ("bounded",)])
def test_a_backlog_is_sent_in_shares_of_a_step_only_with_the_cure(without):
    total = 2 * APPENDS_PER_STEP_MAX * APPEND_ENTRIES_MAX + 1
    lab = far_behind(*without, entries=total)
    shares = []
    while not shares or lab.replica.owes_appends:
        lab.step()
        shares.append([len(m["entries"]) for m in lab.sent("n3", "append_entries")])
        assert Member("n3") in lab.engine.connected
    sizes = [size for share in shares for size in share]
    if without:
        assert len(shares) == 1
        assert max(sizes) > APPEND_ENTRIES_MAX
    else:
        full = [APPEND_ENTRIES_MAX] * APPENDS_PER_STEP_MAX
        assert shares == [full, full, [1]]
    assert sum(sizes) == total


def test_who_is_sent_shares_and_loses_its_link_is_not_connected_by_the_end_of_the_step():
    lab = far_behind(entries=2 * APPENDS_PER_STEP_MAX * APPEND_ENTRIES_MAX)
    lab.step()
    assert lab.replica.owes_appends
    lab.replica.link_shut("n3")
    lab.step()
    assert not lab.replica.owes_appends
    assert Member("n3") not in lab.engine.connected


# once


def deposed_with_a_queue(*without):
    """A proposal is queued here when another leader appears."""
    lab = Lab(*without)
    term = lab.lead()
    lab.propose()
    lab.follow(term=term + 1, leader="n3", prev=(2, term), entries=[entry(3, term + 1)])
    lab.step()
    return lab


def test_a_proposal_that_was_queued_when_the_leadership_went_is_refused_not_forwarded():
    lab = deposed_with_a_queue()
    assert lab.answers == [(None, NOT_LEADER)]
    assert lab.sent("n3", "apply_command") == []


def test_without_once_a_queued_proposal_is_forwarded_and_may_never_be_answered():
    lab = deposed_with_a_queue("once")
    assert lab.answers == []
    assert len(lab.sent("n3", "apply_command")) == 1


@pytest.mark.parametrize(("without", "appended"), [((), False), (("once",), True)])
def test_nobody_appends_through_another_node_only_with_the_cure(without, appended):
    lab = Lab(*without)
    lab.lead()
    lab.hear("n2", "apply_command", command=b"\0x")
    lab.step()
    assert (lab.engine.last_index == 3) is appended


@pytest.mark.parametrize(("without", "answers"), [((), [(None, UNKNOWN_OUTCOME)]), (("once",), [])])
def test_a_proposal_that_a_snapshot_covers_is_answered_only_with_the_cure(without, answers):
    lab = Lab(*without)
    term = lab.lead()
    lab.propose()
    lab.step()
    send_snapshot(lab, snapshot(8, term + 1), term=term + 1)
    lab.step()
    assert lab.engine.applied_index == 8
    assert lab.answers == answers


# membership-gate


@pytest.mark.parametrize(
    ("without", "members"),
    [((), {"n2", "n3"}), (("membership-gate",), {"n2", "n3", "n4"})],
)
def test_no_entry_changes_the_members_only_with_the_cure(without, members):
    lab = Lab(*without)
    lab.follow(
        term=9, leader="n2", prev=(1, 0), entries=[(b"\2\x93\xa3add\xa2n4\xa2n4", 2, 9)], commit=2
    )
    lab.step()
    assert {node.id for node in lab.engine.otherNodes} == members
    assert lab.machine.values == []


def test_no_peer_asks_a_leader_to_change_the_members():
    lab = Lab()
    lab.lead()
    lab.hear("n2", "apply_command", command=b"\2" + b"\x93\xa3add\xa2n4\xa2n4")
    lab.step()
    assert {node.id for node in lab.engine.otherNodes} == {"n2", "n3"}


class Older:
    """A state machine that does not read every entry."""

    def __init__(self):
        self.values = []

    def apply(self, _index, payload):
        if payload == b"new":
            raise UnknownEntry("format 2")
        self.values.append(payload)

    def snapshot(self):
        return b""

    def restore(self, _data):
        raise AssertionError


class Sliced:
    """The same for snapshots."""

    def apply(self, _index, _payload):
        raise AssertionError

    def parts(self):
        return iter(())

    def prepare(self, parts):
        yield from ()
        raise UnknownEntry(f"format {len([*parts]) + 1}")


def test_a_node_ends_at_an_entry_that_it_does_not_read_and_never_steps_over_it():
    lab = Lab(machine=Older())
    lab.follow(entries=[entry(2, 1, b"a"), entry(3, 1, b"new"), entry(4, 1, b"b")], commit=4)
    lab.step()
    assert lab.replica.fatal == "entry 3 cannot be read: format 2"
    lab.step()
    assert lab.machine.values == [b"a"]
    assert lab.engine.applied_index == 2


def test_a_node_ends_at_a_snapshot_that_it_does_not_read():
    lab = Lab(machine=Sliced())
    store = lab.replica.snapshots
    sealed = seal_snapshot((entry(4, 1), entry(5, 1)), b"x")
    store.setTransmissionData((sealed, True, False))
    store.setTransmissionData((b"", False, True))
    store.read_slice()
    assert lab.replica.fatal == "a snapshot cannot be read: format 2"
    assert not store.is_whole
