"""Links of real nodes: who gets in, what strangers get, and what a dead link costs."""

import asyncio
import contextlib
import pickle
import random
import struct

import pytest
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.pickle import dumps as stock_dumps

from coordinator.consensus import ConsensusConfig, ConsensusError, ConsensusNode
from coordinator.consensus.codec import Malformed, pack, unpack
from coordinator.consensus.cures.port import ClosedPort, OwnLinks
from coordinator.consensus.handshake import (
    Hello,
    Refusal,
    check_hello,
    decode_hello,
    encode_hello,
    is_loopback,
    split_address,
)
from coordinator.consensus.link import FRAME_COST_BYTES, TURN_BYTES_MAX, Link
from coordinator.consensus.node import CURES
from tests.consensus.cluster import Cluster, Register, cluster, free_ports
from tests.waiting import until

MEMBERS = {"n1": "127.0.0.1:1", "n2": "127.0.0.1:2", "n3": "127.0.0.1:3"}


@contextlib.asynccontextmanager
async def lone_member(node_class=ConsensusNode, **settings):
    """n1 of three, the others played by the test."""
    made = Cluster(3, node_class=node_class, **settings)
    try:
        await made.boot("n1")
        yield made
    finally:
        await made.kill("n1")


async def connect(made, name="n1"):
    host, port = split_address(made.addresses[name])
    return await asyncio.open_connection(host, port)


def framed(data):
    return struct.pack("<I", len(data)) + data


async def read_frame(reader):
    (size,) = struct.unpack("<I", await reader.readexactly(4))
    return await reader.readexactly(size)


async def said_until_closed(reader, timeout_s=5.0):
    async with asyncio.timeout(timeout_s):
        try:
            return await reader.read(-1)
        except ConnectionResetError:
            return b""


async def as_member(made, name="n2", to="n1", cluster_id=None):
    """A connection that introduced itself as this member."""
    reader, writer = await connect(made)
    writer.write(framed(encode_hello(Hello(name, to, cluster_id, f"http://{name}"))))
    return reader, writer


class Poison:
    def __reduce__(self):
        return (pytest.fail, ("a stranger's pickle was executed",))


@pytest.mark.parametrize(
    "greeting",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff" * 64,
        framed(b"\xff" * 64),
        framed(pack({"type": "ping"})),
        framed(pack({"type": "request_vote", "term": 9, "last_log_index": 9, "last_log_term": 9})),
        framed(stock_dumps("127.0.0.1:2")),
        framed(pickle.dumps(Poison())),
        framed(stock_dumps(["status", []])),
    ],
    ids=["http", "bytes", "frame", "ping", "vote", "stock hello", "pickle", "stock admin"],
)
async def test_a_stranger_gets_no_byte_and_its_connection_ends(greeting):
    async with lone_member() as made:
        reader, writer = await connect(made)
        writer.write(greeting)
        assert await said_until_closed(reader) == b""
        writer.close()
        assert made.nodes["n1"].status().term == 0


async def test_a_stock_node_of_the_library_gets_nowhere():
    async with lone_member() as made:
        own = f"127.0.0.1:{free_ports(1)[0]}"
        settings = {"autoTick": False, "connectionRetryTime": 0.0}
        stock = SyncObj(own, [made.addresses["n1"]], SyncObjConf(**settings))
        try:
            for _ in range(100):
                stock.doTick(0.0)
                await asyncio.sleep(0.01)
            assert stock._getLeader() is None
            status = made.nodes["n1"].status()
            assert (status.term, status.log_entries, status.has_quorum) == (0, 1, False)
        finally:
            stock.destroy()


async def test_a_stranger_that_says_nothing_is_closed_in_time():
    async with lone_member() as made:
        reader, writer = await connect(made)
        started = asyncio.get_running_loop().time()
        assert await said_until_closed(reader) == b""
        assert 2.0 < asyncio.get_running_loop().time() - started < 4.5
        writer.close()


async def test_the_oldest_of_too_many_strangers_gives_way_and_members_still_get_in():
    async with lone_member() as made:
        strangers = [await connect(made) for _ in range(9)]
        assert await said_until_closed(strangers[0][0], 1.0) == b""
        reader, writer = await as_member(made)
        assert decode_hello(await read_frame(reader)).name == "n1"
        for _, stranger in [*strangers, (reader, writer)]:
            stranger.close()


async def test_a_member_is_greeted_and_counts_as_connected():
    async with lone_member() as made:
        reader, writer = await as_member(made)
        assert decode_hello(await read_frame(reader)) == Hello(
            "n1", "n2", None, "http://n1.example", address=made.addresses["n1"]
        )
        node = made.nodes["n1"]
        (peer,) = [p for p in node.status().peers if p.name == "n2"]
        assert (peer.connected, peer.api_url) == (True, "http://n2")
        assert node.status().has_quorum
        writer.close()
        await until(lambda: not node.status().has_quorum)


