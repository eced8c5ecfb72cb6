"""`python -m bench.demo [--seconds N] [--json] [--stay] [--keep DIR]`.

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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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


@dataclass(slots=True)
class Demo:
    """One run, and its verdict once there is one."""

    folder: Path
    seconds: float
    stays: bool
    publish: Callable[[Summary], None]
    verdict: Summary | None = None

    async def run(self) -> None:
        """Whatever happens, every process it started is gone afterwards."""
        began_at = lease_now_s()
        scene = Scene(self.seconds)
        async with Processes(self.folder) as processes:
            stage = Stage(self.folder, processes, Workload(read_series(), began_at), scene)
            story = Story(stage, self.seconds)
            fault = await self._tell(story, stage)
            found = verdict.summarise(
                story.findings,
                stage.fleet.tenures(),
                stage.fleet.lookups(),
                lease_now_s() - began_at,
            )
            if fault:
                found.faults.insert(0, fault)
                found.ok = False
            self.verdict = found
            self.publish(found)
            if self.stays:
                urls = " ".join(stage.fleet.nodes.urls)
                print(f"nodes stay at {urls} until Ctrl-C", file=sys.stderr, flush=True)
                await asyncio.Event().wait()

    async def _tell(self, story: Story, stage: Stage) -> str:
        """The story with its picture beside it; what it failed by, if it did."""
        scene = stage.scene
        beside = [asyncio.create_task(view.show(scene)), asyncio.create_task(_tick(scene))]
        fault = ""
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
        return fault


async def _tick(scene: Scene) -> None:
    began_at = lease_now_s()
    while True:
        scene.passed_s = lease_now_s() - began_at
        await asyncio.sleep(0.1)


async def _until_told(demo: Demo) -> None:
    """The demo; SIGINT or SIGTERM end it in order."""
    running = asyncio.create_task(demo.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running


def _seconds(text: str) -> float:
    value = float(text)
    if not SECONDS_MIN <= value <= 3600.0:
        raise argparse.ArgumentTypeError(f"between {SECONDS_MIN:g} and 3600")
    return value


def _publish(found: Summary, *, as_json: bool) -> None:
    """For people; with `as_json` on stderr, and the line for machines on stdout."""
    verdict.show(found, Console(stderr=as_json))
    if as_json:
        print(msgspec.json.encode(found).decode(), flush=True)


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
    parser.add_argument("--stay", action="store_true", help="keep the nodes until Ctrl-C")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep settings, logs and notes")
    args = parser.parse_args()
    if args.keep is not None:
        args.keep.mkdir(parents=True, exist_ok=True)
    folder: Path = args.keep or Path(tempfile.mkdtemp(prefix="shard-coordinator-demo-"))
    # What the client kit has to say goes beside the other logs, not into the picture.
    logging.basicConfig(filename=folder / "demo.log", level=logging.INFO)
    demo = Demo(folder, args.seconds, args.stay, partial(_publish, as_json=args.json))
    asyncio.run(_until_told(demo))
    if demo.verdict is None:
        print("interrupted; everything was stopped", file=sys.stderr)
        status = INTERRUPTED
    else:
        status = 0 if demo.verdict.ok else 1
    if args.keep is None and status != 1:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"settings, logs and notes are in {folder}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
