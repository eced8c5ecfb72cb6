"""`durable`: what a step changed is safe before anything of it is said, and a new life goes on."""

import pytest

from coordinator.consensus import ConsensusError, NotLeader, OutcomeUnknown
from coordinator.consensus.cures.durable import Durable
from coordinator.consensus.disk import JournalRefused
from coordinator.consensus.journal import CHUNK_BYTES, CUTS_PER_STEP_MAX, Journal
from tests.consensus.cluster import Cluster, cluster
from tests.consensus.lab import Lab, entry
from tests.sim.disk import Fault, PowerCut, SimDisk


def asked_for_a_vote(lab, peer="n2", term=5):
    lab.hear(peer, "request_vote", term=term, last_log_index=9, last_log_term=4, stamp=term)


def votes(lab):
    lab.step()
    return [message["term"] for message in lab.sent(kind="response_vote")]


def kept(disk):
    return [(index, term) for _, index, term in disk.load().entries]


# -- before anything leaves ----------------------------------------------------------------------


def test_a_vote_is_safe_before_it_leaves():
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    lab.step()
    asked_for_a_vote(lab)
    assert disk.promise == (0, None)
    assert votes(lab) == [5]
    assert disk.promise == (5, "n2")


def test_a_new_life_gives_no_second_vote_in_a_term():
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    asked_for_a_vote(lab)
    assert votes(lab) == [5]
    again = Lab(disk=disk)
    asked_for_a_vote(again, "n3")
    assert votes(again) == []


def test_without_durable_a_new_life_votes_twice():
    disk = SimDisk("n1")
    lab = Lab("durable", disk=disk)
    asked_for_a_vote(lab)
    assert votes(lab) == [5]
    again = Lab("durable", disk=disk)
    asked_for_a_vote(again, "n3")
    assert votes(again) == [5]


def test_what_was_acknowledged_is_there_in_the_next_life():
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    lab.follow(term=3, entries=[entry(2, 3), entry(3, 3)])
    lab.step()
    (ack,) = lab.sent("n2", "next_node_idx")
    assert (ack["success"], ack["next_node_idx"]) == (True, 4)
    again = Lab(disk=disk)
    assert again.log() == lab.log() == [(1, 0), (2, 3), (3, 3)]
    assert (again.engine.term, again.engine.commit_index) == (3, 1)


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.CUT_AFTER])
def test_a_crash_within_the_step_says_nothing(fault):
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    lab.step()
    lab.sent()
    disk.arm(fault)
    lab.follow(term=3, entries=[entry(2, 3)])
    with pytest.raises(PowerCut):
        lab.step()
    again = Lab(disk=disk)
    assert again.log() == ([(1, 0)] if fault is Fault.CUT_BEFORE else [(1, 0), (2, 3)])


def test_a_conflict_cuts_the_end_on_disk_as_well():
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    lab.follow(term=3, entries=[entry(2, 3), entry(3, 3), entry(4, 3)])
    lab.step()
    lab.follow(term=4, leader="n3", entries=[entry(3, 4)], prev=(2, 3))
    lab.step()
    assert kept(disk) == lab.log() == [(1, 0), (2, 3), (3, 4)]


def test_a_leaders_entries_leave_while_its_disk_works_and_nothing_else_does():
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    lab.lead()
    early = []

    def leave(outbox):
        early.append((len(disk.entries), sorted(outbox)))

    lab.replica.send_early = leave
    held = len(disk.entries)
    lab.propose(b"x")
    lab.step()
    assert early == [(held, ["n2", "n3"])]  # before they were safe here
    assert len(disk.entries) == held + 1  # and they are now
    lab.propose(b"y")
    lab.replica.send("n2", {"type": "probe_ack", "id": 1, "term": lab.engine.term})
    lab.step()
    assert early[1][1] == ["n3"]  # what has other words to say waits as a whole
    assert {message["type"] for message in lab.sent("n2")} == {"probe_ack", "append_entries"}


