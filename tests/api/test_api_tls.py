"""TLS on the API: who is believed, what is shown once renewed, and the hop to a leader."""

import asyncio
import contextlib
import shutil
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import uvloop

from client import Operator, errors
from coordinator.api import read_tls, suspects
from coordinator.api.handshakes import AT_ONCE, UNDISTURBED_S
from coordinator.node import Node, StartError
from coordinator.settings import Settings, parse_settings
from tests.api.keys import Keys
from tests.api.nodes import free_ports, running
from tests.consensus.certs import copy_of, make_certs
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")

BOTH_LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
Runner = Callable[[Any], None]


def secured(folder: Path, count: int = 1, extra: str = "") -> list[Settings]:
    """Nodes that are reached as https://localhost, with the tokens of `folder`."""
    ports = free_ports(2 * count)
    peers = ", ".join(f'n{at + 1} = "127.0.0.1:{ports[at]}"' for at in range(count))
    return [
        parse_settings(
            f"""
            [node]
            name = "n{at + 1}"
            peers = {{ {peers} }}
            [api]
            bind = "127.0.0.1:{ports[count + at]}"
            advertised_url = "https://localhost:{ports[count + at]}"
            [security]
            tokens_file = "{folder}/tokens.toml"
            api_certificate = "{folder}/localhost.pem"
            api_key = "{folder}/localhost.key"
            api_ca = "{folder}/ca.pem"
            {extra}
            [namespaces.jobs]
            kind = "open"
            """,
            {},
        )
        for at in range(count)
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA with certificates of the API and of clients, and one of a CA that nobody knows."""
    folder = tmp_path_factory.mktemp("certs")
    make_certs(folder, "localhost", "router.example", "nobody.example", "boss.example")
    make_certs(folder / "foreign", "router.example")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return copy_of(made, tmp_path)


@contextlib.asynccontextmanager
async def believing(folder: Path, shown: str = "") -> AsyncIterator[aiohttp.ClientSession]:
    """A caller that believes the folder's CA, and shows a certificate or none."""
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    if shown:
        context.load_cert_chain(folder / f"{shown}.pem", folder / f"{shown}.key")
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session


async def settled(*nodes: Node) -> None:
    await until(lambda: all("jobs" in node.replica.state.namespaces for node in nodes))


@BOTH_LOOPS
def test_a_port_with_a_certificate_is_tls_alone_and_shows_a_renewed_one(folder: Path, run: Runner):
    keys = Keys(folder, boss={"role": "operator"})

    async def asked(node: Node, session: aiohttp.ClientSession) -> int:
        headers = keys.bearer("boss")
        async with session.get(f"{node.settings.api_url}/v1/namespaces", headers=headers) as answer:
            return answer.status

    async def life() -> None:
        async with running(*secured(folder)) as (node,), believing(folder) as session:
            await settled(node)
            assert await asked(node, session) == 200
            port = node.settings.api_address[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert b"HTTP" not in await reader.read()
            writer.close()
            held, kept = await asyncio.open_connection(
                "localhost", port, ssl=ssl.create_default_context(cafile=folder / "ca.pem")
            )
            ask = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
            kept.write(ask + b"\r\n")
            await held.readuntil(b"ok\n")
            before = await asyncio.to_thread(serial, port)
            make_certs(folder, "localhost")
            node.reload()
            await until(lambda: asyncio.to_thread(lambda: serial(port) != before))
            assert await asked(node, session) == 200
            kept.write(ask + b"Connection: close\r\n\r\n")
            assert (await held.read()).startswith(b"HTTP/1.1 200"), "nobody is cut off"
            kept.close()

    def serial(port: int) -> str:
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        with (
            socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as shaken,
        ):
            assert shaken.version() == "TLSv1.3"
            return str((shaken.getpeercert() or {})["serialNumber"])

    run(life())


def test_a_handshake_that_dawdles_is_cut_off(folder: Path):
    Keys(folder)

    async def life() -> None:
        async with running(*secured(folder, extra="[limits]\nheader_timeout_s = 0.3")) as (node,):
            port = node.settings.api_address[1]
            for begun in (b"", b"\x16\x03\x01"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(begun)
                async with asyncio.timeout(PATIENCE_S):
                    with contextlib.suppress(ConnectionResetError):
                        assert await reader.read() == b""
                writer.close()

    uvloop.run(life())


@BOTH_LOOPS
def test_handshakes_take_places_and_the_oldest_makes_room(folder: Path, run: Runner):
    Keys(folder)

    async def life() -> None:
        few = "[limits]\nconnections = 8\nconnections_per_address = 8"
        async with running(*secured(folder, extra=few)) as (node,):
            port = node.settings.api_address[1]
            dawdlers = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
            for dawdler in dawdlers[::2]:
                dawdler.sendall(b"\x16\x03\x01")
            await until(lambda: node._listener.count > 0)
            honest = "127.0.0.2"  # of another address: that one has its places
            reader, writer = await asyncio.open_connection(
                "localhost",
                port,
                local_addr=(honest, 0),
                ssl=ssl.create_default_context(cafile=folder / "ca.pem"),
            )
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(PATIENCE_S):
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            assert node._listener.count <= 8
            writer.close()
            for dawdler in dawdlers:
                dawdler.close()
            await until(lambda: node._listener.count == 0)

    run(life())


@BOTH_LOOPS
def test_who_says_nothing_holds_up_nobodys_handshake(folder: Path, run: Runner):
    Keys(folder)

    async def life() -> None:
        async with running(*secured(folder)) as (node,):
            port = node.settings.api_address[1]
            silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * AT_ONCE)]
            await until(lambda: node._listener.count == len(silent))
            context = ssl.create_default_context(cafile=folder / "ca.pem")
            async with asyncio.timeout(4 * UNDISTURBED_S):  # less than `header_timeout_s`
                _, writer = await asyncio.open_connection("localhost", port, ssl=context)
            writer.close()
            for one in silent:
                one.close()
            await until(lambda: node._listener.count == 0)

    run(life())


@BOTH_LOOPS
def test_handshakes_that_fail_count_and_those_of_suspects_wait_unread(
    folder: Path, run: Runner, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(suspects, "STRIKES_MAX", 3)
    Keys(folder)

    async def life() -> None:
        slowly = "[limits]\nsuspects_per_s = 20\nheader_timeout_s = 5"
        async with running(*secured(folder, extra=slowly)) as (node,):
            port = node.settings.api_address[1]
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET / HTTP/1.1\r\n\r\n")
                async with asyncio.timeout(PATIENCE_S):
                    with contextlib.suppress(ConnectionResetError):
                        assert b"HTTP" not in await reader.read()
                writer.close()
            context = ssl.create_default_context(cafile=folder / "ca.pem")
            asking = [
                asyncio.ensure_future(asyncio.open_connection("localhost", port, ssl=context))
                for _ in range(4)
            ]
            await until(lambda: node._listener.held_back >= 2)
            for _, writer in await asyncio.gather(*asking):  # each in its turn, with all it said
                writer.close()
            await until(lambda: node._listener.count == 0)

    run(life())


def test_a_certificate_that_the_file_names_needs_no_token(folder: Path):
    keys = Keys(folder)
    keys.path.write_text('[certificates]\n"router.example" = { role = "router" }\n')

    async def status(url: str, shown: str, of: Path, method: str = "GET") -> int:
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        if shown:
            context.load_cert_chain(of / f"{shown}.pem", of / f"{shown}.key")
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, ssl=context) as answer,
        ):
            return answer.status

    async def life() -> None:
        settings = secured(folder, extra=f'api_client_ca = "{folder}/ca.pem"')
        async with running(*settings) as (node,):
            await settled(node)
            url = f"{node.settings.api_url}/v1/namespaces/jobs"
            routing = f"{url}/routing"
            assert await status(routing, "router.example", folder) == 503  # claims come first
            assert await status(url, "router.example", folder) == 403
            assert await status(routing, "nobody.example", folder) == 401
            assert await status(routing, "", folder) == 401
            with pytest.raises(aiohttp.ClientError):
                await status(routing, "router.example", folder / "foreign")

    uvloop.run(life())


