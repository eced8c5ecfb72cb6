"""A wall clock that runs backwards: people read odd times, and nothing else comes of it."""

from coordinator.clock import SystemClock
from coordinator.node import Node
from tests.api.nodes import _RUNNING, calling, ready, settings_of

HOUR_MS = 3_600_000


class Backwards(SystemClock):
    """Each look at the wall is an hour before the last one, from today's date on."""

    def __init__(self) -> None:
        self._ms = super().wall_ms()

    def wall_ms(self) -> int:
        self._ms -= HOUR_MS
        return self._ms


async def test_ownership_orders_and_questions_do_not_mind_a_wall_that_goes_back():
    (settings,) = settings_of()
    node = Node(settings, clock=Backwards())
    await node.start()
    _RUNNING.append(node)
    try:
        async with calling(node) as api:
            await ready(api)
            ns = await api.namespace()
            await api.join(ns, "e1")
            await api.join(ns, "e2")
            epochs = [(await api.owner(ns, key))["epoch"] for key in "abcd"]
            assert epochs == sorted(set(epochs))
            for sequence in range(2, 6):
                assert (await api.beat(ns, "e1", sequence)).status == 200
            for verb in ("drain", "undrain", "cordon", "uncordon"):
                answer = await api.post(f"{ns}/executors/e1/{verb}", {"reason": "odd"})
                assert answer.status in {200, 202}, answer.raw
            await api.release(ns, "e1")
            for at in ("/events", "/balance", "/balance/history", "/executors", "/shards/a"):
                assert (await api.get(ns + at)).status == 200, at
            ids = [event["id"] for event in (await api.get(f"{ns}/events")).body["events"]]
            assert ids == sorted(ids)
            for key in "abcd":
                assert (await api.owner(ns, key))["epoch"] >= epochs[0]
            assert (await api.get("/metrics")).status == 200
    finally:
        _RUNNING.remove(node)
        await node.stop()