def test_a_leader_counts_itself_only_for_what_is_safe_here():
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    lab.lead()
    lab.replica.send_early = lambda _outbox: None
    committed = lab.engine.commit_index
    disk.is_full = True
    lab.propose(b"x")
    lab.step()
    lab.acknowledge("n2")  # it arrived there, early
    lab.pass_s(0.3)
    assert lab.engine.commit_index == committed
    assert lab.answers == []


def test_no_vote_and_no_word_of_a_new_term_leaves_early():
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    early = []
    lab.replica.send_early = early.append
    lab.step()
    asked_for_a_vote(lab)
    assert votes(lab) == [5]
    lab.follow(term=6, entries=[entry(2, 6)])
    lab.step()
    assert lab.sent("n2", "next_node_idx")
    assert [outbox for outbox in early if outbox] == []


# -- a new life ----------------------------------------------------------------------------------


def led(disk, count=30, **settings):
    """A life that led, wrote and compacted."""
    lab = Lab(disk=disk, **settings)
    lab.lead()
    for number in range(count):
        lab.propose(f"v{number}".encode())
        lab.step()
        lab.acknowledge("n2")
        lab.step()
    return lab


def test_state_comes_from_the_snapshot_and_the_rest_from_the_log():
    disk = SimDisk("n1")
    lab = led(disk, compaction_min_entries=10)
    covered = lab.replica.snapshots.index
    assert covered > 10
    assert lab.log()[0][0] < covered
    again = Lab(disk=disk)
    assert again.engine.applied_index == again.engine.commit_index == covered
    assert again.machine.values == lab.machine.values[: len(again.machine.values)]
    assert len(again.machine.values) > 5
    assert again.log()[-1] == lab.log()[-1]
    again.lead()
    assert again.machine.values == lab.machine.values


def test_a_life_of_its_own_goes_on_with_snapshots_and_cuts():
    disk = SimDisk("n1")
    for life in range(4):
        lab = led(disk, compaction_min_entries=10)
        assert len(lab.machine.values) == 30 * (life + 1)
        assert len(disk.entries) < 40
        assert len({of for of, _ in disk.chunks}) <= 2


def test_an_installed_snapshot_is_safe_before_it_is_acknowledged():
    disk = SimDisk("n1")
    giver = led(SimDisk("n2"), compaction_min_entries=10)
    sealed = bytes(giver.replica.snapshots._sealed)
    lab = Lab(disk=disk)
    lab.follow(term=1)
    lab.step()
    lab.sent()
    for data, is_first, is_last in ((sealed, True, False), (b"", False, True)):
        lab.hear(
            "n2",
            "append_entries",
            term=1,
            commit_index=1,
            serialized=(data, is_first, is_last),
            stamp=1,
        )
    for _ in range(20):
        lab.now += 0.03
        before = disk.snapshot
        lab.step()
        if acks := [a for a in lab.sent("n2", "next_node_idx") if a["success"]]:
            break
        assert before is None or acks
    assert disk.snapshot is not None
    again = Lab(disk=disk)
    assert again.machine.values == lab.machine.values
    assert again.machine.values
    assert again.engine.applied_index == lab.engine.applied_index
    assert again.log() == lab.log()
    assert len(again.log()) == 2


def test_a_large_snapshot_goes_to_disk_in_shares_and_cuts_the_log_only_then():
    disk = SimDisk("n1")
    journal = Journal(disk, disk.load())
    for index in range(1, 20):
        journal.add(b"\0", index, 1)
    journal.shelf.put(b"x" * (CHUNK_BYTES * 10), 15, at_once=False)
    steps = 0
    while journal.shelf.is_busy:
        assert disk.snapshot is None
        journal.sync()
        steps += 1
    assert steps == 3
    assert disk.load().snapshot == b"x" * (CHUNK_BYTES * 10)
    journal.shelf.put(b"y", 18, at_once=False)
    while journal.is_behind:
        journal.sync()
    assert disk.chunks == {(18, 0): b"y"}


