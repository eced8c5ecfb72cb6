"""The models of what registers answer: the real state keeps to them, and lies do not."""

import random

import pytest

from coordinator.codec import encode_entry
from coordinator.core.commands import Applied, Reason, Refused
from tests.sim import clients, registers
from tests.sim.linearizable import UNKNOWN, Operation
from tests.sim.machine import Books, numbered
from tests.sim.registers import UNPINNED, Owned, Pinned


def told(name, argument=None, result=UNKNOWN):
    return Operation("c", name, argument, 0.0, result, 1.0)


class Alone:
    """One node that carries out at once what a client asks."""

    name = "n1"

    def __init__(self):
        self.books = Books()
        self.index = 1
        for command in clients._founding():
            self.submit(encode_entry(command), lambda _kind, _result: None)

    def submit(self, payload, answer):
        self.index += 1
        answer("done", self.books.apply(self.index, payload))

    def look_up(self, read, answer):
        answer("done", read(self.books))


class World:
    now = 0.0

    def after(self, *_):
        pass


class Cluster:
    world = World()


def test_the_real_state_answers_as_the_models_say():
    node = Alone()
    asking = clients.Clients(Cluster(), 1)
    for number in range(1500):
        asking.world.now = float(number)
        call = asking.rng.choice((asking._pin, asking._drain, asking._own))("c0")
        asking._count += 1
        asking._calls.append(call)
        call.tries = 1
        call.ask(node, call, 1)
    assert asking.operations == 1500
    names = {operation.name for history in asking.history.values() for operation in history}
    assert names == {"pin", "unpin", "drain", "undrain", "move", "release", "read"}
    moved = [o.result for o in asking.history["own:2"] if o.name == "release"]
    assert {Applied(count=0), Applied(count=1)} <= set(moved)
    for register, history in asking.history.items():
        assert asking._explain(register.split(":")[0], history) is None


@pytest.mark.parametrize(
    ("model", "state", "operation"),
    [
        (registers.pinned, UNPINNED, told("read", None, Pinned("e1", "note"))),
        (registers.drained, "d-1", told("read", None, "")),
        (registers.drained, "d-1", told("drain", "d-2", Applied(resource="d-2", created=True))),
        (registers.drained, "", told("undrain", "d1", Applied(resource="d-1", count=1))),
        (registers.owned, Owned("e1", None, 4, True), told("read", None, ("e2", None, 5))),
        (registers.owned, Owned("e1", None, 4, False), told("read", None, ("e1", None, 4))),
        (
            registers.owned,
            Owned("e1", "e2", 4, True),
            told("release", ("e1", 4), Applied(count=0)),
        ),
        (
            registers.owned,
            Owned("e1", None, 4, True),
            told("release", ("e1", 4), Applied(count=1)),
        ),
        (
            registers.owned,
            Owned("e1", None, 4, True),
            told("move", "e2", Refused(Reason.CONFLICT, "")),
        ),
        (registers.owned, Owned("e1", "e2", 4, True), told("move", "e3", Applied(resource="2"))),
    ],
)
def test_a_lie_is_impossible(model, state, operation):
    assert model(state, operation) is None


def test_books_come_back_whole_from_their_parts():
    node = Alone()
    rng = random.Random(1)
    for number in range(20):
        node.index += 1
        node.books.apply(node.index, numbered(rng.randrange(number + 1)))
    parts = node.books.parts()
    node.books.apply(99, numbered(7))  # behind the moment of the snapshot
    copy = Books()
    reading = copy.prepare(iter(list(parts)))
    while True:
        try:
            next(reading)
        except StopIteration as done:
            done.value()
            break
    assert copy.commands == node.books.commands[:-1]
    assert copy.registry.digest() == node.books.registry.digest()
    node.books = copy
    assert copy.apply(99, numbered(7)) == 99
