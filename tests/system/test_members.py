"""A node is replaced by one of the same name at another address, while clients write."""

import asyncio
import json
import sys

from bench.cluster import Nodes
from bench.processes import Processes, free_ports
from tests.waiting import until

NAMESPACE = "members"


async def post(nodes, name, path, body):
    status, answer = await nodes.ask("POST", f"{nodes.api[name]}{path}", body=body, timeout_s=10.0)
    return status, json.loads(answer)


async def write_on(nodes, leader, stop):
    """Declares one shard after the other at the leader; every answer's status."""
    statuses = []
    while not stop.is_set():
        keys = {"keys": [f"key-{len(statuses)}"]}
        status, _ = await post(nodes, leader, f"/v1/namespaces/{NAMESPACE}/shards", keys)
        statuses.append(status)
        await asyncio.sleep(0.005)
    return statuses


def to_new_ports(nodes, name):
    """Where the next process of this node shall be; the tables written from now on say so."""
    raft, api = free_ports(2)
    nodes.raft[name] = f"127.0.0.1:{raft}"
    nodes.api[name] = f"http://127.0.0.1:{api}"
    return {"node": name, "raft": nodes.raft[name], "api": nodes.api[name]}


async def try_former(folder, processes, nodes, name, api):
    """The process that was replaced is started once more, by a supervisor perhaps."""
    argv = [sys.executable, "-m", "coordinator", "--config", str(folder / f"former-{name}.toml")]
    await processes.start(f"former-{name}", argv)
    log = folder / f"former-{name}.log"
    await until(lambda: log.exists() and "its former process" in log.read_text(), 20.0)
    status, _ = await nodes.ask("GET", f"{api}/readyz", timeout_s=5.0)
    assert status == 503
    await processes.kill(f"former-{name}")


async def test_each_follower_is_replaced_at_a_new_address_and_no_write_fails(tmp_path):
    async with Processes(tmp_path) as processes:
        nodes = Nodes(tmp_path, processes)
        try:
            await nodes.start_all()
            leader = await nodes.leader()
            url = f"{nodes.api[leader]}/v1/namespaces/{NAMESPACE}"
            status, _ = await nodes.ask("PUT", url, body={"kind": "open"}, timeout_s=10.0)
            assert status == 201
            stop = asyncio.Event()
            writing = asyncio.create_task(write_on(nodes, leader, stop))
            try:
                for name in [name for name in nodes.names if name != leader]:
                    nodes.config(name).rename(tmp_path / f"former-{name}.toml")
                    former_api = nodes.api[name]
                    place = to_new_ports(nodes, name)
                    running = await post(nodes, leader, "/v1/cluster/members", place)
                    assert running[0] == 409
                    assert "stop it first" in running[1]["detail"]
                    await nodes.kill(name)
                    await asyncio.sleep(1.5)  # its link ends within a second
                    moved, _ = await post(nodes, leader, "/v1/cluster/members", place)
                    assert moved == 200
                    await nodes.start(name)
                    await nodes.ready([name])
                    if name != min(nodes.names):  # the lowest name dials nobody
                        await try_former(tmp_path, processes, nodes, name, former_api)
            finally:
                stop.set()
                statuses = await writing
            assert set(statuses) == {201}, [s for s in statuses if s != 201]
            assert len(statuses) > 100
            sights = [await nodes.sight(name) for name in nodes.names]
            assert {sight.leader for sight in sights} == {leader}
            assert all(seen.role for sight in sights for seen in sight.nodes)
        finally:
            await nodes.close()