def test_a_long_cut_goes_to_disk_in_shares():
    disk = SimDisk("n1")
    journal = Journal(disk, disk.load())
    count = 3 * CUTS_PER_STEP_MAX
    for index in range(1, count + 1):
        journal.add(b"\0", index, 1)
    journal.sync()
    journal.keep_tail = 2
    journal.deleteEntriesTo(count - 10)
    seen = []
    while journal.is_behind:
        journal.sync()
        seen.append(len(disk.entries))
    assert seen == [count - CUTS_PER_STEP_MAX, count - 2 * CUTS_PER_STEP_MAX, 10]


# -- quarantine ----------------------------------------------------------------------------------


def test_a_journal_that_was_admitted_needs_no_quarantine_and_an_empty_one_does():
    disk = SimDisk("n1")
    lab = Lab(disk=disk, admitted=False)
    assert lab.replica.is_quarantined
    lab.step()
    (asked, *_) = lab.sent("n2", "rejoin")
    found(lab, asked["nonce"])
    assert not lab.replica.is_quarantined
    lab.step()
    again = Lab(disk=disk, admitted=False, seed=2)
    assert not again.replica.is_quarantined
    disk.wipe()
    assert Lab(disk=disk, admitted=False, seed=3).replica.is_quarantined


def found(lab, nonce):
    nonces = {"n1": nonce, "n2": "a" * 16, "n3": "b" * 16}
    lab.hear("n2", "proceed", nonces=nonces, stamp=0)


def test_a_founding_that_was_cut_short_goes_on_in_the_next_life_of_all():
    disk = SimDisk("n1")
    lab = Lab(disk=disk, admitted=False)
    lab.step()
    (asked, *_) = lab.sent("n2", "rejoin")
    # n2 counted this start among the founders; then all were killed, and this one did not know.
    again = Lab(disk=disk, admitted=False, seed=2)
    again.step()
    (asked_again, *_) = again.sent("n2", "rejoin")
    assert asked_again["nonce"] == asked["nonce"]
    found(again, asked["nonce"])
    assert not again.replica.is_quarantined


def test_a_founder_passes_the_set_on_in_its_next_life():
    disk = SimDisk("n1")
    lab = Lab(disk=disk, admitted=False)
    lab.step()
    (asked, *_) = lab.sent("n2", "rejoin")
    found(lab, asked["nonce"])
    lab.step()
    again = Lab(disk=disk, admitted=False, seed=2)
    again.hear("n3", "rejoin", nonce="b" * 16, views={}, stamp=0)
    again.step()
    (passed,) = again.sent("n3", "proceed")
    assert passed["nonces"]["n1"] == asked["nonce"]


def test_a_journal_that_was_still_waiting_waits_again():
    disk = SimDisk("n1")
    lab = Lab(disk=disk, admitted=False)
    for peer in ("n2", "n3"):
        lab.hear(
            peer,
            "rejoin_ack",
            nonce=lab.replica.engine.log.notes["nonce"],
            own=peer * 8,
            term=7,
            fresh=False,
            admitted=True,
            views={},
            stamp=7,
        )
    lab.follow(term=7, entries=[entry(2, 7)])
    lab.step()
    assert disk.promise[0] == 7
    again = Lab(disk=disk, admitted=False, seed=2)
    assert again.replica.is_quarantined
    assert (again.engine.term, again.log()) == (7, [(1, 0), (2, 7)])
    asked_for_a_vote(again, "n3", term=7)
    assert votes(again) == []


def admitted(disk, seed=1):
    """A founder that knows the memories of the others."""
    lab = Lab(disk=disk, admitted=False, seed=seed)
    if lab.replica.is_quarantined:
        lab.step()
        (asked, *_) = lab.sent("n2", "rejoin")
        found(lab, asked["nonce"])
    lab.step()
    lab.sent()
    return lab


