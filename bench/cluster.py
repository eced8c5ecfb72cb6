"""Real coordinator nodes as processes on loopback, for the demo, the benches and system tests.

Decides addresses, settings and how a node is started, killed and waited for. Must not know what
the cluster is used for.
"""

import asyncio
import contextlib
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from bench.processes import Processes, free_ports
from coordinator.api.tokens import digest_of, minted

READY_S: Final = 60.0
"""A start takes half a second and an election one; a busy machine has taken ten times that."""
POLL_S: Final = 0.02
ASK_S: Final = 0.5
"""A node that lives answers in milliseconds; one that stands still is asked again."""


def make_certificates(folder: Path, *names: str, days: int = 365) -> Path:
    """By the project's own script: a CA, kept if it is there, and new certificates of these."""
    script = Path(__file__).parents[1] / "configs" / "certs.sh"
    subprocess.run(
        [script, folder, *names],
        check=True,
        timeout=30,
        env={**os.environ, "DAYS": str(days)},
        stdout=subprocess.DEVNULL,
    )
    return folder


class NodeSight(msgspec.Struct, frozen=True):
    """One node as another sees it."""

    node: str
    role: str = ""


class ClusterSight(msgspec.Struct, frozen=True):
    """The cluster as one node sees it."""

    node: str = ""
    cluster_id: str | None = None
    leader: str | None = None
    term: int = 0
    applied_index: int = 0
    snapshot_index: int = 0
    storage: str = ""
    digest: str | None = None
    nodes: list[NodeSight] = []

    def role_of(self, name: str) -> str:
        """What this node thinks of another, or of itself."""
        return next((seen.role for seen in self.nodes if seen.node == name), "")


