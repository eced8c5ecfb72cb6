"""Ending a claim window at once, where a test knows that nobody is there who could claim."""

import asyncio
import time
from collections.abc import Iterable

from coordinator.core.commands import Applied, CloseWindow
from coordinator.node import Node

TRIES_S = 10.0


async def close_window(nodes: Iterable[Node], name: str) -> None:
    """What the leader does itself one lease after the namespace came to be."""
    deadline = time.monotonic() + TRIES_S
    while not await _closed(nodes, name):
        assert time.monotonic() < deadline, f"no leader closed the window of {name}"
        await asyncio.sleep(0.02)


async def _closed(nodes: Iterable[Node], name: str) -> bool:
    for node in nodes:
        namespace = node.replica.state.namespaces.get(name)
        if namespace is not None and node.leader.is_leading:
            revision = namespace.info.created_revision
            command = CloseWindow(namespace=name, created_revision=revision, at_ms=0)
            return isinstance(await node.replica.execute(command), Applied)
    return False