def test_a_token_goes_with_the_request_to_the_leader_and_a_certificate_does_not(folder: Path):
    keys = Keys(folder, boss={"role": "operator"})
    keys.path.write_text(
        keys.path.read_text() + '[certificates]\n"boss.example" = { role = "operator" }\n'
    )

    async def life() -> None:
        settings = secured(folder, 3, f'api_client_ca = "{folder}/ca.pem"')
        async with running(*settings) as nodes, believing(folder, "boss.example") as session:
            await settled(*nodes)
            (leader,) = [node for node in nodes if node.leader.is_leading]
            follower = next(node for node in nodes if node is not leader)
            path = "/v1/namespaces/jobs/balance/pause"

            async def order(node: Node, **headers: str) -> aiohttp.ClientResponse:
                async with session.post(
                    node.settings.api_url + path, json={}, headers=headers
                ) as answer:
                    await answer.read()
                    return answer

            def by() -> str:
                return leader.replica.state.namespaces["jobs"].info.pause.by  # type: ignore[union-attr]

            assert (await order(follower, **keys.bearer("boss"))).status == 200
            assert by() == "boss"
            refused = await order(follower)
            assert refused.status == 503
            assert refused.headers["X-Leader"] == leader.settings.api_url
            assert (await order(leader)).status == 200
            assert by() == "boss.example"
            # The kit goes where it is sent.
            shown = ssl.create_default_context(cafile=folder / "ca.pem")
            shown.load_cert_chain(folder / "boss.example.pem", folder / "boss.example.key")
            async with Operator([follower.settings.api_url], tls=shown) as operator:
                await operator.resume_balance("jobs")
            assert leader.replica.state.namespaces["jobs"].info.pause is None

    uvloop.run(life())


