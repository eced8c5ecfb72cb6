"""How evenly the load lies, looked at beside everything else, and once for all who ask."""

import asyncio
import sys
from dataclasses import dataclass

import pytest

from coordinator.core import commands as c
from coordinator.core.controller.facts import balance_facts
from coordinator.forecasts import FEW, FRESH_S, SWITCH_S, Forecasts
from tests.core.builders import AT_MS, NS, applied, start
from tests.core.test_controller_passes import NOW, Large


@dataclass
class Clock:
    """Time as it is told."""

    now: float = NOW + 20

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return AT_MS


async def test_whoever_asks_while_it_is_looked_at_waits_for_the_same_and_the_loop_turns() -> None:
    large, clock = Large(), Clock()
    assert len(large.space.shards) > FEW
    forecasts = Forecasts(clock)
    turns = 0

    async def turning() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(turning())
    asking = [forecasts.facts(large.space, large.mind, AT_MS) for _ in range(3)]
    first, second, third = await asyncio.gather(*asking)
    task.cancel()
    assert turns > 2
    assert first == second == third == balance_facts(large.space, large.mind, clock.now, AT_MS)
    assert first.bound is second.bound


async def test_what_was_found_holds_for_a_moment_unless_something_changed() -> None:
    large, clock = Large(), Clock()
    forecasts = Forecasts(clock)
    first = await forecasts.facts(large.space, large.mind, AT_MS)
    clock.now += FRESH_S / 2
    assert (await forecasts.facts(large.space, large.mind, AT_MS)).bound is first.bound
    clock.now += FRESH_S
    third = await forecasts.facts(large.space, large.mind, AT_MS)
    assert third.bound is not first.bound
    start(large.state, "1", "e2")
    fourth = await forecasts.facts(large.space, large.mind, AT_MS)
    assert fourth.in_flight == 1


async def test_an_order_that_came_meanwhile_shows() -> None:
    large, clock = Large(), Clock()
    forecasts = Forecasts(clock)
    asking = asyncio.create_task(forecasts.facts(large.space, large.mind, AT_MS))
    await asyncio.sleep(0)
    applied(large.state, c.PauseBalancer(namespace=NS, reason="", by="", at_ms=0))
    assert (await asking).skipped == "paused"


async def test_beside_a_calculation_the_loop_has_the_interpreter_back_at_once() -> None:
    forecasts = Forecasts(Clock())
    usual_s = sys.getswitchinterval()
    assert await forecasts.beside(sys.getswitchinterval) == pytest.approx(SWITCH_S)
    assert sys.getswitchinterval() == usual_s
    with pytest.raises(ZeroDivisionError):
        await forecasts.beside(lambda: 1 / 0)
    assert sys.getswitchinterval() == usual_s
