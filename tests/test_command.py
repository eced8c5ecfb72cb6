"""The entry point of `shard-coordinator` where only the client's parts are installed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from coordinator import command

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def started_without(package: str) -> subprocess.CompletedProcess[str]:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"  # as if it could not be found
        "from coordinator.command import main; main()"
    )
    argv = [sys.executable, "-c", program, "--version"]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("package", sorted(command._NEEDED))
def test_a_part_that_is_missing_is_one_line_that_says_what_to_install(package: str) -> None:
    ended = started_without(package)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        f"shard-coordinator: cannot start — {package} is not installed — "
        "pip install 'shard-coordinator[server]'\n"
    )


def test_what_may_be_missing_is_what_the_extra_has() -> None:
    extra = PROJECT["optional-dependencies"]["server"]
    names = {one.split(">")[0].split("=")[0].replace("-", "_") for one in extra}
    assert names == command._NEEDED
    assert PROJECT["scripts"]["shard-coordinator"] == "coordinator.command:main"


def test_anything_else_that_is_missing_is_a_fault() -> None:
    assert "ModuleNotFoundError" in started_without("msgspec").stderr
