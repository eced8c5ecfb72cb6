"""An executor that answers calls for its shards over HTTP, in its own process.

`python -m bench.moves.served JSON`, with the fields of `Task`. A call says which epoch it relies on
at least. If the shard runs here under that or a later one, it is answered; if it was given up under
that epoch, it is refused at once, so that the caller asks the next owner; and if that epoch has not
come to this process yet, the call waits for it. Ends on SIGTERM: hands its shards over, and goes on
refusing late calls for `Task.linger_s`.
"""

import asyncio
import contextlib
import logging
import sys
from typing import Final

import msgspec
from aiohttp import web

from client import Executor, Shard

HOLD_S: Final = 2.0
"""How long a call waits for a shard that is to start here: longer than any handoff takes."""
MISDIRECTED: Final = 421  # <RFC 9110, 15.5.20>: this server will not answer for that


class Task(msgspec.Struct, frozen=True):
    """What this process is to do."""

    name: str
    host: str
    urls: list[str]
    namespace: str
    linger_s: float = 0.0
    version: str = ""
    back_within_s: float | None = None
    lock_dir: str | None = None


class Desk:
    """The shards of this process, and who waits for one to start."""

    def __init__(self) -> None:
        self._running: dict[str, Shard] = {}
        self._given_up: dict[str, int] = {}
        self._starts: dict[str, asyncio.Event] = {}
        self.is_closing = False

    async def start(self, shard: Shard) -> None:
        """From here on calls for it are answered."""
        self._running[shard.key] = shard
        if (waiting := self._starts.pop(shard.key, None)) is not None:
            waiting.set()

    async def stop(self, shard: Shard) -> None:
        """From here on calls for it are refused."""
        del self._running[shard.key]
        self._given_up[shard.key] = shard.epoch

    async def call(self, request: web.Request) -> web.Response:
        """One call for a shard: the epoch under which it was served, or 421."""
        key, needed = request.match_info["key"], int(request.match_info["epoch"])
        if self._is_to_come(key, needed):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HOLD_S):
                    await self._starts.setdefault(key, asyncio.Event()).wait()
        shard = self._running.get(key)
        if shard is None or shard.epoch < needed or not shard.may_act():
            return web.Response(status=MISDIRECTED)
        return web.Response(text=str(shard.epoch))

    def _is_to_come(self, key: str, needed: int) -> bool:
        """Whether a caller knows of an epoch of ours before we do."""
        return (
            key not in self._running and needed > self._given_up.get(key, 0) and not self.is_closing
        )


async def run(task: Task) -> None:
    desk = Desk()
    app = web.Application()
    app.router.add_get("/{key}/{epoch}", desk.call)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        async with Executor(
            task.urls,
            namespace=task.namespace,
            name=task.name,
            version=task.version,
            back_within_s=task.back_within_s,
            host=task.host,
            address=f"{host}:{port}",
            on_start=desk.start,
            on_stop=desk.stop,
        ) as executor:
            await executor.run_until_signalled()
        desk.is_closing = True
        await asyncio.sleep(task.linger_s)
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(run(msgspec.json.decode(sys.argv[1], type=Task)))
