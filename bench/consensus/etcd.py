"""Three nodes of etcd as Debian ships it, on loopback: the peer behind an HTTP front door.

Decides how they are started and which of them leads. They keep what they acknowledge on disk, one
sync per batch, as our journal does. Must not know what is measured.
"""

import asyncio
import base64
import json
import shutil
import time
from pathlib import Path
from typing import Final

import aiohttp

from bench.api.driver import Request
from bench.processes import Processes, free_ports

READY_S: Final = 30.0
ASK_S: Final = 2.0
LOOK_S: Final = 0.1


def lack() -> str | None:
    """Why it cannot be measured here; None when it can."""
    if shutil.which("etcd") is None:
        return "etcd is not installed (Debian: etcd-server)"
    return None


async def start(folder: Path, processes: Processes) -> str:
    """Start three and wait until they have a leader; the leader's URL."""
    program = shutil.which("etcd")
    if program is None:
        raise FileNotFoundError("etcd")
    ports = free_ports(6)
    clients = [f"http://127.0.0.1:{port}" for port in ports[:3]]
    peers = [f"http://127.0.0.1:{port}" for port in ports[3:]]
    members = ",".join(f"e{at}={url}" for at, url in enumerate(peers))
    for at, (client, peer) in enumerate(zip(clients, peers, strict=True)):
        argv = [program, "--name", f"e{at}", "--data-dir", str(folder / f"e{at}")]
        argv += ["--listen-client-urls", client, "--advertise-client-urls", client]
        argv += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        argv += ["--initial-cluster", members, "--initial-cluster-state", "new"]
        argv += ["--logger", "zap", "--log-level", "error"]
        await processes.start(f"e{at}", argv)
    return await _leader(clients)


async def _leader(clients: list[str]) -> str:
    end = time.monotonic() + READY_S
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_S)) as session:
        while time.monotonic() < end:
            for url in clients:
                try:
                    async with session.post(f"{url}/v3/maintenance/status", data="{}") as answer:
                        told = await answer.json()
                except (aiohttp.ClientError, TimeoutError):
                    continue
                if told.get("leader") and told["leader"] == told["header"]["member_id"]:
                    return url
            await asyncio.sleep(LOOK_S)
    raise TimeoutError(f"etcd has no leader within {READY_S:g} s")


def version_of(text: str) -> str:
    """The version in what `etcd --version` says."""
    return text.partition("etcd Version: ")[2].split("\n", 1)[0].strip() or "of unknown version"


def put(key: str, value: object) -> Request:
    """A write through the JSON gateway of its v3 API."""
    body = {"key": _coded(key.encode()), "value": _coded(json.dumps(value).encode())}
    return Request("POST", "/v3/kv/put", json.dumps(body).encode())


def keep_alive(lease: int) -> Request:
    """One more life of a lease."""
    return Request("POST", "/v3/lease/keepalive", json.dumps({"ID": str(lease)}).encode())


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()
