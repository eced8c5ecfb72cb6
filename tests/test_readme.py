"""The README's tour is run as it stands, and its lists are compared with what there is."""

import asyncio
import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from bench.cluster import Nodes
from bench.processes import Processes

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
