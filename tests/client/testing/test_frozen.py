"""What needs no coordinator and no loop: routers that know what they were told, lone shards."""

import pytest

from client import LeaseLost, Router, Shard, ShardParked, Unassigned
from client.fencing import Token
from client.testing import LoneShard, freeze

PLACEMENT = {"orders": "e1", "mail": "e2"}


def test_a_frozen_router_is_a_router_that_answers_at_once():
    router = freeze(PLACEMENT, addresses={"e1": "10.0.0.1:80"})
    assert isinstance(router, Router)
    owner = router.owner("orders")
    assert owner is not None
    assert (owner.executor, owner.address) == ("e1", "10.0.0.1:80")
    assert router.owner("new") is None
    assert router.is_ready
    assert not router.is_stale
    assert len(router) == 2


async def test_everything_that_a_router_can_be_asked_is_answered_without_anybody():
    async with freeze(PLACEMENT) as router:
        await router.ready(timeout_s=0)
        owner = await router.lookup("mail")
        assert owner.executor == "e2"
        assert await router.misdirected("mail", owner.epoch) == owner
        with pytest.raises(Unassigned):
            await router.lookup("new")


async def test_a_move_raises_the_epoch_and_a_park_takes_the_owner_away():
    router = freeze(PLACEMENT)
    before = router.owner("orders")
    moved = router.move("orders", "e2")
    assert router.owner("orders") == moved
    assert moved.executor == "e2"
    assert before is not None
    assert moved.epoch > max(before.epoch, router.owners()["mail"].epoch)
    router.park("orders")
    assert router.owner("orders") is None
    with pytest.raises(ShardParked):
        await router.lookup("orders")
    assert router.move("orders", "e1").epoch > moved.epoch
    assert not router.is_parked("orders")
    router.drop("mail")
    assert router.owner("mail") is None


def test_a_lone_shard_is_owned_until_it_is_lost():
    shard = LoneShard("orders", namespace="jobs", epoch=7)
    assert isinstance(shard, Shard)
    assert (shard.namespace, shard.key, shard.epoch) == ("jobs", "orders", 7)
    assert shard.may_act()
    assert shard.lease_left_s > 1e6
    shard.require_owned()
    shard.add_load(3)
    shard.set_load(0.5)
    shard.adopt(9)
    assert shard.epoch == 9
    with pytest.raises(ValueError, match="only grows"):
        shard.adopt(9)
    shard.lose()
    assert not shard.may_act()
    with pytest.raises(LeaseLost):
        shard.require_owned()


def test_a_lone_shard_can_be_fenced_like_any_other():
    assert Token.of(LoneShard("orders", epoch=7)).epoch == 7
