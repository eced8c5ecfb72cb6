"""The simulated network behaves as TCP does: order within a connection, loss only with it."""

import pytest

from tests.sim.network import Network
from tests.sim.world import World


class Recorder:
    """A station that writes down what happens to it."""

    def __init__(self, name):
        self.name = name
        self.is_alive = True
        self.is_listening = True
        self.seen = []

    def opened(self, peer):
        self.seen.append(f"+{peer}")

    def shut(self, peer):
        self.seen.append(f"-{peer}")

    def arrived(self, _peer, frame):
        self.seen.append(frame)


def pair(delay_s=(0.001, 0.1)):
    world = World("test")
    network = Network(world, delay_s)
    for name in ("a", "b"):
        network.stations[name] = Recorder(name)
    network.start(["a", "b"])
    world.run_until(1.0)
    assert network.stations["a"].seen == ["+b"]
    return world, network, network.stations["a"], network.stations["b"]


def test_messages_of_one_connection_keep_their_order():
    world, network, _, b = pair()
    for number in range(50):
        network.send("a", "b", [b"%d" % number])
        world.run_until(world.now + 0.005)
    world.run_until(world.now + 1)
    assert b.seen[1:] == [b"%d" % number for number in range(50)]


def test_a_broken_connection_loses_what_is_in_flight_and_comes_back():
    world, network, a, b = pair()
    network.send("a", "b", [b"lost"])
    network.sever("a", "b")
    world.run_until(world.now + 2)
    network.send("a", "b", [b"kept"])
    world.run_until(world.now + 1)
    assert a.seen == ["+b", "-b", "+b"]
    assert b.seen == ["+a", "-a", "+a", b"kept"]


def test_a_short_block_delays_and_a_long_one_ends_the_connection():
    world, network, a, b = pair()
    network.block("a", "b")
    network.send("a", "b", [b"late"])
    world.run_until(world.now + 0.5)
    assert b.seen == ["+a"]
    network.unblock("a", "b")
    assert b.seen == ["+a", b"late"]
    network.block("a", "b")
    world.run_until(world.now + 3)
    assert b.seen[-1] == "-a"
    assert a.seen[-1] == "-b"


def test_a_paused_station_reads_what_waited_when_it_goes_on():
    world, network, _, b = pair()
    b.is_listening = False
    network.send("a", "b", [b"1", b"2"])
    world.run_until(world.now + 0.5)
    assert b.seen == ["+a"]
    b.is_listening = True
    network.resumed("b")
    assert b.seen == ["+a", b"1", b"2"]


def test_a_killed_station_is_noticed_after_what_it_had_sent():
    world, network, _, b = pair()
    network.send("a", "b", [b"last"])
    network.forget("a")
    del network.stations["a"]
    world.run_until(world.now + 1)
    assert b.seen == ["+a", b"last", "-a"]


def test_lost_segments_come_late_and_in_order():
    world, network, _, b = pair((0.001, 0.002))
    network.lose("a", "b", 0.6)
    for number in range(20):
        network.send("a", "b", [b"%d" % number])
    world.run_until(world.now + 0.1)
    arrived = len(b.seen)
    assert arrived < 15
    world.run_until(world.now + 10)
    assert b.seen[1:] == [b"%d" % number for number in range(20)]
    network.lose("a", "b", 0.0)
    network.send("a", "b", [b"soon"])
    world.run_until(world.now + 0.01)
    assert b.seen[-1] == b"soon"


def test_strays_come_again_and_on_the_next_connection_of_the_same_lives():
    world, network, _, b = pair()
    network.stray_ratio = 1.0
    network.send("a", "b", [b"twice"])
    network.sever("a", "b")
    world.run_until(world.now + 5)
    assert b.seen == ["+a", "-a", "+a", b"twice"]
    network.send("a", "b", [b"again"])
    world.run_until(world.now + 5)
    assert b.seen[-2:] == [b"again", b"again"]


def test_strays_of_a_former_life_never_come():
    world, network, _, b = pair()
    network.stray_ratio = 1.0
    network.send("a", "b", [b"former"])
    network.forget("a")
    network.stations["a"] = Recorder("a")
    world.run_until(world.now + 5)
    assert b.seen == ["+a", b"former", "-a", "+a"]


def test_a_clock_runs_at_its_own_rate_from_its_own_beginning():
    world = World("test")
    fast, slow = world.clock(1.1, 100.0), world.clock(0.9, 0.0)
    before = (fast(), slow())
    world.run_until(10.0)
    assert fast() - before[0] == pytest.approx(11.0, abs=0.001)
    assert slow() - before[1] == pytest.approx(9.0, abs=0.001)
