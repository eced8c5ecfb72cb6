"""`python -m bench.demo [--seconds N] [--json] [--keep DIR]`.

Three nodes, eight executors and real load: starts from hash placement, switches the balancer on,
drains a host, kills the leader and an executor, while routers check every owner. Exit status 0
only if nothing was lost.
"""

import argparse
import asyncio
import contextlib
import logging
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from bench.demo import summary as verdict
from bench.demo import view
from bench.demo.fleet import NotStarted
from bench.demo.scene import Scene
from bench.demo.stage import Stage
from bench.demo.story import SECONDS_DEFAULT, SECONDS_MIN, Story
from bench.demo.summary import Summary
from bench.demo.workload import Workload, read_series
from bench.processes import Processes
from client import ShardCoordinatorError
from client.clock import lease_now_s

INTERRUPTED = 130
"""What shells expect of a program that Ctrl-C ended."""


async def run(folder: Path, seconds: float) -> Summary:
    """One demo; whatever happens, every process it started is gone afterwards."""
    began_at = lease_now_s()
    scene = Scene(seconds)
    fault = ""
    async with Processes(folder) as processes:
        stage = Stage(folder, processes, Workload(read_series(), began_at), scene)
        story = Story(stage, seconds)
        beside = [asyncio.create_task(view.show(scene)), asyncio.create_task(_tick(scene))]
        try:
            await story.tell()
            scene.phase = "done"
        except (NotStarted, ShardCoordinatorError, TimeoutError, RuntimeError) as error:
            fault = f"while {scene.phase}: {error or type(error).__name__}"
        finally:
            try:
                await stage.close()
            except NotStarted as error:
                fault = fault or str(error)
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
    found = verdict.summarise(
        story.findings, stage.fleet.tenures(), stage.fleet.lookups(), lease_now_s() - began_at
    )
    if fault:
        found.faults.insert(0, fault)
        found.ok = False
    return found


async def _tick(scene: Scene) -> None:
    began_at = lease_now_s()
    while True:
        scene.passed_s = lease_now_s() - began_at
        await asyncio.sleep(0.1)


async def _until_told(folder: Path, seconds: float) -> Summary | None:
    """The demo; None when SIGINT or SIGTERM ended it."""
    running = asyncio.create_task(run(folder, seconds))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        return await running
    return None


def _seconds(text: str) -> float:
    value = float(text)
    if not SECONDS_MIN <= value <= 3600.0:
        raise argparse.ArgumentTypeError(f"between {SECONDS_MIN:g} and 3600")
    return value


def main() -> int:
    """Run the demo and print its summary."""
    parser = argparse.ArgumentParser(prog="bench.demo", description=__doc__)
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=SECONDS_DEFAULT,
        metavar="N",
        help=f"at most so long (default {SECONDS_DEFAULT:g}, at least {SECONDS_MIN:g})",
    )
    parser.add_argument("--json", action="store_true", help="the summary as one JSON line")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep settings, logs and notes")
    args = parser.parse_args()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    folder: Path = args.keep or Path(tempfile.mkdtemp(prefix="shard-coordinator-demo-"))
    # What the client kit has to say goes beside the other logs, not into the picture.
    logging.basicConfig(filename=folder / "demo.log", level=logging.INFO)
    found = asyncio.run(_until_told(folder, args.seconds))
    if found is None:
        print("interrupted; everything was stopped", file=sys.stderr)
        status = INTERRUPTED
    else:
        verdict.show(found, Console(stderr=args.json, width=None if not args.json else 100))
        if args.json:
            print(msgspec.json.encode(found).decode())
        status = 0 if found.ok else 1
    if args.keep is None and status != 1:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"settings, logs and notes are in {folder}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
