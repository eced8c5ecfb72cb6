"""When the watchdog is fed and when it is left hungry."""

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from client.testing.solo import SoloConsensus
from coordinator.meters import Meters
from coordinator.notify import Notifier
from coordinator.pulse import BEAT_S, FEEDS_A_WATCH, Pulse, describe
from coordinator.replica import StateMachine
from tests.waiting import until

STATUS = SoloConsensus(StateMachine(), "http://127.0.0.1:7070").status()
WATCHDOG_S = 9.0


@dataclass
class Heard:
    """In the notifier's place: what was said."""

    watchdog_s: float | None = WATCHDOG_S
    is_heard: bool = True
    words: list[str] = field(default_factory=list)

    def alive(self) -> None:
        self.words.append("alive")

    def status(self, text: str) -> None:
        self.words.append(text)


def pulse_of(heard: Heard, **changes: object) -> Pulse:
    status = replace(STATUS, **changes)  # type: ignore[arg-type]
    return Pulse(Meters(), cast("Notifier", heard), lambda: status, "n1")


def feeds(pulse: Pulse, heard: Heard, seconds: float) -> int:
    for number in range(round(seconds / BEAT_S)):
        pulse.tell(100.0 + number * BEAT_S)
    return heard.words.count("alive")


def test_the_watchdog_is_fed_several_times_within_its_time() -> None:
    heard = Heard()
    fed = feeds(pulse_of(heard, stepped_age_s=0.01), heard, WATCHDOG_S)
    assert FEEDS_A_WATCH <= fed <= FEEDS_A_WATCH + 1


def test_a_consensus_that_steps_no_more_leaves_the_watchdog_hungry() -> None:
    heard = Heard()
    assert feeds(pulse_of(heard, stepped_age_s=WATCHDOG_S / 3), heard, WATCHDOG_S) == 0


def test_without_peers_leader_or_disk_it_lives_all_the_same() -> None:
    heard = Heard()
    lost = pulse_of(heard, leader=None, has_quorum=False, disk_fault="full", stepped_age_s=0.0)
    assert feeds(lost, heard, WATCHDOG_S) >= FEEDS_A_WATCH


def test_where_nobody_watches_nobody_is_fed() -> None:
    heard = Heard(watchdog_s=None)
    assert feeds(pulse_of(heard), heard, WATCHDOG_S) == 0
    assert len(heard.words) == 1


def test_the_status_is_told_when_it_changes() -> None:
    heard = Heard(watchdog_s=None)
    seen = [replace(STATUS, term=1)]
    pulse = Pulse(Meters(), cast("Notifier", heard), lambda: seen[0], "n1")
    for at in (1.0, 2.0, 3.0):
        pulse.tell(at)
    seen[0] = replace(STATUS, term=2, disk_fault="no space")
    pulse.tell(4.0)
    assert heard.words == [describe("n1", replace(STATUS, term=1)), describe("n1", seen[0])]
    assert "term 2" in heard.words[1]
    assert "no space" in heard.words[1]


async def test_a_loop_that_is_held_up_shows_in_the_lag() -> None:
    meters = Meters()
    pulse = Pulse(meters, Notifier({}), lambda: STATUS, "n1")
    pulse.start()
    await asyncio.sleep(0)  # it waits for its first beat
    time.sleep(BEAT_S + 0.15)  # noqa: ASYNC251 - this is what holds a loop up
    await until(lambda: meters.loop_lag.total_s)
    await pulse.stop()
    assert meters.loop_lag.total_s >= 0.14


def test_a_solo_status_is_what_the_tests_take_it_for() -> None:
    assert STATUS.stepped_age_s == 0.0
    assert pytest.approx(WATCHDOG_S) == Heard().watchdog_s