async def test_a_newer_connection_of_a_member_replaces_the_older():
    async with lone_member() as made:
        old_reader, old_writer = await as_member(made)
        await read_frame(old_reader)
        reader, writer = await as_member(made)
        await read_frame(reader)
        await said_until_closed(old_reader, 1.0)
        assert made.nodes["n1"].status().has_quorum
        old_writer.close()
        writer.close()


async def test_one_malformed_message_ends_the_link_of_a_member():
    async with lone_member() as made:
        reader, writer = await as_member(made)
        await read_frame(reader)
        writer.write(framed(pack({"type": "append_entries", "term": "x"})))
        await said_until_closed(reader)
        assert not made.nodes["n1"].status().has_quorum
        writer.close()


async def test_a_frame_above_the_limit_ends_the_link_before_it_is_read():
    async with lone_member() as made:
        reader, writer = await as_member(made)
        await read_frame(reader)
        writer.write(struct.pack("<I", (8 << 20) + 1))
        await said_until_closed(reader)
        writer.close()


async def test_a_message_that_cannot_be_digested_costs_its_link_and_nothing_else(caplog):
    async with lone_member() as made:
        links = made.nodes["n1"]._links

        def raising(_peer, _message):
            raise ZeroDivisionError

        links._received = raising
        reader, writer = await as_member(made)
        await read_frame(reader)
        writer.write(framed(pack({"type": "admitted"})))
        await said_until_closed(reader)
        assert any(r.message.startswith("message_failed") for r in caplog.records)
        writer.close()
        again, writer = await as_member(made)
        assert decode_hello(await read_frame(again)).name == "n1"
        writer.close()


async def test_a_member_that_does_not_read_is_congested_and_then_loses_its_link():
    async with lone_member() as made:
        reader, writer = await as_member(made)
        await read_frame(reader)
        writer.transport.pause_reading()
        links = made.nodes["n1"]._links
        frame = b"x" * (1 << 20)
        for _ in range(200):
            links.send({"n2": [frame]})
            if links.is_congested("n2"):
                break
        assert links.is_congested("n2")
        assert "n2" in links.up
        for _ in range(40):
            links.send({"n2": [frame]})
        assert "n2" not in links.up
        assert not links.is_congested("n2")
        writer.close()


def composed_without(*left_out):
    class Composed(ConsensusNode):
        cures = tuple(cure for cure in CURES if cure not in left_out)

    return Composed


async def silent_member_stays(node_class, wait_s):
    async with lone_member(node_class=node_class) as made:
        reader, writer = await as_member(made)
        await read_frame(reader)
        await asyncio.sleep(wait_s)
        stays = made.nodes["n1"].status().has_quorum
        writer.close()
        return stays


async def test_a_silent_link_is_dead_after_a_second_only_with_own_links():
    assert not await silent_member_stays(ConsensusNode, 1.4)
    assert await silent_member_stays(composed_without(OwnLinks), 1.4)


async def test_an_idle_link_carries_pings():
    async with lone_member() as made:
        reader, writer = await as_member(made)
        await read_frame(reader)
        kinds = [unpack(await read_frame(reader))["type"] for _ in range(8)]
        assert "ping" in kinds
        writer.close()


async def told(made, **hello):
    reader, writer = await as_member(made, **hello)
    answer = decode_hello(await read_frame(reader))
    writer.close()
    return answer


async def test_another_cluster_is_refused_with_the_way_out_only_with_closed_port():
    async with lone_member() as made:
        made.nodes["n1"].set_cluster_id("mine")
        refusal = await told(made, cluster_id="other")
        assert isinstance(refusal, Refusal)
        assert "restart the node" in refusal.reason
        assert isinstance(await told(made, cluster_id=None), Hello)
        assert isinstance(await told(made, cluster_id="mine"), Hello)
    async with lone_member(node_class=composed_without(ClosedPort)) as made:
        made.nodes["n1"].set_cluster_id("mine")
        assert isinstance(await told(made, cluster_id="other"), Hello)


async def test_a_link_of_another_cluster_ends_when_the_own_is_learned():
    async with lone_member() as made:
        reader, writer = await as_member(made, cluster_id="other")
        await read_frame(reader)
        made.nodes["n1"].set_cluster_id("mine")
        await said_until_closed(reader)
        writer.close()


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (Hello("n2", "n3", None, ""), "this is n1, not n3"),
        (Hello("n9", "n1", None, ""), "n9 is not a configured peer"),
        (Hello("n1", "n1", None, ""), "n1 is not a configured peer"),
    ],
    ids=["meant for another", "unknown", "itself"],
)
def test_a_hello_is_refused_when(hello, reason):
    refusal = check_hello(hello, own_name="n1", members=MEMBERS, cluster_id=None)
    assert refusal is not None
    assert refusal.reason.startswith(reason)


