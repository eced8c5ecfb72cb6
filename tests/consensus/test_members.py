"""Members that move to another address: who learns of it, and which of two processes is the one."""

import asyncio
import contextlib
import json
import logging

import pytest

from coordinator.consensus import ConsensusConfig, ConsensusError, ConsensusNode
from coordinator.consensus.addresses import MOVED_MAX, Addresses, decode_moved
from coordinator.consensus.codec import Malformed, pack
from coordinator.consensus.cures.limits import MembershipGate
from coordinator.consensus.handshake import (
    Hello,
    Refusal,
    check_formats,
    decode_hello,
    encode_hello,
)
from coordinator.consensus.node import CURES
from tests.consensus.cluster import Cluster, free_ports
from tests.consensus.test_links import connect, framed, lone_member, read_frame, said_until_closed
from tests.waiting import until

TABLE = {"n1": "a:1", "n2": "b:2", "n3": "c:3"}


def known(noted=None):
    return Addresses("n1", TABLE, noted)


def test_an_address_is_the_configured_one_until_a_newer_revision_says_otherwise():
    addresses = known()
    assert addresses.of("n2") == "b:2"
    assert addresses.learn({"n2": (7, "d:4")}) == ["n2"]
    assert addresses.of("n2") == "d:4"
    assert addresses.learn({"n2": (6, "e:5")}) == []
    assert addresses.learn({"n2": (7, "e:5")}) == []
    assert addresses.of("n2") == "d:4"
    assert addresses.learn({"n2": (8, "b:2")}) == ["n2"]
    assert addresses.of("n2") == "b:2"


def test_a_move_to_where_a_member_is_configured_is_kept_and_moves_nothing():
    addresses = known()
    assert addresses.learn({"n2": (7, "b:2")}) == []
    assert addresses.moved == {"n2": (7, "b:2")}


def test_a_move_of_no_member_is_passed_over():
    addresses = known()
    assert addresses.learn({"n9": (7, "d:4")}) == []
    assert addresses.moved == {}


def test_what_was_learned_is_kept_as_text():
    addresses = known()
    addresses.learn({"n2": (7, "d:4")})
    assert known(addresses.note()).of("n2") == "d:4"


def test_of_two_processes_of_one_name_the_one_where_it_was_moved_to_is_the_member():
    addresses = known()
    assert addresses.fault("n2", "b:2") is None
    assert "node.peers must be alike" in addresses.fault("n2", "d:4")
    addresses.learn({"n2": (7, "d:4")})
    assert addresses.fault("n2", "d:4") is None
    assert "you are its former process" in addresses.fault("n2", "b:2")


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {"n1": None},
        {"n1": (1,)},
        {"n1": (0, "a:1")},
        {"n1": (1 << 63, "a:1")},
        {"n1": (True, "a:1")},
        {"n1": (1, "")},
        {"n1": (1, "a" * 262)},
        {"n1": (1, b"a:1")},
        {b"n1": (1, "a:1")},
        {str(number): (1, "a:1") for number in range(MOVED_MAX + 1)},
    ],
)
def test_what_is_told_of_moves_is_checked(said):
    with pytest.raises(Malformed):
        decode_moved(said)


def test_a_hello_that_tells_of_every_move_fits_the_handshake():
    moved = {f"{number:063}": (1 << 61, "h" * 261) for number in range(MOVED_MAX)}
    hello = Hello("n" * 63, "m" * 63, "c" * 36, "u" * 512, "a" * 261, moved, (1, 2))
    encoded = encode_hello(hello)
    assert len(encoded) < 16 << 10
    assert decode_hello(encoded) == hello


@pytest.mark.parametrize(
    "formats", [None, 1, (1,), (0, 1), (2, 1), (1, 1 << 17), (True, 1), (1, "2")]
)
def test_a_hello_without_formats_is_malformed(formats):
    with pytest.raises(Malformed):
        decode_hello(
            pack(
                {
                    "magic": "shard-coordinator-raft",
                    "format": 1,
                    "name": "n1",
                    "to": "n2",
                    "cluster_id": None,
                    "api_url": "",
                    "address": "",
                    "moved": {},
                    "formats": formats,
                }
            )
        )


