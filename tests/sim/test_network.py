"""The simulated network behaves as TCP does: order within a connection, loss only with it."""

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
