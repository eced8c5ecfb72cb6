"""A coordinator behind the transport's seam, for answers and moments that a real one rarely has."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from client import Executor
from client.testing.virtual_time import VirtualTime
from client.transport import Response, TransportFailed
from tests.client.fleet import Diary

INTERVAL_S = 0.01
TTL_S = 10.0
CLUSTER = "c1"


class Clock:
    """The lease's clock: the loop's time, virtual or not, and what the test adds to it."""

    def __init__(self, virtual_time: VirtualTime | None) -> None:
        self._now = time.monotonic if virtual_time is None else virtual_time.now
        self._skipped_s = 0.0

    def __call__(self) -> float:
        return self._now() + self._skipped_s

    def skip(self, seconds: float) -> None:
        """Time passes that nobody noticed."""
        self._skipped_s += seconds


def refusal(status: int, reason: str, **extra: Any) -> Response:
    body = {"reason": reason, "status": status, "detail": reason, **extra}
    return Response(status, {}, json.dumps(body).encode())


class Seam:
    """Answers heartbeats, polls and acks from what the test sets."""

    def __init__(self, virtual_time: VirtualTime | None = None) -> None:
        self.clock = Clock(virtual_time)
        self.revision = 1
        self.duties: dict[str, tuple[int, str]] = {}
        self.ttl_s = TTL_S
        self.on_lease_loss = "stop"
        self.cluster = CLUSTER
        self.is_down = False  # no node can be connected to
        self.not_renewed: list[str] = []
        self.beats: list[dict[str, Any]] = []
        self.acks: list[dict[str, Any]] = []
        self.polls: list[str] = []
        self.left: list[str] = []
        self.refuse_beats: Response | None = None
        self.refuse_acks = 0
        self.answer_acks: Response | None = None
        self.refuse_polls: Response | None = None
        self.polls_behind = 0  # so many polls are answered from before the lease was granted
        self.answer_after_s = 0.0  # how long heartbeats are on their way back
        self.on_beat: Callable[[], object] = lambda: None
        self.changed = asyncio.Event()

    def assign(self, **duties: tuple[int, str]) -> None:
        self.revision += 1
        self.duties = duties
        self.changed.set()

    async def request(
        self, method: str, url: str, *, headers: Any, body: bytes | None, timeout_s: float
    ) -> Response:
        del headers, timeout_s
        if self.is_down:
            raise TransportFailed("nobody there", was_sent=False)
        what = url.split("?", maxsplit=1)[0].rsplit("/", maxsplit=1)[-1]
        if method == "DELETE":
            self.left.append(url)
            return Response(204)
        if what == "assignments":
            return await self._poll(url)
        told = json.loads(body or b"{}")
        if what == "acks":
            self.acks.append(told)
            if self.refuse_acks:
                self.refuse_acks -= 1
                raise TransportFailed("lost", was_sent=True)
            return self.answer_acks or self._ok({"cursor": self._cursor})
        self.beats.append(told)
        self.on_beat()
        await asyncio.sleep(self.answer_after_s)
        if self.refuse_beats is not None:
            return self.refuse_beats
        answer = {
            "lease_ttl_s": self.ttl_s,
            "heartbeat_interval_s": INTERVAL_S,
            "cursor": self._cursor,
            "on_lease_loss": self.on_lease_loss,
            "not_renewed": self.not_renewed,
        }
        return self._ok(answer)

    async def close(self) -> None:
        pass

    @property
    def _cursor(self) -> str:
        return f"{self.cluster}:{self.revision}"

    async def _poll(self, url: str) -> Response:
        self.polls.append(url)
        if self.refuse_polls is not None:
            return self.refuse_polls
        if len(self.polls) <= self.polls_behind:
            return self._ok({"cursor": f"{self.cluster}:0", "assignments": []})
        if f"after={self.cluster}%3A{self.revision}&" in url:
            self.changed.clear()
            try:
                async with asyncio.timeout(0.1):
                    await self.changed.wait()
            except TimeoutError:
                return Response(304)
            if self.is_down:
                raise TransportFailed("gone meanwhile", was_sent=True)
        lines = [
            {"key": key, "epoch": epoch, "state": state}
            for key, (epoch, state) in self.duties.items()
        ]
        return self._ok({"cursor": self._cursor, "lease_ttl_s": self.ttl_s, "assignments": lines})

    @staticmethod
    def _ok(body: Any) -> Response:
        return Response(200, {}, json.dumps(body).encode())

    def executor(self, diary: Diary | None = None, **options: Any) -> Executor:
        """An executor on this seam and its clock."""
        name = options.pop("name", "e1")
        diary = diary or Diary()
        return diary.executor(
            ["http://seam"], "jobs", name, transport=self, clock=self.clock, **options
        )
