"""Users' tests, run by a pytest that has the kit's plugin and whatever else they have."""

import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PLAIN, WITH_FIXTURES = HERE / "user_tests.py", HERE / "user_tests_with_fixtures.py"
BESIDE_ASYNCIO = (
    *("-p", "pytest_asyncio.plugin"),
    *("-o", "asyncio_default_fixture_loop_scope=function"),
)


def pytest_of_a_user(folder, files, *options):
    """Its outcome as text; fails if any test does."""
    plugins = ("-p", "client.testing.plugin", *options, "-p", "no:cacheprovider")
    where = ("--rootdir", str(folder), "-c", os.devnull, "--import-mode=importlib")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", *plugins, *where, *files],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=50,
        check=False,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_users_tests_need_no_ports_no_sleeps_and_no_other_plugin(tmp_path):
    assert "6 passed" in pytest_of_a_user(tmp_path, [PLAIN])


@pytest.mark.slow
def test_the_same_tests_run_beside_pytest_asyncio_in_strict_mode(tmp_path):
    options = (*BESIDE_ASYNCIO, "-o", "asyncio_mode=strict")
    assert "6 passed" in pytest_of_a_user(tmp_path, [PLAIN], *options)


def test_the_same_tests_run_beside_pytest_asyncio_and_services_can_be_async_fixtures(tmp_path):
    options = (*BESIDE_ASYNCIO, "-o", "asyncio_mode=auto")
    assert "9 passed" in pytest_of_a_user(tmp_path, [PLAIN, WITH_FIXTURES], *options)


def test_pytest_finds_the_plugin_by_its_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    assert importlib.import_module(module).shard_cluster