def test_a_member_reads_the_format_in_force_or_is_refused_with_the_way_out():
    def check(formats, in_force):
        return check_formats(Hello("n2", "n1", None, "", formats=formats), in_force)

    assert check((1, 1), 0) is check((1, 2), 2) is check((2, 3), 2) is check((5, 6), 0) is None
    assert "reads formats 1 to 1, and this cluster uses 2: n2 needs a newer version" in str(
        check((1, 1), 2)
    )
    assert "n2 needs an older version" in str(check((3, 4), 2))


# Real nodes.


class Movable(Cluster):
    """A cluster whose nodes each have a table of their own."""

    def __init__(self, size=3, **settings):
        super().__init__(size, **settings)
        self.tables = {name: dict(self.addresses) for name in self.addresses}

    def config(self, name, **changes):
        return ConsensusConfig(
            name=name,
            api_url=f"http://{name}.example",
            **{"peers": self.tables[name], **self.settings, **changes},
        )

    def move(self, name):
        """A free address, in the table of this member only, as for a new process."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        self.tables[name] = {**self.tables[name], name: address}
        return address


@contextlib.asynccontextmanager
async def movable(size=3, **settings):
    made = Movable(size, **settings)
    try:
        for name in made.addresses:
            await made.boot(name)
        await made.elected()
        yield made
    finally:
        await asyncio.gather(*(node.stop() for node in made.nodes.values()))


async def lead(made, name):
    leader = await made.elected()
    if leader.config.name != name:
        await leader.transfer_leadership(name)
        await until(lambda: made.leader() is made.nodes[name])


@contextlib.asynccontextmanager
async def load(node):
    """Writes without end, and counts what was acknowledged; the first failure fails the test."""
    count = [0]

    async def write():
        while True:
            await node.propose(b"x", timeout_s=10.0)
            count[0] += 1
            await asyncio.sleep(0.001)

    writing = [asyncio.create_task(write()) for _ in range(4)]
    try:
        yield count
        assert not any(task.done() for task in writing)
    finally:
        for task in writing:
            task.cancel()
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes), outcomes


@pytest.mark.parametrize("replaced", ["n1", "n3"], ids=["dialled by all", "dials all"])
async def test_a_member_is_replaced_at_a_new_address_under_load_without_a_failed_write(replaced):
    async with movable() as made:
        await lead(made, "n2")
        async with load(made.nodes["n2"]) as written:
            await until(lambda: written[0] > 50)
            await made.kill(replaced)
            address = made.move(replaced)
            for node in made.nodes.values():  # as the replicated state machine tells them
                node.set_address(replaced, address, 7)
            await made.boot(replaced)
            await until(lambda: made.nodes[replaced].status().role == "follower")
            at = written[0]
            await until(lambda: written[0] > at + 50)
        total = made.machines["n2"].values
        await until(lambda: made.machines[replaced].values == total)
        seen = {peer.name: peer for peer in made.nodes["n2"].status().peers}
        assert seen[replaced].address == address
        assert seen[replaced].connected


async def test_a_member_with_a_journal_is_replaced_by_an_empty_one_at_a_new_address(tmp_path):
    made = Movable(3)
    try:
        for name in made.addresses:
            await made.boot(name, storage_dir=str(tmp_path / name))
        await lead(made, "n2")
        await made.nodes["n2"].propose(b"before")
        await made.kill("n1")
        address = made.move("n1")
        for node in made.nodes.values():
            node.set_address("n1", address, 7)
        await made.boot("n1", storage_dir=str(tmp_path / "n1-anew"))
        await until(lambda: made.nodes["n1"].status().role == "follower")
        await made.nodes["n2"].propose(b"after")
        await until(lambda: made.machines["n1"].values == ["before", "after"])
        # The others come back from their journals, and know where it is, whatever their tables say.
        for name in ("n2", "n3"):
            await made.kill(name)
            await made.boot(name, storage_dir=str(tmp_path / name))
            await until(lambda name=name: "n1" in made.nodes[name]._links.up)
        leader = await made.elected()
        await leader.propose(b"at last")
    finally:
        await asyncio.gather(*(node.stop() for node in made.nodes.values()))


async def test_a_node_with_an_old_table_learns_from_a_peer_where_a_member_is():
    """n1 moved; n3, which dials it, comes back empty with a table that does not know."""
    async with movable() as made:
        await lead(made, "n2")
        await made.kill("n1")
        address = made.move("n1")
        for node in made.nodes.values():
            node.set_address("n1", address, 7)
        await made.boot("n1")
        await until(lambda: made.nodes["n1"].status().role == "follower")
        await made.kill("n3")
        assert made.tables["n3"]["n1"] != address
        returned = await made.boot("n3")
        await until(lambda: returned.status().role == "follower")
        assert {peer.name for peer in returned.status().peers if peer.connected} == {"n1", "n2"}


async def test_a_node_that_was_linked_before_the_move_is_told_of_it():
    async with movable() as made:
        await made.kill("n1")
        address = made.move("n1")
        made.nodes["n2"].set_address("n1", address, 7)
        await until(lambda: made.nodes["n3"]._links.addresses.of("n1") == address)
        await made.boot("n1")
        await until(lambda: "n1" in made.nodes["n3"]._links.up)


async def test_the_former_process_of_a_moved_member_is_no_peer_any_more(caplog):
    caplog.set_level(logging.WARNING)
    async with movable() as made:
        await lead(made, "n2")
        address = made.move("n3")
        made.nodes["n2"].set_address("n3", address, 7)
        await until(lambda: "n3" not in made.nodes["n1"]._links.up)
        former = made.nodes["n3"]
        await until(lambda: not former.status().has_quorum)
        await asyncio.sleep(0.7)  # it dials twice a second at least
        assert not former.status().has_quorum
        assert "you are its former process" in caplog.text
        await made.nodes["n2"].propose(b"x")
        del made.nodes["n3"]
        try:
            await made.boot("n3")  # while the former still runs
            await until(lambda: made.nodes["n3"].status().role == "follower")
            assert not former.status().has_quorum
        finally:
            await former.stop()


async def test_without_membership_gate_the_former_process_stays_a_peer_beside_the_new_one():
    class Ungated(ConsensusNode):
        cures = tuple(cure for cure in CURES if cure is not MembershipGate)

    async with movable(node_class=Ungated) as made:
        await lead(made, "n2")
        made.nodes["n2"].set_address("n3", made.move("n3"), 7)
        await asyncio.sleep(0.7)
        assert made.nodes["n3"].status().has_quorum


async def test_a_process_at_an_address_that_nobody_was_told_of_is_refused_and_told_why():
    async with lone_member() as made:
        reader, writer = await connect(made)
        hello = Hello("n2", "n1", None, "", address="127.0.0.1:9")
        writer.write(framed(encode_hello(hello)))
        refusal = decode_hello(await read_frame(reader))
        assert isinstance(refusal, Refusal)
        assert "POST /v1/cluster/members tells of a move" in refusal.reason
        writer.close()


async def test_a_hello_may_bring_the_news_of_its_own_move():
    async with lone_member() as made:
        reader, writer = await connect(made)
        moved = {"n2": (3, "127.0.0.1:9")}
        hello = Hello("n2", "n1", None, "", address="127.0.0.1:9", moved=moved)
        writer.write(framed(encode_hello(hello)))
        answer = decode_hello(await read_frame(reader))
        assert isinstance(answer, Hello)
        assert answer.moved == moved
        writer.write(framed(pack({"type": "ping", "moved": {"n2": ("soon", 1)}})))
        await said_until_closed(reader)
        writer.close()


async def test_a_journal_keeps_where_members_were_moved_to(tmp_path):
    made = Cluster(3, storage_dir=str(tmp_path / "n1"))
    await made.boot("n1")
    made.nodes["n1"].set_address("n3", "127.0.0.1:9", 7)
    await until(lambda: made.nodes["n1"]._replica.engine.log.notes.get("moved"))
    await asyncio.sleep(0.1)
    await made.kill("n1")
    again = await made.boot("n1")
    assert json.loads(again._replica.engine.log.notes["moved"]) == {"n3": [7, "127.0.0.1:9"]}
    assert again._links.addresses.of("n3") == "127.0.0.1:9"
    await made.kill("n1")


async def test_a_port_may_listen_elsewhere_than_it_is_found():
    made = Cluster(2)
    port = made.addresses["n1"].rpartition(":")[2]
    made.addresses["n1"] = f"localhost:{port}"
    try:
        await made.boot("n1", raft_bind=f"127.0.0.1:{port}")
        await made.boot("n2")
        await made.elected()
    finally:
        await asyncio.gather(*(node.stop() for node in made.nodes.values()))
    node = made.node_class(
        made.config("n1", raft_bind="0.0.0.0:1"), made.machines["n1"], rng=made.nodes["n1"]._rng
    )
    with pytest.raises(ConsensusError, match=r"0\.0\.0\.0:1 is not on loopback"):
        await node.start()
