"""A rolling upgrade between two versions of the program, of which the newer has one more command.

The older version is the product without `ResumeBalancer`; to the newer that command came with
format 2. Nothing else is made up: real nodes, real commands, the real API.
"""

import asyncio
import contextlib
import logging
from typing import get_args

import pytest

from coordinator.codec import FORMAT, Formats, encode_snapshot
from coordinator.consensus import UnknownEntry
from coordinator.core.commands import ClusterCommand, NamespaceCommand, ResumeBalancer
from coordinator.core.state import ClusterState
from coordinator.node import Node
from coordinator.replica import StateMachine
from tests.api.nodes import calling, ready, settings_of
from tests.waiting import until

EVERY = (*get_args(ClusterCommand), *get_args(NamespaceCommand))
OLD = Formats({kind: FORMAT for kind in EVERY if kind is not ResumeBalancer})
NEW = Formats(dict.fromkeys(EVERY, FORMAT) | {ResumeBalancer: FORMAT + 1})
RESUME = NEW.encode(ResumeBalancer(namespace="ns"), FORMAT + 1)


class Fleet:
    """Three nodes, each of a version of its own."""

    def __init__(self):
        self.settings = {settings.node.name: settings for settings in settings_of(3)}
        self.nodes = {}

    async def start(self, name, formats):
        self.nodes[name] = Node(self.settings[name], formats=formats)
        await self.nodes[name].start()

    async def stop(self, name):
        node = self.nodes.pop(name)
        await node.hand_over()
        await node.stop()

    async def upgrade(self, name, formats=NEW):
        """As a deploy does it: stop, start, wait until it has caught up."""
        await self.stop(name)
        await self.start(name, formats)
        await self.is_ready(name)

    async def is_ready(self, name):
        async with calling(self.nodes[name]) as caller:
            await ready(caller)

    async def ask(self, name, method, path, body=None):
        async with calling(self.nodes[name]) as caller:
            return await caller.ask(method, path, body)

    def leader(self):
        leading = [name for name, node in self.nodes.items() if node.leader.is_leading]
        return leading[0] if len(leading) == 1 else None

    async def led_by(self, *names):
        """The leader, once it is one of these."""

        async def leads():
            leader = self.leader()
            if leader is not None and leader not in names:
                with contextlib.suppress(Exception):
                    await self.nodes[leader].consensus.transfer_leadership(names[0])
                return None
            return leader

        return await until(leads)


@pytest.fixture
async def fleet():
    made = Fleet()
    try:
        for name in made.settings:
            await made.start(name, OLD)
        for name in made.settings:
            await made.is_ready(name)
        yield made
    finally:
        await asyncio.gather(*(node.stop() for node in made.nodes.values()))


def as_written(node):
    return b"".join(encode_snapshot(node.replica.state.image()))


async def test_a_new_command_waits_until_every_node_reads_it_and_then_no_old_node_gets_in(
    fleet, caplog
):
    names = sorted(fleet.settings)
    ns = "/v1/namespaces/upgraded"
    assert (await fleet.ask("n1", "PUT", ns, {"kind": "open"})).status == 201
    assert (await fleet.ask("n1", "POST", f"{ns}/balance/pause", {})).status == 200

    # One node after the other; whatever the old version knew goes on.
    for count, name in enumerate(names):
        if count:
            leader = await fleet.led_by(*names[:count])
            refused = await fleet.ask(leader, "POST", f"{ns}/balance/resume", {})
            assert (refused.status, refused.reason) == (409, "conflict")
            assert "Upgrade every node first" in refused.body["detail"]
            dry = await fleet.ask(leader, "POST", f"{ns}/balance/resume?dry_run=true", {})
            assert dry.status == 409
        await fleet.upgrade(name)
        declared = {"keys": [f"while {name} was upgraded"]}
        assert (await fleet.ask(name, "POST", f"{ns}/shards", declared)).status == 201
        assert fleet.nodes[name].consensus.status().format_in_force == FORMAT

    # All read it: not while one of them is away, and it may come back as anything.
    leader = await fleet.led_by(*names)
    away = next(name for name in names if name != leader)
    await fleet.stop(away)
    assert (await fleet.ask(leader, "POST", f"{ns}/balance/resume", {})).status == 409
    await fleet.start(away, NEW)
    await fleet.is_ready(away)
    leader = await fleet.led_by(*names)
    assert (await fleet.ask(leader, "POST", f"{ns}/balance/resume", {})).status == 200
    shown = (await fleet.ask(leader, "GET", "/v1/cluster")).body
    assert shown["format"] == FORMAT + 1
    assert [node["formats"] for node in shown["nodes"]] == [[FORMAT, FORMAT + 1]] * 3

    # All nodes hold the same bytes, those that came by a snapshot as well.
    await until(lambda: same(fleet))
    written = as_written(fleet.nodes[leader])
    assert written[:40] == as_written(fleet.nodes[away])[:40]

    # From here on an old version is refused, and says so.
    caplog.set_level(logging.WARNING)
    await fleet.stop(away)
    await fleet.start(away, OLD)
    told = f"{away} reads formats 1 to 1, and this cluster uses 2: {away} needs a newer version"
    await until(lambda: is_said(caplog, told))
    await asyncio.sleep(0.5)
    assert not fleet.nodes[away].consensus.status().has_quorum
    assert (await fleet.ask(away, "GET", "/readyz")).status == 503
    await fleet.upgrade(away)
    await until(lambda: same(fleet))


async def is_said(caplog, words):
    return words in caplog.text


async def same(fleet):
    return len({as_written(node) for node in fleet.nodes.values()}) == 1


def test_an_old_version_does_not_apply_what_others_read():
    machine = StateMachine(OLD)
    before = machine.state.image()
    with pytest.raises(UnknownEntry, match=r"format 2, this version reads 1 to 1.*newer version"):
        machine.apply(1, RESUME)
    assert machine.state.image() == before


def test_an_old_version_does_not_take_a_snapshot_that_others_read():
    state = ClusterState()
    state.format = FORMAT + 1
    with pytest.raises(UnknownEntry, match="snapshot format 2, this version reads 1 to 1"):
        next(StateMachine(OLD).prepare(encode_snapshot(state.image())))