def test_a_node_that_takes_part_with_an_older_memory_is_not_heard_and_told():
    disk = SimDisk("n1")
    admitted(disk)
    lab = admitted(disk)  # the next life knows it as well
    lab.hear("n2", "admitted", nonce="a" * 16, stamp=0)
    lab.hear("n3", "admitted", nonce="f" * 16, stamp=0)
    asked_for_a_vote(lab, "n3")
    assert votes(lab) == []
    asked_for_a_vote(lab, "n2", term=6)
    assert votes(lab) == [6]
    lab.replica.link_shut("n3")
    lab.replica.link_opened("n3")
    lab.hear("n3", "rejoin", nonce="e" * 16, views={}, stamp=0)  # it came back empty
    lab.step()
    assert lab.sent("n3", "rejoin_ack")


def test_a_node_is_told_that_its_memory_is_older():
    lab = admitted(SimDisk("n1"))
    lab.hear("n3", "admitted", nonce="f" * 16, stamp=0)
    lab.step()
    assert lab.sent("n3", "outdated")


def test_a_node_that_a_majority_calls_outdated_ends_with_the_way_out():
    lab = admitted(SimDisk("n1"))
    lab.hear("n2", "outdated", stamp=0)
    lab.step()
    assert lab.replica.fatal is None  # the memory of n2 may be the older one
    lab.hear("n3", "outdated", stamp=0)
    assert "sim:n1 is older than what the other members know" in lab.replica.fatal
    assert "move its folder away" in lab.replica.fatal


def test_the_first_word_on_a_link_names_the_memory():
    disk = SimDisk("n1")
    lab = admitted(disk)
    lab.replica.link_shut("n2")
    lab.replica.link_opened("n2")
    lab.step()
    (first, *_) = lab.sent("n2")
    assert (first["type"], first["nonce"]) == ("admitted", disk.notes["nonce"])


# -- a disk that takes nothing ---------------------------------------------------------------------


def test_a_leader_whose_disk_is_full_says_nothing_and_leads_no_more():
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    term = lab.lead()
    before = lab.log()
    disk.is_full = True
    lab.propose(b"late")
    lab.pass_s(0.3)
    assert lab.sent() == []
    assert not lab.engine.is_leader
    assert "no space" in lab.replica.disk_fault
    with pytest.raises(NotLeader):
        lab.propose(b"refused")
    confirmed = []
    lab.replica.confirm(confirmed.append)
    lab.pass_s(0.7)
    assert lab.sent() == []
    assert lab.answers == []  # neither applied nor refused: nobody knows yet
    disk.is_full = False
    lab.pass_s(0.6)
    assert confirmed == [None]
    assert lab.replica.disk_fault is None
    assert lab.replica.fatal is None
    assert lab.engine.term >= term
    assert kept(disk)[: len(before)] == before
    lab.lead()
    assert lab.machine.values == ["late"]


def test_a_follower_whose_disk_is_full_hears_nothing_until_there_is_room():
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    lab.follow(term=3, entries=[entry(2, 3)])
    lab.step()
    lab.sent()
    disk.is_full = True
    lab.follow(term=3, entries=[entry(3, 3)], prev=(2, 3))
    lab.step()
    lab.follow(term=9, leader="n3", entries=[entry(4, 9)], prev=(3, 3))
    asked_for_a_vote(lab, "n3", term=11)
    lab.pass_s(1.0)
    assert lab.sent() == []
    assert lab.engine.term == 3
    disk.is_full = False
    lab.now += 0.6
    lab.follow(term=3, entries=[entry(3, 3)], prev=(2, 3))  # it is not heard yet
    lab.step()
    lab.follow(term=3, entries=[entry(3, 3)], prev=(2, 3))
    lab.step()
    (ack,) = lab.sent("n2", "next_node_idx")
    assert ack["next_node_idx"] == 4
    assert kept(disk) == lab.log() == [(1, 0), (2, 3), (3, 3)]


