"""A health check asks the node of its own settings, over TLS too, and nobody else."""

import asyncio
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.ping import is_alive
from coordinator.settings import Settings, parse_settings
from tests.api.keys import Keys
from tests.api.nodes import running, settings_of
from tests.api.test_api_tls import secured
from tests.consensus.certs import make_certs


async def test_a_node_that_runs_is_alive_and_one_that_stopped_is_not() -> None:
    (settings,) = settings_of()
    async with running(settings):
        assert await asyncio.to_thread(is_alive, settings)
    assert not await asyncio.to_thread(is_alive, settings)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
async def test_tokens_and_tls_do_not_keep_it_from_asking(tmp_path: Path) -> None:
    make_certs(tmp_path, "localhost")
    Keys(tmp_path)
    (settings,) = secured(tmp_path)
    async with running(settings):
        assert await asyncio.to_thread(is_alive, settings)


@pytest.fixture
def mute() -> Iterator[Settings]:
    """Something takes the connection and says nothing, as a loop that turns no more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        yield parse_settings(
            f'[node]\nname = "n1"\npeers = {{ n1 = "127.0.0.1:7071" }}\n'
            f'[api]\nbind = "127.0.0.1:{port}"',
            {},
        )


def test_who_takes_the_connection_and_says_nothing_does_not_live(mute: Settings) -> None:
    assert not is_alive(mute, timeout_s=0.2)


async def test_a_wildcard_is_asked_on_this_machine() -> None:
    (settings,) = settings_of()
    port = settings.api_address[1]
    wild = parse_settings(
        f"""
        [node]
        name = "n1"
        peers = {{ n1 = "127.0.0.1:7071" }}
        [api]
        bind = "0.0.0.0:{port}"
        advertised_url = "http://127.0.0.1:{port}"
        [security]
        insecure = true
        """,
        {},
    )
    async with running(settings):
        assert await asyncio.to_thread(is_alive, wild)