class Nodes:
    """The nodes of one cluster; their processes belong to `processes`."""

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        size: int = 3,
        *,
        has_journal: bool = False,
        has_tokens: bool = False,
        has_tls: bool = False,
        extra: str = "",
        program: Sequence[str] = ("-m", "coordinator"),
    ) -> None:
        """With tokens, `token` is an operator's, and is shown with every request made here.

        With TLS, the API is asked as localhost, and believed because of `tls`. `extra` is added to
        each node's settings.
        """
        ports = free_ports(2 * size)
        names = [f"n{number + 1}" for number in range(size)]
        self._certificates = make_certificates(folder / "certs", "localhost") if has_tls else None
        base = "https://localhost" if has_tls else "http://127.0.0.1"
        self.raft = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=False)}
        self.api = {name: f"{base}:{port}" for name, port in zip(names, ports[size:], strict=True)}
        self._folder = folder
        self.has_journal = has_journal
        self._extra = extra
        self.token = minted() if has_tokens else None
        self.program = program
        self._processes = processes
        self._session: aiohttp.ClientSession | None = None

    @property
    def ca(self) -> str:
        """The file of whoever signed the API's certificate; empty without TLS."""
        return "" if self._certificates is None else str(self._certificates / "ca.pem")

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What believes the API; None without TLS."""
        return ssl.create_default_context(cafile=self.ca) if self.ca else None

    @property
    def names(self) -> list[str]:
        """Every member."""
        return list(self.api)

    @property
    def urls(self) -> list[str]:
        """Every member's API."""
        return list(self.api.values())

    @property
    def living(self) -> list[str]:
        """The members whose process was started and not ended by us."""
        return [name for name in self.api if name in self._processes.running]

    def config(self, name: str) -> Path:
        """The settings file of a node, written."""
        peers = ", ".join(f'{peer} = "{address}"' for peer, address in self.raft.items())
        path = self._folder / f"{name}.toml"
        bind = self.api[name].removeprefix("http://")
        path.write_text(
            f'[node]\nname = "{name}"\npeers = {{ {peers} }}\n[api]\n{self._listening(bind)}'
            + (f'[storage]\ndir = "{self.journal(name)}"\n' if self.has_journal else "")
            + self._security()
            + self._extra
        )
        return path

    def _listening(self, bind: str) -> str:
        """Where the API listens; by TLS its name is not its address."""
        if self._certificates is None:
            return f'bind = "{bind}"\n'
        port = bind.rpartition(":")[2]
        return f'bind = "127.0.0.1:{port}"\nadvertised_url = "https://localhost:{port}"\n'

    def _security(self) -> str:
        lines = [f'tokens_file = "{self._tokens()}"'] if self.token else []
        if self._certificates is not None:
            shown = self._certificates / "localhost"
            lines += [f'api_certificate = "{shown}.pem"', f'api_key = "{shown}.key"']
            lines += [f'api_ca = "{self.ca}"']
        return "\n".join(["[security]", *lines, ""]) if lines else ""

    def _tokens(self) -> Path:
        path = self._folder / "tokens.toml"
        if self.token is not None and not path.exists():
            path.touch(0o600)
            digest = digest_of(self.token).hex()
            path.write_text(f'[tokens.bench]\nrole = "operator"\nsha256 = "{digest}"\n')
        return path

    @property
    def headers(self) -> dict[str, str]:
        """What requests to this cluster have to bear."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def journal(self, name: str) -> Path:
        """The folder of a node's journal."""
        return self._folder / f"{name}-journal"

    async def start(self, name: str, *options: str) -> None:
        """Start one node; `ready` waits for it."""
        argv = [sys.executable, *self.program, "--config", str(self.config(name)), *options]
        # Overrides in the caller's environment are for its own nodes.
        foreign = [key for key in os.environ if key.startswith("SHARD_COORDINATOR__")]
        await self._processes.start(name, argv, without=foreign)

    async def start_all(self) -> None:
        """Start every node and wait until all are ready."""
        for name in self.names:
            await self.start(name)
        await self.ready(self.names)

    async def kill(self, name: str) -> None:
        """As a crash does it: its memory is gone."""
        await self._processes.kill(name)

    async def terminate(self, name: str) -> int:
        """As a deploy does it; the exit status."""
        return await self._processes.terminate(name)

    async def sight(self, name: str, query: str = "") -> ClusterSight | None:
        """The cluster as this node sees it; None when it does not answer."""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError, msgspec.MsgspecError):
            status, body = await self.ask(
                "GET", f"{self.api[name]}/v1/cluster{query}", timeout_s=ASK_S
            )
            if status == 200:
                return msgspec.json.decode(body, type=ClusterSight)
        return None

    async def ask(
        self, method: str, url: str, *, body: object = None, timeout_s: float
    ) -> tuple[int, bytes]:
        """One request, once: no retry and no other node; raises what aiohttp raises."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self.tls or True)
            self._session = aiohttp.ClientSession(connector=connector)
        async with self._session.request(
            method,
            url,
            data=None if body is None else msgspec.json.encode(body),
            headers=self.headers | ({} if body is None else {"Content-Type": "application/json"}),
            timeout=aiohttp.ClientTimeout(total=timeout_s),
        ) as answer:
            return answer.status, await answer.read()

    async def close(self) -> None:
        """Release connections; the processes end with `Processes`."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def is_ready(self, name: str) -> bool:
        """Whether a node says that it can answer."""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            status, _ = await self.ask("GET", f"{self.api[name]}/readyz", timeout_s=ASK_S)
            return status == 200
        return False

    async def ready(self, names: Sequence[str], timeout_s: float = READY_S) -> float:
        """Wait until these nodes are ready; seconds it took."""
        began = time.monotonic()
        waiting = list(names)
        while waiting:
            if time.monotonic() - began > timeout_s:
                raise TimeoutError(f"not ready within {timeout_s:g} s: {', '.join(waiting)}")
            answers = await asyncio.gather(*[self.is_ready(name) for name in waiting])
            for name, is_ready in zip(list(waiting), answers, strict=True):
                if name not in self.living:
                    raise RuntimeError(f"{name} was ended while it was waited for")
                if is_ready:
                    waiting.remove(name)
            if waiting:
                await asyncio.sleep(POLL_S)
        return time.monotonic() - began

    async def leader(self, timeout_s: float = READY_S) -> str:
        """The node that leads and knows it."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for name in self.living:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                    status, _ = await self.ask("GET", f"{self.api[name]}/leader", timeout_s=ASK_S)
                    if status == 200:
                        return name
            await asyncio.sleep(POLL_S)
        raise TimeoutError(f"no leader within {timeout_s:g} s")

    async def first_write(self, label: str, timeout_s: float = READY_S) -> float:
        """Seconds until a write is committed, asking every living node in turn.

        The write makes an empty namespace of its own, so that a second try does no harm.
        """
        began = time.monotonic()
        number = 0
        while time.monotonic() - began < timeout_s:
            living = self.living
            name = living[number % len(living)]
            number += 1
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                status, _ = await self.ask(
                    "PUT",
                    f"{self.api[name]}/v1/namespaces/{label}",
                    body={"kind": "open"},
                    timeout_s=ASK_S,
                )
                if status in {200, 201}:
                    return time.monotonic() - began
            await asyncio.sleep(POLL_S)
        raise TimeoutError(f"no write within {timeout_s:g} s")
