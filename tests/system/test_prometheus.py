"""A real Prometheus scrapes three real nodes and tells of what happens to them."""

import asyncio
import json
import shutil
from pathlib import Path

import aiohttp
import msgspec
import pytest
import yaml

from bench.cluster import Nodes
from bench.processes import Processes, free_ports
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="prometheus is not installed (Debian has it)"
    ),
]
CONFIGS = Path(__file__).parents[2] / "configs" / "prometheus"
PREFIX = "shard_coordinator_"
WITHIN_S = 60.0
"""Two scrapes and an evaluation take two seconds; the machine may be busy."""


class Server:
    """The Prometheus of one test, with the rules that are shipped, but for how long they wait."""

    def __init__(self, folder: Path, targets: list[str]) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        rules = yaml.safe_load((CONFIGS / "alerts.yml").read_text())
        for group in rules["groups"]:
            for rule in group["rules"]:
                rule["for"] = "0s"
        (folder / "alerts.yml").write_text(yaml.safe_dump(rules))
        settings = yaml.safe_load((CONFIGS / "prometheus.yml").read_text())
        settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        (job,) = settings["scrape_configs"]
        job["static_configs"] = [{"targets": targets}]
        path = folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(settings))
        self.argv = [
            shutil.which("prometheus") or "",
            f"--config.file={path}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=error",
        ]

    async def _get(self, path: str) -> object:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as answer:
            answer.raise_for_status()
            return msgspec.json.decode(await answer.read())["data"]

    async def value(self, query: str) -> float | None:
        """The one value of a query, if there is one."""
        try:
            found = await self._get(f"/api/v1/query?query={query}")
        except aiohttp.ClientError:
            return None  # it is starting
        assert isinstance(found, dict)
        return float(found["result"][0]["value"][1]) if found["result"] else None

    async def firing(self) -> set[str]:
        """Alerts that fire now."""
        found = await self._get("/api/v1/alerts")
        assert isinstance(found, dict)
        return {
            alert["labels"]["alertname"].removeprefix("ShardCoordinator")
            for alert in found["alerts"]
            if alert["state"] == "firing"
        }

    async def fires(self, *alerts: str) -> set[str]:
        """Wait until all of these do; gives all that do then."""

        async def do() -> set[str]:
            now = await self.firing()
            return now if now >= set(alerts) else set()

        return await until(do, WITHIN_S)


async def test_it_sees_the_cluster_and_fires_the_alerts_that_are_meant(tmp_path: Path) -> None:
    async with Processes(tmp_path) as processes:
        nodes = Nodes(tmp_path, processes)
        try:
            await nodes.start_all()
            targets = [url.removeprefix("http://") for url in nodes.urls]
            server = Server(tmp_path, targets)
            await processes.start("prometheus", server.argv)
            await _is_seen_whole(server)
            assert await server.firing() == set()
            await _lacks_owners(nodes, server)
            await _loses_nodes(nodes, server)
        finally:
            await nodes.close()


async def _is_seen_whole(server: Server) -> None:
    async def leads() -> bool:
        return await server.value(f"sum({PREFIX}raft_is_leader)") == 1

    await until(leads, WITHIN_S)

    async def is_up() -> bool:
        return await server.value("sum(up)") == 3

    await until(is_up, WITHIN_S)
    assert await server.value(f"max({PREFIX}raft_members)") == 3
    assert await server.value(f"min({PREFIX}raft_peers_connected)") == 2
    await asyncio.sleep(3.0)  # three evaluations, in which an alert could be wrong


async def _lacks_owners(nodes: Nodes, server: Server) -> None:
    """Shards without executors are told, and no more when they are gone."""
    url = f"{nodes.urls[0]}/v1/namespaces/lonely"
    body = {"kind": "fixed", "shard_count": 7}
    status, _ = await nodes.ask("PUT", url, body=body, timeout_s=10)
    assert status == 201
    assert await server.fires("Unassigned") == {"Unassigned"}
    assert await server.value(f'max({PREFIX}shards_unassigned{{namespace="lonely"}})') == 7
    status, answer = await nodes.ask("DELETE", f"{url}?confirm=lonely", timeout_s=10)
    assert status in {200, 204}, json.loads(answer)

    async def is_over() -> bool:
        return await server.firing() == set()

    await until(is_over, WITHIN_S)


async def _loses_nodes(nodes: Nodes, server: Server) -> None:
    leader = await nodes.leader()
    followers = [name for name in nodes.names if name != leader]
    await nodes.kill(followers[0])
    one_lost = await server.fires("NodeDown", "PeerUnlinked", "QuorumAtRisk")
    assert "NoLeader" not in one_lost
    await nodes.kill(followers[1])
    await server.fires("NoLeader", "NodeDown")
