"""Loads outlive their leader: when they are written, and what the next one does with them."""

from dataclasses import replace
from itertools import pairwise

import pytest

from coordinator.core import commands as c
from coordinator.core.controller import load_record
from coordinator.core.controller.load_record import PERIOD_S, LoadRecord
from coordinator.core.load import LoadBook
from coordinator.core.saved_loads import CHUNK_BYTES, SavedLoads, Sweep, unpacked
from coordinator.core.types import NamespaceKind
from tests.core.builders import NS, applied, balancer, empty, space
from tests.core.controller_world import World, quick

HORIZON_S = 240.0
SAMPLE_S = HORIZON_S / 2


def uneven(key: str) -> float:
    return 1.0 + int(key) % 5


def world(shards: int = 40, **policy: float) -> World:
    fields = {"smoothing_horizon_s": HORIZON_S, "cooldown_s": 1.0, **policy}
    return World(
        4, shards, policy=replace(quick(), balancer=balancer(**fields).balancer), load=uneven
    )


def mind_loads(world: World) -> dict[str, float]:
    assert world.controller is not None
    return world.controller.mind(world.space, world.now).loads.means()


def test_a_sweep_is_written_each_minute_and_none_without_news() -> None:
    busy = world().run(2 * PERIOD_S + 5)
    assert len(busy.sent(c.RecordLoads)) == 2
    for member in busy.members.values():
        member.is_cut_off = True
    before = busy.now
    busy.run(2 * PERIOD_S)
    assert len(busy.sent(c.RecordLoads, since=before)) <= 1


def test_all_chunks_of_a_large_namespace_come_within_its_minute_and_hold_every_load() -> None:
    state = empty(kind=NamespaceKind.OPEN)
    keys = [f"{'k' * 240}{number}" for number in range(900)]
    applied(state, c.DeclareShards(namespace=NS, keys=tuple(keys)))
    loads = LoadBook(HORIZON_S, 2.0)
    loads.fold("e1", dict.fromkeys(keys, 1.0), keys, 0.0)
    record = LoadRecord.begin(space(state), 0.0)
    now, sent = 0.0, []
    while space(state).loads.whole is None:
        for command in record.write(space(state), loads, now, 7):
            assert isinstance(command, c.RecordLoads)
            sent.append(now)
            applied(state, command)
            record.learn(command, now, is_applied=True)
        now += 0.1
    sweep = space(state).loads.whole
    assert len(sweep.chunks) > 3
    assert all(len(chunk) <= CHUNK_BYTES for chunk in sweep.chunks)
    found = [key for chunk in sweep.chunks for key, _, _ in unpacked(chunk)]
    assert sorted(found) == sorted(keys)
    assert min(later - at for at, later in pairwise(sent)) > PERIOD_S / 2 / len(sent)
    assert sent[-1] - sent[0] < PERIOD_S


def test_a_sweep_ends_at_its_bound_and_counts_as_far_as_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_record, "CHUNKS_MAX", 2)
    state = empty(kind=NamespaceKind.OPEN)
    keys = [f"{'k' * 240}{number}" for number in range(900)]
    applied(state, c.DeclareShards(namespace=NS, keys=tuple(keys)))
    sweep = list(load_record._sweep(space(state)))
    assert [is_last for _, is_last in sweep] == [False, True]
    assert 0 < sum(len(some) for some, _ in sweep) < len(keys)


def test_a_new_leader_knows_the_loads_of_the_former_one_and_need_not_listen_for_long() -> None:
    warm = world().run(SAMPLE_S + 2 * PERIOD_S)
    known = mind_loads(warm)
    warm.elect()
    warm.run(1.0)
    assert set(mind_loads(warm)) == set(known)
    for key, load in mind_loads(warm).items():
        assert abs(load - known[key]) < 0.01 * known[key]
    mind = warm.controller.mind(warm.space, warm.now) if warm.controller else None
    assert mind is not None
    assert mind.next_pass_at <= mind.began_at + warm.space.info.policy.lease_ttl_s


def test_a_record_of_a_short_sample_does_not_spare_the_next_leader_the_listening() -> None:
    cold = world().run(PERIOD_S + 10)
    assert cold.space.loads.whole is not None
    cold.elect()
    cold.run(1.0)
    assert cold.controller is not None
    mind = cold.controller.mind(cold.space, cold.now)
    assert mind.next_pass_at > mind.began_at + SAMPLE_S - 1


def test_a_new_joiner_after_a_change_of_leaders_is_given_its_share_within_minutes() -> None:
    late = world().run(SAMPLE_S + 2 * PERIOD_S)
    late.elect()
    late.add("e5")
    took_s = late.run_until(lambda one: one.counts.get("e5", 0) > 0, SAMPLE_S)
    assert took_s < 60.0


def test_a_lost_outcome_begins_the_sweep_anew_and_ends_whole() -> None:
    troubled = world().run(20.0)
    assert troubled.controller is not None
    mind = troubled.controller.mind(troubled.space, troubled.now)
    at_ms = 1
    assert mind.record.write(troubled.space, mind.loads, troubled.now + PERIOD_S, at_ms) == []
    assert mind.record.next_at <= troubled.now + PERIOD_S  # at once, in the next step
    (command,) = mind.record.write(troubled.space, mind.loads, troubled.now + PERIOD_S, at_ms)
    troubled.controller.learn(command, None, troubled.state, troubled.now + PERIOD_S)
    assert mind.record.sweep is None
    troubled.run(3 * PERIOD_S)
    assert troubled.space.loads.whole is not None


def test_what_cannot_be_read_costs_nothing_but_itself() -> None:
    odd = world(3)
    odd.space.loads = SavedLoads(Sweep(1, (b"noise",)))
    odd.elect()
    odd.run(20.0)
    assert odd.is_settled()
