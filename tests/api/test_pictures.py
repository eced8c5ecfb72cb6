"""What pictures of a fleet are drawn from: the same figures as everywhere, in a bounded answer."""

import asyncio
from typing import Any

import pytest

from coordinator.api.kept import FRESH_FOR, KEPT_MAX, KeptAnswers
from coordinator.api.operators import pictures
from coordinator.clock import Clock
from coordinator.core.balance_series import BalancePoint
from coordinator.core.saved_loads import SavedLoads
from coordinator.node import Node
from tests.api.nodes import Caller
from tests.api.test_outlook import report, uneven
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

SAME = (
    "hottest",
    "hottest_executor",
    "mean",
    "coldest",
    "coldest_executor",
    "spread",
    "best_possible",
    "mode",
    "pause",
    "skipped",
    "skipped_why",
    "blocked",
    "blocked_why",
    "in_flight",
    "unmeasured",
    "moves",
)


async def drawn(api: Caller, ns: str) -> dict[str, Any]:
    answer = await api.get(f"{ns}/balance/placement")
    assert answer.status == 200, answer.raw
    assert "X-Revision" in answer.headers
    placement: dict[str, Any] = answer.body
    return placement


async def test_the_picture_has_the_figures_of_the_balance(api: Caller):
    ns = await uneven(api, high_mark=5.0)
    told, balance = await drawn(api, ns), (await api.get(f"{ns}/balance")).body
    assert {name: told[name] for name in SAME} == {name: balance[name] for name in SAME}
    assert told["static_hash_hottest"] == balance["static_hash_hottest"]
    assert told["best_possible_hottest"] == pytest.approx(8 / 3)
    assert (told["high_mark"], told["start_gap"], told["quiet_mark"]) == (5.0, 0.2, None)
    assert (told["shards"], told["vacant"], told["parked"]) == (8, 0, 0)
    shares = {one["executor"]: one for one in balance["executors"]}
    for column in told["executors"]:
        share = shares[column["executor"]]
        assert column["load"] == share["load"]
        assert column["utilisation"] == share["utilisation"]
        assert column["shards"] == share["shards"] == len(column["cells"])
        assert column["heartbeat_age_s"] < 60.0
        assert column["may_receive"]
        assert not column["silent"]
    assert [one["host"] for one in told["executors"]] == ["h1", "h2", "h3"]


async def test_cells_say_what_holds_a_shard_and_where_it_goes(api: Caller):
    ns = await uneven(api)
    await api.post(f"{ns}/shards/k0/pin", {"executor": "e1"})
    await api.post(f"{ns}/shards/k1/move", {"to": "e2"})
    await api.post(f"{ns}/shards/k2/drain")
    await api.release(ns, "e1")
    await api.post(f"{ns}/shards/k3/move", {"to": "e3"})
    await api.post(f"{ns}/executors/e3/cordon")
    told = await until(lambda: moving(api, ns))
    columns = {one["executor"]: one for one in told["executors"]}
    marks = {key: mark for one in told["executors"] for key, _, mark in one["cells"]}
    assert (marks["k0"], marks["k3"], marks["k4"]) == ("pinned", "in_flight", "")
    assert "k3" in [key for key, _, _ in columns["e3"]["cells"]]
    assert "k1" in [key for key, _, _ in columns["e2"]["cells"]]
    assert (told["parked"], told["pinned"], told["in_flight"]) == (1, 1, 1)
    assert (columns["e3"]["status"], columns["e3"]["may_receive"]) == ("cordoned", False)


async def moving(api: Caller, ns: str) -> dict[str, Any] | None:
    told = await drawn(api, ns)
    return told if told["in_flight"] == told["parked"] == 1 else None


async def test_a_large_fleet_is_told_by_its_heaviest_shards_and_a_rest(
    api: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pictures, "CELLS_MAX", 6)
    ns = await uneven(api)
    columns = {one["executor"]: one for one in (await drawn(api, ns))["executors"]}
    crowded = columns["e1"]
    assert [key for key, _, _ in crowded["cells"]] == ["k0", "k1"]
    assert (crowded["rest"], crowded["rest_load"]) == (4, pytest.approx(4.0))
    assert crowded["load"] == pytest.approx(6.0)