@pytest.mark.parametrize("field", ["name", "to", "api_url", "address"])
def test_a_hello_brings_no_line_ends_into_headers_and_logs(field):
    said = {**unpack(encode_hello(Hello("n2", "n1", None, ""))), field: "http://n2\r\nX-Evil: 1"}
    with pytest.raises(Malformed):
        decode_hello(pack(said))


def test_a_hello_of_another_format_is_refused_and_says_both():
    said = {**unpack(encode_hello(Hello("n2", "n1", None, ""))), "format": 99}
    refusal = decode_hello(pack(said))
    assert refusal == Refusal("format 99 is spoken there, 1 here")


@pytest.mark.parametrize("address", ["10.0.0.1:7071", "0.0.0.0:7071", "example.org:7071"])
async def test_a_plaintext_port_off_loopback_is_refused_at_the_start(address):
    config = ConsensusConfig(name="n1", peers={"n1": address}, api_url="")
    node = ConsensusNode(config, Register(), rng=random.Random(1))
    with pytest.raises(ConsensusError, match="not on loopback"):
        await node.start()


async def test_the_ugly_flag_allows_a_port_off_loopback():
    made = Cluster(1, insecure=True)
    (_, port) = split_address(made.addresses["n1"])
    made.addresses["n1"] = f"0.0.0.0:{port}"
    try:
        await made.boot("n1")
        await made.elected()
    finally:
        await made.kill("n1")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.1.1.1", False),
        ("localhost.evil.org", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host, expected):
    assert is_loopback(host) is expected


def test_addresses_have_a_host_and_a_port():
    assert split_address("127.0.0.1:7071") == ("127.0.0.1", 7071)
    assert split_address("[::1]:7071") == ("::1", 7071)
    for wrong in ("", "host", ":7071", "host:", "host:x", "host:70000"):
        with pytest.raises(ValueError, match="host:port"):
            split_address(wrong)


async def test_links_come_back_after_the_listener_was_away():
    async with cluster() as c:
        await c.elected()
        await c.kill("n1")
        await asyncio.sleep(0.3)
        returned = await c.boot("n1")
        await until(lambda: sum(p.connected for p in returned.status().peers) == 2, 3.0)


class Beside:
    """Where a link writes to and reads from, and the loop it shares with others."""

    def __init__(self):
        self.is_reading = True

    def pause_reading(self):
        self.is_reading = False

    def resume_reading(self):
        self.is_reading = True

    def is_closing(self):
        return False


def resting_link(links):
    """A link that is up, what it reads from, and what it delivered."""
    link, delivered = Link(links, None), []
    link.transport, link.is_up = Beside(), True
    links.deliver = lambda _link, message: delivered.append(message)
    return link, link.transport, delivered


PING = framed(pack({"type": "ping"}))
SMALL_PER_TURN = TURN_BYTES_MAX // (FRAME_COST_BYTES + len(PING) - 4) + 1


async def test_a_link_that_brings_many_messages_lets_others_have_their_turn_and_loses_none():
    async with lone_member() as made:
        link, socket, delivered = resting_link(made.nodes["n1"]._links)
        link.data_received(PING * (2 * SMALL_PER_TURN + 1))
        assert (len(delivered), socket.is_reading) == (SMALL_PER_TURN, False)
        link.data_received(PING)  # it was on its way when the reading was paused
        assert len(delivered) == SMALL_PER_TURN
        await asyncio.sleep(0)
        assert (len(delivered), socket.is_reading) == (2 * SMALL_PER_TURN, False)
        await asyncio.sleep(0)
        assert (len(delivered), socket.is_reading) == (2 * SMALL_PER_TURN + 2, True)


async def test_a_large_message_ends_the_turn_of_its_link():
    async with lone_member() as made:
        link, socket, delivered = resting_link(made.nodes["n1"]._links)
        append = {"type": "append_entries", "term": 1, "commit_index": 1}
        large = framed(pack({**append, "entries": [(b"x" * TURN_BYTES_MAX, 1, 1)]}))
        link.data_received(large + PING)
        assert (len(delivered), socket.is_reading) == (1, False)
        await asyncio.sleep(0)
        assert (len(delivered), socket.is_reading) == (2, True)


async def test_a_link_that_ended_while_it_rested_stays_ended():
    async with lone_member() as made:
        link, socket, delivered = resting_link(made.nodes["n1"]._links)
        link.data_received(PING * (SMALL_PER_TURN + 1))
        link.transport = None
        await asyncio.sleep(0)
        assert not socket.is_reading
        assert len(delivered) == SMALL_PER_TURN
