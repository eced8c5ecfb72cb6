"""The image: built from the Containerfile, and a node that runs in it.

Its base stands for the registry's python:slim, so that no registry is asked: a Debian with Python.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.processes import free_ports
from tests.installed.debian import INSTALL_WITHIN_S, ROOT, needed, run, steps, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(INSTALL_WITHIN_S), needed]

BASE = "docker.io/library/python:3.13-slim"
SETTINGS = "/etc/shard-coordinator/node.toml"
USER = 10001


class Images:
    """buildah with a store of its own; it needs no daemon, and isolates by chroot."""

    def __init__(self, folder: Path) -> None:
        self._store = ["--storage-driver=vfs", f"--root={folder}/images", f"--runroot={folder}/run"]

    def do(self, command: str, *arguments: str | Path) -> str:
        return run(*self.command(command), *arguments, cwd=ROOT).strip()

    def command(self, command: str) -> list[str]:
        isolation = ["--isolation=chroot"] if command in {"run", "build"} else []
        return ["buildah", *self._store, command, *isolation]


@pytest.fixture(scope="module")
def images(debian: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    folder = tmp_path_factory.mktemp("image")
    (debian / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    images = Images(folder)
    base = images.do("from", "scratch")
    images.do("add", "--quiet", base, debian, "/")
    images.do("config", "--env=PIP_CERT=/etc/ssl/certs/ca-certificates.crt", base)
    images.do("commit", "--quiet", "--rm", base, BASE)
    yield images
    images.do("rm", "--all")


@pytest.fixture(scope="module")
def node(images: Images, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], int]:
    """How to run the program in a container of the image, and the port it is told to serve."""
    build = steps("In a container").splitlines()[0].split()
    assert build[:2] == ["podman", "build"]
    images.do("build", "--pull=never", *build[2:])
    image = build[build.index("-t") + 1]
    api, raft = free_ports(2)
    settings = tmp_path_factory.mktemp("settings") / "node.toml"
    text = (ROOT / "configs" / "single-node.toml").read_text()
    settings.write_text(text.replace("7070", str(api)).replace("7071", str(raft)))
    settings.parent.chmod(0o755)
    settings.chmod(0o644)
    container = images.do("from", "--pull=never", f"localhost/{image}")
    volume = f"--volume={settings}:{SETTINGS}:ro"
    return [*images.command("run"), volume, container, "--", "shard-coordinator"], api


def test_a_node_runs_in_it_as_nobody_in_particular(
    node: tuple[list[str], int], tmp_path: Path
) -> None:
    program, api = node
    ping = [*program, "--config", SETTINGS, "--ping"]
    assert subprocess.run(ping, capture_output=True, check=False).returncode != 0
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        serving = subprocess.Popen([*program, "--config", SETTINGS], stderr=stderr)
    try:
        ready = ["curl", "--silent", "--fail", f"http://127.0.0.1:{api}/readyz"]
        wait_for(lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0)
        run(*ping)
        assert run("pgrep", f"--uid={USER}", "--full", SETTINGS)
    finally:
        # The program alone: what buildah has around it would take it along unheard.
        run("pkill", f"--uid={USER}", "--full", f"bin/python.* {SETTINGS}")
        assert serving.wait(30.0) == 0
    assert "node_stopped" in log.read_text()


@pytest.mark.usefixtures("node")
def test_it_knows_how_its_health_is_asked_for(images: Images) -> None:
    image = steps("In a container").splitlines()[0].split()
    told = images.do("inspect", f"localhost/{image[image.index('-t') + 1]}")
    assert "--ping" in told.partition('"Healthcheck"')[2]
