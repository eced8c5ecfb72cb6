"""A rate limiter over many processes: each caller's bucket is in exactly one of them.

    python -m client.examples.rate_limiter --name a --port 8001
    curl -X POST http://127.0.0.1:8001/take/alice

Callers are countless and cheap, so they are not shards themselves: each belongs, by hash, to one of
64 shards of a fixed namespace. Any process may be asked. A bucket that moves starts full: of a
limiter that is no harm, so nothing is stored, and no fence is needed.
"""

import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Final

from aiohttp import web

from client import Executor, Operator, Router, Shard, shard_for
from client.examples.front import Arguments, Front, main, serving, until_signalled

NAMESPACE: Final = "limits"
SHARDS: Final = 64
BURST: Final = 10.0
PER_S: Final = 1.0
CALLERS_MAX: Final = 100_000
"""Buckets of one shard; the ones unused for longest are full again by then, and forgotten."""


class Buckets:
    """The buckets of the shards that run here."""

    def __init__(self) -> None:
        self._by_shard: dict[str, OrderedDict[str, tuple[float, float]]] = {}

    async def run(self, shard: Shard) -> AsyncGenerator[None, None]:
        """A shard's life: its buckets are there while it runs."""
        self._by_shard[shard.key] = OrderedDict()
        yield
        del self._by_shard[shard.key]

    def take(self, shard: Shard, caller: str, now: float) -> float | None:
        """How many tokens are left after one was taken; None if there was none."""
        shard.add_load()  # also for what is refused: that is load, too
        buckets = self._by_shard[shard.key]
        tokens, at = buckets.pop(caller, (BURST, now))
        tokens = min(BURST, tokens + (now - at) * PER_S)
        is_allowed = tokens >= 1.0
        buckets[caller] = (tokens - 1.0 if is_allowed else tokens, now)
        if len(buckets) > CALLERS_MAX:
            buckets.popitem(last=False)
        return tokens - 1.0 if is_allowed else None


class Limiter:
    """One process of the limiter."""

    def __init__(self, name: str) -> None:
        self._front: Final = Front(name)
        self._buckets: Final = Buckets()

    async def take(self, request: web.Request) -> web.Response:
        """POST /take/CALLER."""
        caller = request.match_info["caller"]

        async def here(shard: Shard) -> web.Response:
            left = self._buckets.take(shard, caller, time.monotonic())
            status = 429 if left is None else 200
            return web.json_response({"shard": shard.key, "left": left}, status=status)

        return await self._front.serve(request, shard_for(caller, SHARDS), here)

    async def run(self, given: Arguments) -> None:
        """Until a signal comes."""
        async with Operator(given.endpoints) as operator:
            await operator.create_namespace(NAMESPACE, kind="fixed", shard_count=SHARDS)
        app = web.Application()
        app.router.add_post("/take/{caller}", self.take)
        async with serving(app, given.port) as address:
            executor = Executor(
                given.endpoints, namespace=NAMESPACE, name=given.name, address=address
            )
            executor.shard(self._buckets.run)
            async with self._front.open(executor, Router(given.endpoints, namespace=NAMESPACE)):
                await until_signalled(executor, address)


if __name__ == "__main__":
    main(lambda given: Limiter(given.name).run(given), __doc__)
