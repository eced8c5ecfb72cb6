from collections.abc import AsyncIterator

import pytest_asyncio

from coordinator.node import Node
from tests.api.nodes import Caller, calling, ready, running, settings_of


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def node() -> AsyncIterator[Node]:
    """One real node for all tests that leave it as it was; each makes its own namespaces."""
    async with running(*settings_of()) as (only,):
        yield only


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def api(node: Node) -> AsyncIterator[Caller]:
    async with calling(node) as caller:
        await ready(caller)
        yield caller
