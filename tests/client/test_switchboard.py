"""Here or there: where calls go, before, during and after moves."""

import asyncio

import pytest

from client import Executor, Misdirected, Owner, Router, Shard, Switchboard, TimedOut
from client.testing import LocalCluster


class Process:
    """One process of a service: what it is asked for it does, or sends on to its peers."""

    def __init__(self, cluster, name, peers, start_s=0.0):
        self.cluster, self.name, self.peers, self.start_s = cluster, name, peers, start_s
        self.calls, self.resent = 0, 0
        peers[f"{name}:80"] = self

    async def __aenter__(self):
        async def start(_shard):
            await asyncio.sleep(self.start_s)

        async def stop(_shard):
            pass

        common = {"namespace": "test"}
        self.executor = Executor(
            self.cluster.endpoints,
            **common,
            name=self.name,
            address=f"{self.name}:80",
            on_start=start,
            on_stop=stop,
        )
        self.router = Router(self.cluster.endpoints, **common)
        await self.executor.__aenter__()
        await self.router.__aenter__()
        await self.router.ready(timeout_s=5)
        self.switchboard = Switchboard(self.executor, self.router)
        return self

    async def __aexit__(self, *error):
        await self.router.__aexit__(None, None, None)
        await self.executor.__aexit__(None, None, None)

    async def here(self, shard):
        assert shard.may_act()
        self.calls += 1
        return self.name, shard.epoch

    async def there(self, owner):
        self.resent += 1
        await asyncio.sleep(0.001)
        peer = self.peers[owner.address]
        return await peer.here(await peer.switchboard.owned(owner.key))

    async def ask(self, key, **options):
        return await self.switchboard.call(key, self.here, self.there, **options)


@pytest.fixture
async def peers():
    return {}


async def test_a_call_is_answered_here_or_goes_to_whom_the_shard_belongs(peers):
    async with (
        LocalCluster() as cluster,
        Process(cluster, "a", peers) as a,
        Process(cluster, "b", peers) as b,
    ):
        await cluster.place({"orders": "a", "mail": "b"})
        assert (await a.ask("orders"))[0] == (await b.ask("orders"))[0] == "a"
        assert (await a.ask("mail"))[0] == (await b.ask("mail"))[0] == "b"
        assert (a.resent, b.resent) == (1, 1)
        assert isinstance(a.switchboard.find("orders"), Shard)
        theirs = a.switchboard.find("mail")
        assert isinstance(theirs, Owner)
        assert theirs.address == "b:80"
        assert a.switchboard.find("new") is None


async def test_a_shard_that_nobody_has_asked_for_is_made(peers):
    async with LocalCluster() as cluster, Process(cluster, "a", peers) as a:
        assert (await a.ask("new"))[0] == "a"


async def test_no_call_is_lost_while_shards_move(peers):
    """Each is answered under the epoch that is current, by the owner of the moment."""
    async with (
        LocalCluster() as cluster,
        Process(cluster, "a", peers, start_s=0.05) as a,
        Process(cluster, "b", peers, start_s=0.05) as b,
        Process(cluster, "c", peers) as c,
    ):
        cluster.wire.latency_s = 0.002
        await cluster.place({"orders": "a"})
        answers = []

        async def keep_asking(process):
            for _ in range(100):
                answers.append(await process.ask("orders"))
                await asyncio.sleep(0.01)

        asking = [asyncio.create_task(keep_asking(one)) for one in (a, b, c)]
        for to in ("b", "a", "b"):
            await asyncio.sleep(0.2)
            await cluster.move("orders", to)
        await asyncio.gather(*asking)
        assert len(answers) == 300
        epochs = [epoch for _, epoch in answers]
        assert epochs == sorted(epochs)
        assert len({name for name, _ in answers}) == 2


async def test_a_call_outlives_the_loss_of_its_owner(peers):
    async with (
        LocalCluster() as cluster,
        Process(cluster, "a", peers) as a,
        Process(cluster, "b", peers) as b,
    ):
        await cluster.place({"orders": "a"})
        lost = asyncio.create_task(cluster.expire("a"))
        await cluster.until(lambda: not a.executor.owned("orders"))
        assert (await b.ask("orders", timeout_s=20))[0] == "b"
        await lost


async def test_a_call_for_a_shard_that_nobody_takes_ends_in_time(peers):
    async with (
        LocalCluster() as cluster,
        Process(cluster, "a", peers) as a,
        Process(cluster, "b", peers) as b,
    ):
        await cluster.place({"orders": "a"})
        cluster.cut("a")
        await cluster.until(lambda: not a.executor.owned("orders"))
        began_at = cluster.now()
        with pytest.raises((TimedOut, Misdirected)):
            await b.ask("orders", timeout_s=0.5)
        assert cluster.now() - began_at < 2
        assert b.resent < 40
        cluster.heal("a")


async def test_what_was_sent_on_is_not_sent_on_again(peers):
    async with (
        LocalCluster() as cluster,
        Process(cluster, "a", peers) as a,
        Process(cluster, "b", peers, start_s=0.3) as b,
    ):
        await cluster.place({"orders": "a"})
        with pytest.raises(Misdirected):
            await b.switchboard.owned("orders")
        moved = asyncio.create_task(cluster.move("orders", "b"))
        await cluster.advance(0.1)
        assert b.executor.owned("orders") is None
        shard = await b.switchboard.owned("orders", timeout_s=2)
        assert shard.may_act()
        await moved
        assert a.executor.owned("orders") is None


async def test_a_shard_is_not_served_before_its_start_has_ended(peers):
    async with LocalCluster() as cluster, Process(cluster, "a", peers, start_s=0.5) as a:
        await cluster.declare("orders")
        assert cluster.owners() == {"orders": "a"}
        assert a.executor.owned("orders") is None
        assert a.switchboard.find("orders") is None
        began_at = cluster.now()
        assert (await a.ask("orders"))[0] == "a"
        assert 0.4 < cluster.now() - began_at < 0.8


async def test_who_has_let_a_shard_go_refuses_at_once(peers):
    """Not after having waited for it to come back: that would be the pause of every move."""
    async with (
        LocalCluster() as cluster,
        Process(cluster, "a", peers) as a,
        Process(cluster, "b", peers, start_s=0.3) as b,
    ):
        await cluster.place({"orders": "a"})
        moved = asyncio.create_task(cluster.move("orders", "b"))
        await cluster.until(lambda: not a.executor.owned("orders"))
        began_at = cluster.now()
        with pytest.raises(Misdirected):
            await a.switchboard.owned("orders", timeout_s=5)
        assert cluster.now() == began_at
        assert (await b.switchboard.owned("orders", timeout_s=5)).may_act()
        await moved


async def test_what_a_call_raises_is_raised_and_ends_it(peers):
    async with LocalCluster() as cluster, Process(cluster, "a", peers) as a:
        await cluster.declare("orders")

        async def breaks(_shard):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await a.switchboard.call("orders", breaks, a.there)
