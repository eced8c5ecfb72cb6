"""The README's tour is run as it stands, and its lists are compared with what there is."""

import asyncio
import contextlib
import json
import os
import re
import sqlite3
import sys
import tomllib
from pathlib import Path

import pytest

from bench.cluster import Nodes
from bench.processes import Processes
from client import Operator

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def tour() -> str:
    """The shell blocks between the tour's marks, as one script."""
    text = README.split("<!-- tour:")[1]
    return "\n".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))


@pytest.fixture
async def cluster(tmp_path):
    async with Processes(tmp_path) as processes:
        nodes = Nodes(tmp_path, processes)
        await nodes.start_all()
        yield nodes
        await nodes.close()


async def test_the_tour_does_what_it_says(cluster):
    for at, url in enumerate(cluster.urls):
        # Each node in turn answers the whole tour, leader or not.
        text = tour().replace("/namespaces/tour", f"/namespaces/tour-{at}")
        ran = await asyncio.create_subprocess_exec(
            *("/bin/bash", "-euo", "pipefail", "-c", text),
            env={**os.environ, "API": url},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(50):
            output, errors = await ran.communicate()
        assert ran.returncode == 0, errors.decode()
        answers = [json.loads(line) for line in output.splitlines() if line]
        problems = [answer for answer in answers if "reason" in answer and "status" in answer]
        assert problems == []
        assert [a["executor"] for a in answers if "address" in a] == ["e1", "e2"]
        (delta,) = [a for a in answers if a.get("kind") == "delta"]
        assert delta["moving"] == {"orders": "e2"}
        states = [a["assignments"][0]["state"] for a in answers if a.get("assignments")]
        assert states == ["run", "release", "release"]
        (drain,) = answers[-1]["drains"]
        assert (drain["state"], drain["shards_moved"]) == ("drained", 1)


async def log_of(folder, holds, within_s=20):
    """The lines of the example's store, as soon as they are as wanted."""
    async with asyncio.timeout(within_s):
        while True:
            with contextlib.closing(sqlite3.connect(folder / "jobs.db")) as database:
                tables = database.execute("SELECT name FROM sqlite_schema").fetchall()
                if ("log",) in tables:
                    lines = database.execute("SELECT shard, what, epoch FROM log").fetchall()
                    if holds(lines):
                        return lines
            await asyncio.sleep(0.05)


async def test_the_executor_runs_and_has_its_shards_back_after_a_crash(cluster, tmp_path):
    text = README.split("<!-- executor:")[1]
    (program,) = re.findall(r"```python\n(.*?)```", text.split("## ")[0], re.DOTALL)
    program = re.sub(r"NODES = .*", f"NODES = {cluster.urls!r}", program)
    for name in ("jobs.db", "locks"):
        program = program.replace(f'"{name}"', repr(str(tmp_path / name)))
    async with Operator(cluster.urls) as operator, Processes(tmp_path) as processes:
        policy = {"lease_ttl_s": 30.0, "heartbeat_interval_s": 0.5, "initial_hold_s": 0.0}
        short = policy | {"lease_ttl_s": 1.0}
        await operator.create_namespace("jobs", kind="fixed", shard_count=6, policy=short)
        await processes.start("a", (sys.executable, "-c", program, "a"))
        first = await log_of(tmp_path, lambda lines: len(lines) == 6)
        await operator.change_policy("jobs", policy)
        await asyncio.sleep(1.0)  # the lease that it has by now outlasts this test
        await processes.kill("a")
        await processes.start("a", (sys.executable, "-c", program, "a"))
        both = await log_of(tmp_path, lambda lines: len(lines) == 12)
        assert await processes.terminate("a") == 0
    epochs = {shard: epoch for shard, _, epoch in first}
    assert len(epochs) == 6
    assert all(what == "started on a" for _, what, _ in both)
    assert all(epoch > epochs[shard] for shard, _, epoch in both[6:])
    last = await log_of(tmp_path, lambda lines: len(lines) == 18)
    assert {what for _, what, _ in last[12:]} == {"stopped on a"}


def test_every_make_target_that_the_readme_names_exists():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE))
    assert named
    assert named <= targets


def test_the_readme_names_the_python_that_the_package_asks_for():
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert package["requires-python"] == ">=3.11"
    assert "Python ≥ 3.11" in README
