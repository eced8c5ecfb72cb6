"""What the services of this folder have in common: arguments, an HTTP port, and calls sent on.

`Front.serve` is the part to copy: it answers a request for a key here if its shard is ours, and
sends it on to the process that owns it if not.
"""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from client import Executor, Misdirected, Router, Shard, Switchboard, Unavailable

SENT_ON: Final = "X-Sent-On-By"
"""Marks a request that a peer has sent on; it is answered or refused, never sent on again."""
MISDIRECTED: Final = 421
READY_TIMEOUT_S: Final = 30.0
"""A new namespace takes its first lease, of 10 s, to hear whether somebody holds its shards."""
ARRIVAL_S: Final = 2.0
"""A shard that was sent for may be on its way here; starts of these services are short."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What such a service is started with."""

    endpoints: Sequence[str]
    name: str
    port: int
    folder: Path


def arguments(about: str | None) -> Arguments:
    """From the command line; fits the local cluster of `make cluster`."""
    parser = argparse.ArgumentParser(description=about)
    found = os.environ.get("SHARDCTL_ENDPOINTS", "http://127.0.0.1:7070")
    parser.add_argument("--endpoints", default=found, help="of the coordinator, with commas")
    parser.add_argument("--name", required=True, help="a stable name for this process")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--folder", type=Path, default=Path(), help="where data is kept, if any")
    given = parser.parse_args()
    return Arguments(given.endpoints.split(","), given.name, given.port, given.folder)


@asynccontextmanager
async def serving(app: web.Application, port: int) -> AsyncIterator[str]:
    """Serve on a port of loopback; gives its address."""
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        host, bound = runner.addresses[0][:2]
        yield f"{host}:{bound}"
    finally:
        await runner.cleanup()


class Front:
    """Requests for keys, on any process of a service.

    Its port is bound first, so that the executor can say where it is; requests that come before
    the executor has joined are asked to come again.
    """

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._switchboard: Switchboard | None = None

    @asynccontextmanager
    async def open(self, executor: Executor, router: Router) -> AsyncIterator[None]:
        """Join, answer, and leave."""
        async with router, executor, aiohttp.ClientSession() as self._peers:
            await router.ready(timeout_s=READY_TIMEOUT_S)
            self._switchboard = Switchboard(executor, router)
            yield

    async def serve(
        self,
        request: web.Request,
        key: str,
        here: Callable[[Shard], Awaitable[web.Response]],
    ) -> web.Response:
        """Answer here if the shard is ours, else with what its owner answers."""
        switchboard = self._switchboard
        if switchboard is None:
            return web.Response(status=503, text="starting", headers={"Retry-After": "1"})
        if SENT_ON in request.headers:
            try:
                return await here(await switchboard.owned(key, timeout_s=ARRIVAL_S))
            except Misdirected as refusal:
                return web.Response(status=MISDIRECTED, text=str(refusal))
        body = await request.read()
        try:
            return await switchboard.call(
                key, here, lambda owner: self._send_on(request, body, owner.address)
            )
        except (Unavailable, Misdirected) as error:
            return web.Response(status=503, text=str(error), headers={"Retry-After": "1"})

    async def _send_on(self, request: web.Request, body: bytes, address: str) -> web.Response:
        try:
            async with self._peers.request(
                request.method,
                f"http://{address}{request.raw_path}",
                data=body,
                headers={SENT_ON: self._name},
            ) as answer:
                if answer.status == MISDIRECTED:
                    raise Misdirected(await answer.text())
                return web.Response(status=answer.status, body=await answer.read())
        except aiohttp.ClientConnectorError as error:
            raise Misdirected(f"{address} is gone: {error}") from error  # nothing was sent


async def until_signalled(executor: Executor, address: str) -> None:
    """Run until somebody says stop."""
    print(f"ready {executor.name} http://{address}", flush=True)  # noqa: T201 - it is a program
    await executor.run_until_signalled()


def main(service: Callable[[Arguments], Awaitable[None]], about: str | None) -> None:
    """Run a service as a program."""

    async def run() -> None:
        await service(arguments(about))

    asyncio.run(run())
