"""The network of a test comes apart again, whatever became of the test."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from bench.processes import Processes
from tests.system.namespaces import Network, lack

pytestmark = pytest.mark.skipif(lack() is not None, reason=lack() or "")


def interfaces():
    done = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True)  # noqa: S607
    return {line.split("@")[0].split()[0] for line in done.stdout.splitlines()}


async def failing(network, outside):
    try:
        await network.open()
        assert outside in interfaces()
        network.cut("a", "b")
        raise ZeroDivisionError
    finally:
        await network.close()


async def test_a_test_that_fails_leaves_no_interface(tmp_path):
    outside = f"sc{os.getpid()}"
    async with Processes(tmp_path) as processes:
        network = Network(processes, ("a", "b"))
        with pytest.raises(ZeroDivisionError):
            await failing(network, outside)
    assert outside not in interfaces()


def test_a_test_that_is_killed_outright_leaves_none_either(tmp_path):
    script = f"""
        import asyncio
        from pathlib import Path
        from bench.processes import Processes
        from tests.system.namespaces import Network

        async def run():
            async with Processes(Path({str(tmp_path)!r})) as processes:
                await Network(processes, ("a",)).open()
                print("open", flush=True)
                await asyncio.sleep(60)

        asyncio.run(run())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout.readline() == "open\n"
        assert f"sc{running.pid}" in interfaces()
        running.send_signal(signal.SIGKILL)
    end = time.monotonic() + 20.0
    while f"sc{running.pid}" in interfaces():
        assert time.monotonic() < end, "the kernel did not take it away"
        time.sleep(0.1)
