"""Both ways of answering side by side, and requests as bytes over one connection."""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.api import EXPRESS
from coordinator.node import Node
from tests.api.nodes import Answer

VARIES = {"date", "x-request-id", "x-leader-contact-seconds"}


def counted(node: Node, monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    found: Counter[bool] = Counter()
    express = node.app[EXPRESS]
    take = express.take

    def counting(*asked: Any) -> Any:
        took = take(*asked)
        found[took is not None] += 1
        return took

    monkeypatch.setattr(express, "take", counting)
    return found


def escaped(path: str) -> str:
    """The same path, its last variable's first letter escaped."""
    parts = path.split("/")
    parts[-2] = f"%{ord(parts[-2][0]):02X}{parts[-2][1:]}"
    return "/".join(parts)


def shown(answer: Answer) -> tuple[int, bytes, dict[str, str]]:
    told = {name: text for name, text in answer.headers.items() if name.lower() not in VARIES}
    return answer.status, answer.raw, told


def get(path: str, name: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: {name}\r\n\r\n".encode()


@contextlib.asynccontextmanager
async def line(node: Node) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*node.settings.api_address)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def names(reader: asyncio.StreamReader, count: int) -> list[str]:
    """The names of the next answers, in the order in which they come; each must be a 200."""
    found = []
    async with asyncio.timeout(20):
        for _ in range(count):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            assert head.startswith("HTTP/1.1 200 "), head
            length = re.search(r"Content-Length: (\d+)", head)
            name = re.search(r"X-Request-Id: (\S+)", head)
            assert length is not None
            assert name is not None
            await reader.readexactly(int(length[1]))
            found.append(name[1])
    return found
