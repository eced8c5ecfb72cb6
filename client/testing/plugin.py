"""The kit's pytest fixtures, found by their entry point.

Works with any runner of async tests, and without one: a coroutine that asks for `shard_cluster`
and that nobody else runs is run here. It must not know what a test does with its cluster.
"""

import asyncio
import inspect
from collections.abc import Iterator
from typing import cast

import pytest

from client.testing.cluster import LocalCluster

_NAME = "shard_cluster"


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers", f"{_NAME}(...): how the fixture of this name is made, see client.testing"
    )


@pytest.fixture
def shard_cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A coordinator in this process, started by its first use; see `client.testing`."""
    mark = request.node.get_closest_marker(_NAME)
    cluster = LocalCluster(**({} if mark is None else mark.kwargs))
    yield cluster
    cluster.abandon()


@pytest.hookimpl
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine for which no plugin is there."""
    is_ours = _NAME in pyfuncitem.fixturenames and inspect.iscoroutinefunction(pyfuncitem.obj)
    if not is_ours:
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    cluster = cast("LocalCluster", pyfuncitem.funcargs[_NAME])

    async def run() -> None:
        async with cluster:
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})

    asyncio.run(run())
    return True
