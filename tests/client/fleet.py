"""Executors for tests: they keep a diary of what they were told to do."""

import asyncio
import threading
import time
from typing import Any

from client import Executor, Shard
from client.transport import AiohttpTransport, Response, TransportFailed


class Cuttable(AiohttpTransport):
    """The real transport, with a cable that a test can pull."""

    is_cut = False

    async def request(self, method: str, url: str, **options: Any) -> Response:
        if self.is_cut:
            raise TransportFailed("the cable is out", was_sent=False)
        answered = asyncio.ensure_future(super().request(method, url, **options))
        try:
            while not answered.done():
                await asyncio.wait({answered}, timeout=0.02)
                if self.is_cut and not answered.done():
                    raise TransportFailed("the cable was pulled", was_sent=True)
            return await answered
        finally:
            answered.cancel()
            await asyncio.gather(answered, return_exceptions=True)


class Diary:
    """What callbacks did, in order, over all executors of a test."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str]] = []  # executor, what, shard key
        self.at: dict[tuple[str, str, str], float] = {}
        self.shards: dict[tuple[str, str], Shard] = {}  # of an executor under a key: the last
        self.threads: set[str] = set()

    def note(self, executor: str, what: str, shard: Shard) -> None:
        line = (executor, what, shard.key)
        self.lines.append(line)
        self.at[line] = time.monotonic()
        self.shards[executor, shard.key] = shard
        self.threads.add(threading.current_thread().name)

    def of(self, key: str) -> list[tuple[str, str]]:
        return [(executor, what) for executor, what, found in self.lines if found == key]

    def executor(self, endpoints: list[str], namespace: str, name: str, **options: Any) -> Executor:
        """An executor that writes into this diary."""

        async def start(shard: Shard) -> None:
            self.note(name, "start", shard)

        async def stop(shard: Shard) -> None:
            self.note(name, "stop", shard)

        options.setdefault("host", f"host-{name}")
        options.setdefault("address", f"{name}:80")
        # Most tests leave with nobody there to take over: no need to wait long for one.
        options.setdefault("leave_timeout_s", 0.5)
        return Executor(
            endpoints,
            namespace=namespace,
            name=name,
            on_start=options.pop("on_start", start),
            on_stop=options.pop("on_stop", stop),
            **options,
        )