@pytest.mark.parametrize("keeps", [True, False])
def test_an_error_of_the_device_ends_the_node_before_it_says_a_word(keeps):
    disk = SimDisk("n1")
    lab = Lab(disk=disk)
    lab.step()
    lab.sent()
    disk.arm(Fault.BROKEN, keeps=keeps)
    asked_for_a_vote(lab)
    assert votes(lab) == []
    assert "the journal cannot be kept" in lab.replica.fatal
    lab.pass_s(2.0)
    assert lab.sent() == []


class SlowDisk(SimDisk):
    """Each commit takes this long."""

    lab = None
    took_s = 0.0

    def commit(self, batch):
        super().commit(batch)
        if self.lab is not None:
            self.lab.now += self.took_s


@pytest.mark.parametrize(("took_s", "leads"), [(0.4, True), (5.0, False)])
def test_a_slow_sync_costs_no_lead_while_answers_wait_to_be_read(took_s, leads):
    disk = SlowDisk("n1")
    lab = Lab(disk=disk)
    lab.lead()
    disk.lab, disk.took_s = lab, took_s
    lab.now += 0.1
    lab.propose(b"x")
    lab.step()  # half a second after the others were heard
    disk.lab = None
    lab.step()
    assert lab.engine.is_leader == leads


# -- what a start refuses --------------------------------------------------------------------------


def test_a_snapshot_that_is_no_more_readable_is_refused_by_name():
    disk = SimDisk("n1")
    led(disk, compaction_min_entries=10)
    name = next(iter(disk.chunks))
    disk.chunks[name] = disk.chunks[name][:-1] + b"?"
    with pytest.raises(JournalRefused, match=r"sim:n1: its snapshot is refused: .*move its folder"):
        Lab(disk=disk)


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda disk: disk.entries.clear(), "its log is missing"),
        (lambda disk: setattr(disk, "promise", (0, None)), "above its own term"),
        (lambda disk: setattr(disk, "snapshot", None), "does not meet its snapshot"),
    ],
)
def test_a_log_that_does_not_fit_is_refused(damage, what):
    disk = SimDisk("n1")
    led(disk, compaction_min_entries=10)
    damage(disk)
    with pytest.raises(JournalRefused, match=what):
        Lab(disk=disk)
    assert issubclass(JournalRefused, ConsensusError)


def test_without_a_place_nothing_is_kept():
    assert not Lab().engine.log.is_durable
    assert Lab(disk=SimDisk("n1")).engine.log.is_durable
    assert not Lab("durable", disk=SimDisk("n1")).engine.log.is_durable
    assert Durable.name == "durable"


async def test_one_node_alone_finds_its_state_again(tmp_path):
    async with cluster(1, storage_dir=str(tmp_path)) as made:
        node = await made.elected()
        node.set_cluster_id("c1")  # kept with the next step
        for number in range(3):
            await node.propose(f"v{number}".encode())
        await made.kill("n1")
        await made.boot("n1")
        again = await made.elected()
        assert await again.propose(b"v3") == 4
        assert made.machines["n1"].values == ["v0", "v1", "v2", "v3"]
        assert (again.status().storage, again.status().cluster_id) == ("journal", "c1")


async def test_a_node_whose_disk_fills_up_says_that_outcomes_are_unknown(tmp_path):
    async with cluster(1, storage_dir=str(tmp_path)) as made:
        node = await made.elected()
        database = node._replica.engine.log._disk._db
        database.execute("pragma query_only = on")
        with pytest.raises(OutcomeUnknown):
            await node.propose(b"x")
        assert "readonly" in node.status().disk_fault
        with pytest.raises(NotLeader):
            await node.propose(b"y")
        with pytest.raises(NotLeader):
            await node.confirm_leadership()
        database.execute("pragma query_only = off")
        await made.elected()
        assert node.status().disk_fault is None
        assert made.machines["n1"].values == ["x"]  # it was kept, late: unknown meant it


async def test_a_folder_that_cannot_be_used_is_told_when_the_node_is_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConsensusError, match="cannot be used"):
        await Cluster(1, storage_dir=str(tmp_path / "file")).boot("n1")
