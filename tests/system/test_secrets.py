"""A cluster is used, misused and reloaded; then all it said or kept is searched for secrets."""

import asyncio
import contextlib
import io
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from bench.processes import Processes
from client import Executor, Operator, Router, errors
from tests.system.secured import SecuredNodes
from tests.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")

NAMESPACE = "orders"
WORKERS = ("worker", "--role", "executor", "--namespace", NAMESPACE, "--executor", "w-*")


class Heard:
    """Every answer, header and all, that anybody got."""

    def __init__(self, nodes):
        self._nodes = nodes
        self.told = []

    async def ask(self, url, method="GET", token="", **options):
        headers = options.pop("headers", {})
        if token:
            headers = headers | {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self._nodes.tls)) as session,
            session.request(method, url, headers=headers, **options) as answer,
        ):
            self.told.append(f"{answer.raw_headers!r} {await answer.read()!r}")
            return answer.status


def secrets_of(nodes):
    """What nobody but its user may see: tokens, with and without their mark, and private keys."""
    found = {token for secret in nodes.secrets.values() for token in (secret, secret[4:])}
    for key in nodes.certs.glob("*.key"):
        found |= {line for line in key.read_text().splitlines() if len(line) > 40}
    assert len(found) > 10
    return found


async def misuse(nodes, heard):
    """Every kind of error that an answer or a log may be about."""
    boss, worker = nodes.secrets["boss"], nodes.secrets["worker"]
    for api in nodes.api.values():
        ns = f"{api}/v1/namespaces/{NAMESPACE}"
        assert await heard.ask(f"{ns}/routing", token=worker) == 403
        assert await heard.ask(f"{ns}/routing", token=boss[:-1]) == 401
        assert await heard.ask(f"{ns}/routing") == 401
        assert await heard.ask(f"{ns}?token={boss}", token=boss) == 422
        assert await heard.ask(ns, headers={"Authorization": f"Basic {boss}"}) == 401
        assert await heard.ask(ns, headers={"X-Token": boss}) == 401
        assert await heard.ask(f"{ns}/drains/none", token=boss) == 404
        assert await heard.ask(ns, "PATCH", token=boss, data=b"{broken") in {415, 422}
        assert (
            await heard.ask(f"{ns}/shards", "POST", token=boss, data=io.BytesIO(b"x" * (2 << 20)))
            == 413
        )
        assert await heard.ask(f"{ns}/executors", "POST", token=boss) == 405
        for path in ("/metrics", "/v1/cluster?digest=true", f"/v1/namespaces/{NAMESPACE}/events"):
            assert await heard.ask(api + path, token=boss) == 200
        for path in ("/openapi.json", "/problems/unauthenticated", "/readyz?verbose"):
            assert await heard.ask(api + path) == 200
        await broken_http(api, nodes, boss)


async def broken_http(api, nodes, token):
    """A request that no parser takes, with a token in it."""
    host, port = api.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=nodes.tls)
    writer.write(f"GET / HTTP/9.9\r\nAuthorization: Bearer {token}\r\n\x00\r\n\r\n".encode())
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()


async def use(nodes):
    """The whole kit: an executor, a router and an operator, each with the file of its token."""
    common = {"namespace": NAMESPACE, "tls": nodes.tls}
    files = {name: nodes.folder / f"{name}.token" for name in nodes.secrets}
    async with Operator(nodes.urls, token_file=files["boss"], tls=nodes.tls) as operator:
        policy = {"lease_ttl_s": 1.0, "heartbeat_interval_s": 0.2, "initial_hold_s": 0.0}
        await operator.create_namespace(NAMESPACE, policy=policy)
        async with (
            Executor(
                nodes.urls, name="w-1", token_file=files["worker"], on_start=_noted,
                on_stop=_noted, **common,
            ) as executor,
            Router(nodes.urls, token_file=files["router"], **common) as router,
        ):  # fmt: skip
            await router.lookup("a/b", timeout_s=20.0)
            await until(executor.running)
            await operator.drain_shard(NAMESPACE, "a/b", reason="to see the label")
            events = await operator.events(NAMESPACE)
            assert "boss" in {event.by for event in events.events}
        with pytest.raises(errors.Forbidden):
            async with Executor(
                nodes.urls, name="x-1", token_file=files["worker"], on_start=_noted,
                on_stop=_noted, **common,
            ):  # fmt: skip
                pass


def _noted(_):
    """Nothing is done here."""


async def shardctl(nodes, *words):
    """The command as people run it; what it printed."""
    environment = os.environ | {
        "SHARDCTL_ENDPOINTS": ",".join(nodes.urls),
        "SHARDCTL_CA_FILE": str(nodes.certs / "ca.pem"),
        "SHARDCTL_TOKEN": nodes.secrets["boss"],
    }
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "client.cli.main", *words],
        capture_output=True, text=True, env=environment, timeout=50, check=False,
    )  # fmt: skip


def arguments_of(processes, names):
    """What every process of the machine can read of these."""
    return "".join(
        Path(f"/proc/{processes.running[name].pid}/cmdline").read_text() for name in names
    )


@pytest.mark.slow
async def test_nothing_that_a_cluster_says_or_keeps_has_a_secret_in_it(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    async with Processes(tmp_path) as processes:
        nodes = SecuredNodes(tmp_path, processes, log_format="json")
        nodes.add(*WORKERS)
        nodes.add("router", "--role", "router")
        heard = Heard(nodes)
        async with nodes.running():
            await use(nodes)
            await misuse(nodes, heard)
            printed = [
                await shardctl(nodes, "-n", NAMESPACE, "events", "list", "-o", "json"),
                await shardctl(nodes, "-n", "absent", "shard", "list"),
            ]
            assert printed[0].returncode == 0, printed[0].stderr
            arguments = arguments_of(processes, nodes.names)
            # A secret that was put into the file by mistake, and a token that ends.
            nodes.write(spoilt=f'"spare" = "{nodes.secrets["boss"]}"\n')
            for name in nodes.names:
                processes.send(name, signal.SIGHUP)
                log = tmp_path / f"{name}.log"
                await until(lambda log=log: "tokens_kept" in log.read_text())
            nodes.withdraw("worker")
            for api in nodes.urls:
                path = f"{api}/v1/namespaces/{NAMESPACE}/executors/w-1/assignments?incarnation=i"
                await until(
                    lambda path=path: _is(401, heard.ask(path, token=nodes.secrets["worker"]))
                )
            leader = await nodes.leader()
            assert await nodes.terminate(leader) == 0
    secrets = secrets_of(nodes)
    kept = {path for path in tmp_path.rglob("*") if path.is_file()}
    theirs = set(tmp_path.glob("*.token")) | set(nodes.certs.glob("*.key"))
    said = {str(path): path.read_bytes() for path in kept - theirs}
    said |= {
        "answers": "".join(heard.told).encode(),
        "shardctl": "".join(one.stdout + one.stderr for one in printed).encode(),
        "arguments": arguments.encode(),
        "the kit's log": caplog.text.encode(),
    }
    assert {path.suffix for path in kept} >= {".log", ".toml"}
    assert any("-journal" in path for path in said)
    assert b"turned_away" in b"".join(said.values()), "what was refused was told of"
    leaks = [
        (where, secret[:6])
        for where, data in said.items()
        for secret in secrets
        if secret.encode() in data
    ]
    assert leaks == []


async def _is(status, asked):
    return await asked == status
