"""A node as a process: what it tells the service manager, and what signals do to it."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bench.processes import TETHER
from coordinator.process import changed
from coordinator.settings import parse_settings
from tests.api.nodes import free_ports
from tests.waiting import until

SETTINGS = """
[node]
name = "n1"
peers = {{ n1 = "127.0.0.1:{raft}" }}
[api]
bind = "127.0.0.1:{api}"
[log]
level = "{level}"
"""
WATCHDOG_S = 0.6


@dataclass
class Running:
    """One node's process with a manager that listens."""

    process: asyncio.subprocess.Process
    config: Path
    ports: tuple[int, int]
    manager: socket.socket
    words: list[str] = field(default_factory=list)
    log: bytearray = field(default_factory=bytearray)

    def write(self, level: str, extra: str = "") -> None:
        raft, api = self.ports
        self.config.write_text(SETTINGS.format(raft=raft, api=api, level=level) + extra)

    def heard(self, word: str) -> bool:
        while True:
            try:
                self.words.append(self.manager.recv(4096).decode())
            except BlockingIOError:
                return any(said.startswith(word) for said in self.words)

    def logged(self, event: str) -> bool:
        return event.encode() in self.log


@asynccontextmanager
async def running(tmp_path: Path, *options: str, form: str = "text") -> AsyncIterator[Running]:
    raft, api = free_ports(2)
    config = tmp_path / "n1.toml"
    text = SETTINGS.format(raft=raft, api=api, level="info") + f'format = "{form}"\n'
    config.write_text(text)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.setblocking(False)
        manager.bind(str(tmp_path / "notify"))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", str(TETHER), str(os.getpid())),
            *(sys.executable, "-m", "coordinator", "--config", str(config), *options),
            env={
                "NOTIFY_SOCKET": str(tmp_path / "notify"),
                "WATCHDOG_USEC": str(round(WATCHDOG_S * 1e6)),
                "PYTHONPATH": ":".join(path for path in sys.path if path),
            },
            stderr=asyncio.subprocess.PIPE,
        )
        node = Running(process, config, (raft, api), manager)
        reading = asyncio.ensure_future(_read(node))
        try:
            await until(lambda: node.heard("READY=1"))
            yield node
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reading


async def _read(node: Running) -> None:
    assert node.process.stderr is not None
    while line := await node.process.stderr.readline():
        node.log += line


async def test_a_node_says_when_it_is_ready_alive_reloading_and_stopping(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{node.ports[1]}/livez") as answer,
        ):
            assert answer.status == 200, "ready means that it answers"
        await until(lambda: node.heard("WATCHDOG=1"))
        await until(lambda: node.heard("STATUS=n1: leader, leader n1, term"))
        node.words.clear()
        node.process.send_signal(signal.SIGHUP)
        await until(lambda: node.heard("RELOADING=1") and node.heard("READY=1"))
        node.process.send_signal(signal.SIGTERM)
        await until(lambda: node.heard("STOPPING=1"))
        assert await node.process.wait() == 0


async def test_the_log_level_changes_with_the_settings_and_a_broken_file_changes_nothing(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as node:
        assert not node.logged("DEBUG")
        node.write("debug", "[limits]\nconnections = 7\n")
        node.process.send_signal(signal.SIGHUP)
        await until(lambda: node.logged("reloaded log_level=debug"))
        await until(lambda: node.logged("reload_needs_restart sections=limits"))
        node.write("loud")
        node.process.send_signal(signal.SIGHUP)
        await until(lambda: node.logged("reload_refused fault="))
        assert node.logged("log.level")
        node.write("error")
        node.process.send_signal(signal.SIGHUP)
        node.process.send_signal(signal.SIGTERM)
        assert await node.process.wait() == 0


async def test_json_lines_name_their_request_and_never_a_secret(tmp_path: Path) -> None:
    secret = "shc_" + "s3cr3t" * 6
    async with running(tmp_path, "--log-level", "debug", form="json") as node:
        base = f"http://127.0.0.1:{node.ports[1]}"
        async with aiohttp.ClientSession() as session:
            await until(lambda: node.logged("leader_elected"))
            await session.put(f"{base}/v1/namespaces/orders", json={"kind": "open"})
            beat = {
                "incarnation": "i1",
                "sequence": 1,
                "joining": True,
                "host": "h",
                "address": "a",
            }
            trace = "4bf92f3577b34da6a3ce929d0e0e4736"
            headers = {
                "X-Request-Id": "my-request",
                "traceparent": f"00-{trace}-00f067aa0ba902b7-01",
                "Authorization": f"Bearer {secret}",
            }
            url = f"{base}/v1/namespaces/orders/executors/e1/heartbeat"
            async with session.post(url, json=beat, headers=headers) as answer:
                assert answer.status == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", node.ports[1])
        writer.write(f"GET /\x01 HTTP/1.1\r\nAuthorization: Bearer {secret}\x00\r\n\r\n".encode())
        assert b"400" in await reader.readline()
        writer.close()
        await until(lambda: node.logged("executor_joined"))
        node.process.send_signal(signal.SIGTERM)
        assert await node.process.wait() == 0
    lines = [json.loads(line) for line in node.log.splitlines()]
    (joined,) = [line for line in lines if line["event"] == "executor_joined"]
    assert joined["request_id"] == "my-request"
    assert joined["trace_id"] == trace
    assert (joined["namespace"], joined["executor"], joined["node"]) == ("orders", "e1", "n1")
    assert joined["term"] >= 1
    assert joined["revision"] >= 1
    assert "s3cr3t" not in node.log.decode()


async def test_a_level_given_at_the_start_outlives_a_reload(tmp_path: Path) -> None:
    async with running(tmp_path, "--log-level", "debug") as node:
        node.process.send_signal(signal.SIGHUP)
        await until(lambda: node.logged("reloaded log_level=debug"))


def test_sections_that_differ_are_named() -> None:
    before = parse_settings(SETTINGS.format(raft=7071, api=7070, level="info"), {})
    after = parse_settings(
        SETTINGS.format(raft=7072, api=7070, level="debug") + '[namespaces.a]\nkind = "open"', {}
    )
    assert changed(before, before) == set()
    assert changed(before, after) == {"node", "log", "namespaces"}
