"""A survivor's journal goes on as another cluster: real files and real links on loopback.

Crashes at every moment, and new members in any order, are in `tests/sim/test_survivor.py`.
"""

import fcntl
import random
import shutil

import pytest

from coordinator.consensus import ConsensusError, force_new_cluster
from tests.consensus.cluster import Cluster, Register
from tests.consensus.lab import Lab
from tests.waiting import until


async def test_the_survivor_keeps_all_and_old_members_are_turned_away(tmp_path):
    made = Cluster(3)
    folders = {name: tmp_path / name for name in made.addresses}

    async def boot(name):
        return await made.boot(name, storage_dir=str(folders[name]))

    try:
        for name in made.addresses:
            await boot(name)
        leader = await made.elected()
        for node in made.nodes.values():
            node.set_cluster_id("old")
        for number in range(20):
            await leader.propose(b"%d" % number)
        await until(lambda: all(len(m.values) == 20 for m in made.machines.values()))
        for name in list(made.nodes):
            await made.kill(name)
        shutil.move(folders["n3"], tmp_path / "away")
        shutil.rmtree(folders["n2"])

        assert force(made, folders["n1"]) == "new"
        await boot("n1")
        await boot("n2")
        leader = await made.elected()
        assert await leader.propose(b"after") == 22
        await until(lambda: made.machines["n2"].values[-1:] == ["after"])
        assert made.machines["n1"].values == [*map(str, range(20)), "force", "after"]
        assert made.machines["n2"].values == made.machines["n1"].values
        made.nodes["n2"].set_cluster_id("new")  # as its state machine would have told

        shutil.move(tmp_path / "away", folders["n3"])
        fates = []
        node = await boot("n3")
        node.on_fatal = fates.append
        (told,) = await until(lambda: fates)
        assert "belongs to cluster old, a majority of the members to another" in told
        assert "move its folder away and start again" in told
        await made.kill("n3")
        shutil.rmtree(folders["n3"])
        await boot("n3")
        await until(lambda: made.machines["n3"].values == made.machines["n1"].values)
    finally:
        for name in list(made.nodes):
            await made.kill(name)


def force(made, folder):
    return force_new_cluster(
        made.config("n1", storage_dir=str(folder)),
        Register(),
        former_id="old",
        payload=b"force",
        named=lambda outcome: "new" if outcome == 21 else "",
        rng=random.Random(1),
    )


def test_a_journal_in_use_is_left_alone(tmp_path):
    made = Cluster(3)
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConsensusError, match="another process uses it"):
            force(made, tmp_path)


async def test_a_survivor_alone_is_not_ended_by_old_members_who_are_many(tmp_path):
    made = Cluster(3, storage_dir=str(tmp_path / "n1"))
    node = await made.boot("n1")
    try:
        node.set_cluster_id("new")
        node._replica.engine.log.note("sole", "1")
        node._outvoted()
        assert node._replica.fatal is None
        node._replica.engine.log.note("sole", "")
        node._outvoted()
        assert "belongs to cluster new" in node._replica.fatal
    finally:
        await made.kill("n1")


# Who is adopted.


def adopted(lab, nonce, **changes):
    lab.hear(
        "n2",
        "rejoin_ack",
        nonce=nonce,
        own="survivor",
        term=7,
        fresh=False,
        admitted=True,
        views={},
        **{"adopts": True, **changes},
    )


def empty_node():
    lab = Lab(admitted=False)
    lab.pass_s(0.2)
    (nonce,) = {m["nonce"] for m in lab.sent(kind="rejoin")}
    return lab, nonce


def ask_vote(lab, peer, term=8):
    lab.hear(peer, "request_vote", term=term, last_log_index=9, last_log_term=7)
    return len(lab.sent(peer, "response_vote"))


@pytest.mark.parametrize(
    ("changes", "votes"), [({}, 1), ({"adopts": False}, 0)], ids=["told so", "not told"]
)
def test_an_empty_member_votes_for_the_survivor_that_adopts_it_and_for_nobody_else(changes, votes):
    lab, nonce = empty_node()
    adopted(lab, nonce, **changes)
    lab.sent()
    assert ask_vote(lab, "n3") == 0
    assert ask_vote(lab, "n2") == votes
    assert lab.replica.is_quarantined


def test_a_word_to_another_start_adopts_nobody():
    lab, _ = empty_node()
    adopted(lab, "another start")
    assert ask_vote(lab, "n2") == 0


def test_who_was_admitted_waits_for_nobody_and_is_adopted_by_nobody():
    lab = Lab()
    adopted(lab, "any")
    assert lab.engine.term == 0


def sole():
    lab = Lab(admitted=False)
    quarantine = next(cure for cure in lab.replica.cures if cure.name == "quarantine")
    lab.replica.is_quarantined = False
    quarantine._is_sole = True
    return lab


def adoptions(lab, peer, nonce):
    lab.sent()
    lab.hear(peer, "rejoin", nonce=nonce, views={})
    return [m.get("adopts", False) for m in lab.sent(peer, "rejoin_ack")]


def test_a_survivor_adopts_one_memory_of_each_name_until_one_is_admitted():
    lab = sole()
    assert adoptions(lab, "n2", "first") == [True]
    assert adoptions(lab, "n2", "second") == [False]
    assert adoptions(lab, "n2", "first") == [True]
    assert adoptions(lab, "n3", "third") == [True]
    lab.hear("n3", "admitted", nonce="third")
    assert adoptions(lab, "n2", "first") == [False]
    assert lab.engine.log.notes["sole"] == ""