async def test_a_saturated_executor_is_marked(api: Caller):
    ns = await uneven(api)
    for sequence in (3, 4, 5):
        await report(api, ns, "e1", sequence, event_loop_lag_s=0.5)
    told = {one["executor"]: one["saturated"] for one in (await drawn(api, ns))["executors"]}
    assert told == {"e1": True, "e2": False, "e3": False}


async def test_an_empty_namespace_has_a_picture(api: Caller):
    ns = await api.namespace()
    told = await drawn(api, ns)
    assert (told["executors"], told["hottest"], told["skipped"]) == ([], 0.0, "no_executors")
    assert (await api.get("/v1/namespaces/nobody/balance/placement")).reason == (
        "namespace_not_found"
    )


# -- over time -------------------------------------------------------------------------------


async def test_the_series_goes_on_from_the_replicated_past_to_the_last_seconds(
    api: Caller, node: Node
):
    ns = await uneven(api)
    state = node.replica.state.namespaces[ns.rpartition("/")[2]]
    state.loads = SavedLoads(past=(BalancePoint(1_000, 3.0, 2.0, 1.0, 0.5, 4),))
    answer = await until(lambda: two_points(api, ns))
    first, last = answer["points"][0], answer["points"][-1]
    assert first == {
        "at": "1970-01-01T00:00:01.000Z",
        "hottest": 3.0,
        "mean": 2.0,
        "coldest": 1.0,
        "spread": 0.5,
        "best_possible": None,
        "static_hash": None,
        "executors": 4,
    }
    balance = (await api.get(f"{ns}/balance")).body
    assert (last["hottest"], last["mean"]) == (balance["hottest"], balance["mean"])
    later = (await api.get(f"{ns}/balance/series?since={last['at']}")).body["points"]
    assert all(one["at"] > last["at"] for one in later)
    since = (await api.get(f"{ns}/balance/series?since={first['at']}")).body["points"]
    assert since[0] != first


async def two_points(api: Caller, ns: str) -> dict[str, Any] | None:
    answer: dict[str, Any] = (await api.get(f"{ns}/balance/series")).body
    return answer if len(answer["points"]) >= 2 else None


@pytest.mark.parametrize("since", ["", "now", "12", "2026-13-01T00:00:00Z", "9" * 50])
async def test_a_time_that_is_none_is_refused(api: Caller, since: str):
    ns = await api.namespace()
    assert (await api.get(f"{ns}/balance/series?since={since}")).reason == "invalid"


# -- made once for many ----------------------------------------------------------------------


class Hands(Clock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0


async def test_an_answer_is_made_once_for_all_who_ask_while_it_is_fresh():
    clock, made = Hands(), []
    kept = KeptAnswers(clock)

    async def slow() -> bytes:
        await asyncio.sleep(0)
        clock.now += 0.1
        made.append(clock.now)
        return b"%d" % len(made)

    first = await asyncio.gather(*(kept.of("ns", slow) for _ in range(3)))
    assert first == [b"1"] * 3
    clock.now += 0.1 * FRESH_FOR - 0.001
    assert await kept.of("ns", slow) == b"1"
    clock.now += 0.002
    assert await kept.of("ns", slow) == b"2"
    assert await kept.of("other", slow) == b"3"


async def test_one_that_asks_and_leaves_takes_it_from_nobody_and_a_failure_is_not_kept():
    kept = KeptAnswers(Hands())
    go_on = asyncio.Event()

    async def failing() -> bytes:
        raise RuntimeError

    async def waiting() -> bytes:
        await go_on.wait()
        return b"there"

    with pytest.raises(RuntimeError):
        await kept.of("ns", failing)
    one, two = (asyncio.ensure_future(kept.of("ns", waiting)) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    go_on.set()
    assert await two == b"there"


async def test_no_more_answers_are_kept_than_the_bound():
    clock, made = Hands(), []
    kept = KeptAnswers(clock)

    async def slow() -> bytes:
        clock.now += 1.0
        made.append(0)
        return b""

    for number in range(KEPT_MAX + 3):
        await kept.of(number, slow)
    assert len(kept._kept) == KEPT_MAX
