"""A small Debian in a folder, to install this project on as its guide says.

It decides how one is made and entered. Wanted are root, debootstrap, systemd-nspawn and buildah
(`apt install debootstrap systemd-container buildah`) and a mirror of Debian; without them the tests
are skipped and say which is missing.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "configs" / "DEPLOYMENT.md").read_text()
SUITE = "bookworm"
PACKAGES = "systemd,systemd-sysv,dbus,python3,python3-venv,ca-certificates,curl"
TOOLS = ("debootstrap", "systemd-nspawn", "buildah", "git")
# Mirrors and package indexes that are far away.
INSTALL_WITHIN_S = 600.0
BOOT_WITHIN_S = 60.0


def missing() -> str:
    """Why there can be no such Debian here; empty when there can."""
    if os.geteuid() != 0:
        return "only root can enter another system"
    return ", ".join(f"{tool} is not installed" for tool in TOOLS if shutil.which(tool) is None)


def run(*command: str | Path, within_s: float = INSTALL_WITHIN_S, **options: object) -> str:
    """What it prints; fails with all that it said when it does not end well."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True, text=True, check=False, timeout=within_s, **options,  # type: ignore[call-overload]
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return str(done.stdout)


def make(folder: Path) -> Path:
    """A fresh system with a checkout of what is committed here in /src."""
    system = folder / "debian"
    run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, system)
    own = Path("/usr/local/share/ca-certificates")  # a mirror behind a CA of this machine's own
    shutil.copytree(own, system / own.relative_to("/"), dirs_exist_ok=True)
    run("chroot", system, "update-ca-certificates")
    run("git", "clone", "--quiet", ROOT, system / "src")
    return system


def steps(heading: str) -> str:
    """The first block of commands under a heading of the guide."""
    _, found, section = GUIDE.partition(f"\n## {heading}\n")
    assert found, heading
    block = re.search(r"```bash\n(.*?)```", section, re.DOTALL)
    assert block is not None, heading
    return block[1]


def wait_for(condition: Callable[[], bool], within_s: float = BOOT_WITHIN_S) -> None:
    ends_at = time.monotonic() + within_s
    while not condition():
        if time.monotonic() >= ends_at:
            raise TimeoutError(f"not within {within_s:g} s")
        time.sleep(0.2)


class Machine:
    """A Debian that has booted, and what is asked of it."""

    def __init__(self, init: int) -> None:
        self._init = init

    def do(self, script: str, within_s: float = BOOT_WITHIN_S) -> str:
        return run(*self._inside(), "bash", "-ec", script, within_s=within_s).strip()

    def status(self, script: str) -> int:
        """The exit status of a command that may fail."""
        return subprocess.run(
            [*self._inside(), "bash", "-c", script],
            capture_output=True, check=False, timeout=BOOT_WITHIN_S,
        ).returncode  # fmt: skip

    def unit(self, name: str) -> str:
        """A property of the unit, as systemd tells it."""
        return self.do(f"systemctl show --property={name} --value shard-coordinator")

    def until(self, name: str, value: str, within_s: float = BOOT_WITHIN_S) -> None:
        wait_for(lambda: self.unit(name) == value, within_s)

    def _inside(self) -> list[str]:
        return ["nsenter", f"--target={self._init}", "-m", "-n", "-p", "-u", "-i", "-r"]


@contextmanager
def booted(system: Path) -> Iterator[Machine]:
    """The system as a machine of its own, with a network in which there is nobody else."""
    container = subprocess.Popen(
        [shutil.which("systemd-nspawn") or "", "--quiet", f"--directory={system}",
         "--private-network", "--register=no", "--keep-unit", "--kill-signal=SIGRTMIN+3", "--boot"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        machine = Machine(_init_of(container.pid))
        up = "systemctl is-system-running | grep --extended-regexp 'running|degraded'"
        wait_for(lambda: machine.status(up) == 0)
        yield machine
    finally:
        container.terminate()
        try:
            container.wait(30.0)
        except subprocess.TimeoutExpired:
            container.kill()
            container.wait()


def _init_of(container: int) -> int:
    found: list[int] = []

    def is_there() -> bool:
        children = Path(f"/proc/{container}/task/{container}/children").read_text().split()
        found.extend(int(child) for child in children if _name(child) == "systemd")
        return bool(found)

    wait_for(is_there)
    return found[0]


def _name(pid: str) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


needed = pytest.mark.skipif(bool(missing()), reason=missing())