@pytest.mark.parametrize(("days", "left_days"), [(30, 30.0), (3, 3.0)])
async def test_how_long_the_certificate_is_good_for_is_told(
    folder: Path, caplog: pytest.LogCaptureFixture, days: int, left_days: float
):
    make_certs(folder, "localhost", days=days)
    keys = Keys(folder, eye={"role": "metrics"})
    async with running(*secured(folder)) as (node,), believing(folder) as session:
        url = f"{node.settings.api_url}/metrics"
        async with session.get(url, headers=keys.bearer("eye")) as answer:
            text = await answer.text()
        name = "shard_coordinator_api_certificate_left_seconds "
        (left,) = [line.removeprefix(name) for line in text.splitlines() if line.startswith(name)]
        assert float(left) / 86_400 == pytest.approx(left_days, abs=0.1)
        node.reload()
        if days == 3:
            await until(lambda: "api_certificate_ends" in caplog.text)
        else:
            await asyncio.sleep(0.1)
            assert "api_certificate_ends" not in caplog.text


def test_a_certificate_that_has_run_out_is_told_to_have(folder: Path):
    make_certs(folder, "localhost", days=0)
    (settings,) = secured(folder)
    ends_at_s = read_tls(settings.security).ends_at_s
    assert ends_at_s is not None
    assert ends_at_s <= time.time()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda folder: (folder / "localhost.key").chmod(0o640), "mode 0640"),
        (lambda folder: (folder / "localhost.pem").write_text(""), "localhost.pem with"),
        (lambda folder: (folder / "ca.pem").write_text(""), "it must hold a CA"),
        (lambda folder: (folder / "localhost.key").unlink(), "cannot be read: No such file"),
    ],
)
async def test_files_that_cannot_be_used_are_named(
    folder: Path, spoil: Callable[[Path], object], told: str
):
    Keys(folder)
    spoil(folder)
    with pytest.raises(StartError, match=told):
        Node(*secured(folder))


async def test_the_kit_says_that_it_does_not_trust_a_certificate(folder: Path):
    make_certs(folder, "localhost")
    Keys(folder, eye={"role": "viewer"})
    async with running(*secured(folder)) as (node,):
        async with Operator([node.settings.api_url], timeout_s=1.0) as operator:
            with pytest.raises(errors.Unavailable, match="its certificate is not trusted: "):
                await operator.namespaces()
        raft = node.settings.node.peers["n1"]  # speaks something else
        async with Operator([f"https://{raft}"], timeout_s=1.0) as operator:
            with pytest.raises(errors.Unavailable) as failed:
                await operator.namespaces()
        assert "Operation not permitted" not in str(failed.value)
