"""What configs/DEPLOYMENT.md tells an operator to type, typed."""

import asyncio
import json
import os
import re
import shutil
import ssl
import sys
from pathlib import Path

import aiohttp
import pytest

from bench.cluster import Nodes
from bench.processes import Processes, free_ports
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "configs" / "DEPLOYMENT.md").read_text()


def block(section: str, holds: str) -> str:
    """The first block of code in a section that has these words."""
    text = GUIDE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return next(one for one in re.findall(r"```bash\n(.*?)```", text, re.DOTALL) if holds in one)


async def typed(text: str, folder: Path, **environ: str) -> str:
    """What a shell says to it; fails when the shell does."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = await asyncio.create_subprocess_exec(
        *("/bin/bash", "-euo", "pipefail", "-c", text),
        cwd=folder,
        env={**os.environ, "PATH": path, **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(120):  # each command is a program of its own
            output, errors = await ran.communicate()
    finally:
        if ran.returncode is None:
            ran.kill()
            await ran.wait()
    assert ran.returncode == 0, errors.decode()
    return output.decode()


async def test_the_backup_keeps_what_operators_ordered(tmp_path: Path) -> None:
    async with Processes(tmp_path) as processes:
        nodes = Nodes(tmp_path, processes)
        await nodes.start_all()
        api = nodes.urls[0]
        try:
            for name in ("orders", "mail"):
                body = {"kind": "fixed", "shard_count": 3}
                await nodes.ask("PUT", f"{api}/v1/namespaces/{name}", body=body, timeout_s=10)
            for path, body in (
                ("hosts/h2/drain", {"reason": "kernel"}),
                ("shards/1/drain", {"reason": "it crashes"}),
            ):
                url = f"{api}/v1/namespaces/orders/{path}"
                status, answer = await nodes.ask("POST", url, body=body, timeout_s=10)
                assert status in {200, 202}, answer
            (tmp_path / "backup").mkdir()
            await typed(block("Back up", "shardctl"), tmp_path, SHARDCTL_ENDPOINTS=api)
        finally:
            await nodes.close()
    kept = {path.name: path.read_text() for path in (tmp_path / "backup").iterdir()}
    assert json.loads(kept["orders.json"])["kind"] == "fixed"
    (drain,) = json.loads(kept["orders-drains.json"])["drains"]
    assert drain["target"] == "host/h2"
    (parked,) = [json.loads(line) for line in kept["orders-parked.jsonl"].splitlines()]
    assert parked["key"] == "1"
    assert kept["mail-parked.jsonl"].strip() == ""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
async def test_certificates_and_tokens_as_told_make_a_node_that_is_believed(tmp_path: Path) -> None:
    names = "DNS:n1.example,DNS:n2.example,DNS:n3.example"
    commands = block("TLS and tokens", "api.csr")
    assert names in commands
    await typed(commands.replace(names, "DNS:localhost"), tmp_path)
    await typed(block("TLS and tokens", "token new"), tmp_path)
    raft, api = free_ports(2)
    (tmp_path / "node.toml").write_text(
        f"""
        [node]
        name = "n1"
        peers = {{ n1 = "127.0.0.1:{raft}" }}
        [api]
        bind = "127.0.0.1:{api}"
        advertised_url = "https://localhost:{api}"
        [security]
        api_certificate = "{tmp_path}/api.pem"
        api_key = "{tmp_path}/api.key"
        api_ca = "{tmp_path}/api-ca.pem"
        tokens_file = "{tmp_path}/tokens.toml"
        """
    )
    secret = (tmp_path / "operators.token").read_text().strip()
    context = ssl.create_default_context(cafile=tmp_path / "api-ca.pem")
    async with Processes(tmp_path) as processes:
        argv = [sys.executable, "-m", "coordinator", "--config", str(tmp_path / "node.toml")]
        await processes.start("n1", argv)
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def status(**headers: str) -> int:
                url = f"https://localhost:{api}/v1/namespaces"
                try:
                    async with session.get(url, headers=headers) as answer:
                        return answer.status
                except aiohttp.ClientConnectorCertificateError:
                    raise
                except aiohttp.ClientError:
                    return 0

            async def is_up() -> bool:
                return await status(Authorization=f"Bearer {secret}") == 200

            await until(is_up)
            assert await status() == 401
