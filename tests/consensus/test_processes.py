"""Three processes on loopback: kill -9, stop and continue, and what is written afterwards."""

import asyncio
import contextlib
import json
import signal
import sys
import time

import pytest

from tests.consensus.cluster import free_ports
from tests.waiting import until


class Member:
    """One process and the last thing it said of each kind."""

    def __init__(self, name):
        self.name = name
        self.role = None
        self.written = 0
        self.written_at_s = 0.0
        self.process = None
        self._reading = None

    async def start(self, peers):
        self.role = None
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.consensus.member", self.name, json.dumps(peers)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self._reading = asyncio.create_task(self._read())

    async def _read(self):
        async for line in self.process.stdout:
            said = json.loads(line)
            if "role" in said:
                self.role = said["role"]
            else:
                self.written, self.written_at_s = said["written"], said["at_s"]

    async def end(self, signum=signal.SIGKILL):
        if self.process.returncode is None:
            self.process.send_signal(signum)
        await self.process.wait()
        await self._reading
        self.process.stdin.close()


@contextlib.asynccontextmanager
async def three_processes():
    names = ("n1", "n2", "n3")
    peers = {n: f"127.0.0.1:{p}" for n, p in zip(names, free_ports(3), strict=True)}
    members = {name: Member(name) for name in names}
    try:
        for member in members.values():
            await member.start(peers)
        yield members, peers
    finally:
        for member in members.values():
            await member.end()


def writer(members, since_s):
    """The member that wrote after this moment."""
    return next((m for m in members.values() if m.written_at_s > since_s), None)


@pytest.mark.timeout(60)
async def test_a_killed_leader_costs_less_than_one_and_a_half_seconds_and_no_write():
    async with three_processes() as (members, peers):
        leader = await until(lambda: writer(members, 0.0), 15.0)
        for _ in range(3):
            await until(lambda old=leader: old.role == "leader", 5.0)
            await leader.end()
            killed_s, written = time.monotonic(), leader.written
            others = {n: m for n, m in members.items() if m is not leader}
            successor = await until(lambda o=others, s=killed_s: writer(o, s), 5.0)
            assert successor.written_at_s - killed_s < 1.5
            assert successor.written > written  # counts on: nothing acknowledged is lost
            await leader.start(peers)
            await until(lambda old=leader: old.role == "follower", 10.0)
            leader = successor


@pytest.mark.timeout(60)
async def test_a_leader_that_stood_still_is_replaced_and_follows_when_it_wakes():
    async with three_processes() as (members, _):
        leader = await until(lambda: writer(members, 0.0), 15.0)
        leader.process.send_signal(signal.SIGSTOP)
        stopped_s = time.monotonic()
        others = {n: m for n, m in members.items() if m is not leader}
        successor = await until(lambda: writer(others, stopped_s + 0.3), 5.0)
        assert successor.written_at_s - stopped_s < 2.5
        leader.process.send_signal(signal.SIGCONT)
        await until(lambda: leader.role == "follower", 5.0)
        count = leader.written
        await until(lambda: successor.written > count + 50, 5.0)
        assert leader.written == count
