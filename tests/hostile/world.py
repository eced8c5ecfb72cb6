"""Three real nodes on a loop of their own, for callers that are not on it.

The nodes live on while a caller thinks: a machine that draws its next step for a second must not
look like a cluster that stood still.
"""

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Self, TypeVar

from tests.api.nodes import Answer, Caller, calling, ready, running, settings_of
from tests.windows import close_window

T = TypeVar("T")
NODES = 3
ASK_S = 60.0
LATER = {"no_leader", "outcome_unknown", "rate_limited", "recovering"}
POLICY = {
    "initial_hold_s": 0,
    "lease_ttl_s": 600,
    "balancer": {"mode": "off"},
    "poison_threshold": None,
    "return_window_s": 0,
}
"""Nothing happens by itself: no lease ends, nothing is moved but what was ordered."""


class World:
    """Asks any of three nodes; every answer is held against the OpenAPI document."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nodes", daemon=True)
        self._context = contextlib.AsyncExitStack()
        self._callers: list[Caller] = []
        self._nodes: list[Any] = []
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._context.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ASK_S)
        self._loop.close()

    async def _start(self) -> None:
        self._nodes = await self._context.enter_async_context(running(*settings_of(NODES)))
        for node in self._nodes:
            self._callers.append(await self._context.enter_async_context(calling(node)))
        for caller in self._callers:
            await ready(caller)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ASK_S)

    def ask(
        self,
        node: int,
        method: str,
        path: str,
        body: Any = None,
        *,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """An answer, once there is a leader to give it.

        On a busy machine three nodes of one process lose their leader now and then. Whoever was
        refused for that, or does not know what came of it, asks again under the same key.
        """
        told = {"Idempotency-Key": f"w-{next(self._numbers)}", **(headers or {})}
        ends_at = time.monotonic() + ASK_S
        while True:
            answer = self.run(self._callers[node].ask(method, path, body, data=data, headers=told))
            if answer.reason not in LATER or time.monotonic() > ends_at:
                return answer
            time.sleep(0.05)

    def namespace(self) -> str:
        """A fresh open namespace that takes no claims; its path."""
        name = f"m{next(self._numbers)}"
        path = f"/v1/namespaces/{name}"
        answer = self.ask(0, "PUT", path, {"kind": "open", "policy": POLICY})
        assert answer.status == 201, answer.raw
        self.run(close_window(self._nodes, name))
        return path

    def forget(self, path: str) -> None:
        name = path.rpartition("/")[2]
        answer = self.ask(0, "DELETE", f"{path}?confirm={name}&force=true")
        assert answer.status == 204, answer.raw
