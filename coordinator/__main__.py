"""The command `shard-coordinator --config FILE`: one node until SIGTERM or SIGINT.

Exit status: 0 stopped as told, 1 the node failed or could not start, 2 wrong usage or settings.
"""

import argparse
import asyncio
import os
import signal
import sys

import uvloop

from coordinator import __version__
from coordinator.garbage import spare_the_loop
from coordinator.logs import set_up_logs
from coordinator.node import Node, StartError
from coordinator.settings import Settings, SettingsError, load_settings


def main() -> None:
    """Run a node."""
    parser = argparse.ArgumentParser(
        prog="shard-coordinator",
        description="One node of a Shard Coordinator cluster.",
        epilog="Every setting can be overridden by SHARD_COORDINATOR__SECTION__KEY.",
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="TOML file; see configs/")
    parser.add_argument(
        "--check", action="store_true", help="check the settings and exit: 0 good, 2 not"
    )
    parser.add_argument(
        "--bootstrap",
        action="store_true",
        help="found a new cluster with a majority of empty members, although one is missing",
    )
    parser.add_argument(
        "--force-new-cluster",
        metavar="CLUSTER_ID",
        help="the other members of this cluster are lost for good: go on from this node's journal"
        " as another one, which empty members of the same names join",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    arguments = parser.parse_args()
    try:
        settings = load_settings(arguments.config, os.environ)
    except SettingsError as error:
        for fault in error.errors:
            sys.stderr.write(f"{arguments.config}: {fault}\n")
        sys.exit(2)
    if arguments.check:
        sys.exit(0)
    set_up_logs(settings.log.level, settings.log.format)
    former_id = arguments.force_new_cluster
    sys.exit(uvloop.run(run(settings, bootstrap=arguments.bootstrap, former_id=former_id)))


async def run(settings: Settings, *, bootstrap: bool, former_id: str | None) -> int:
    """A node's life; gives the exit status."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        node = Node(settings, bootstrap=bootstrap, former_id=former_id)
        spare_the_loop()
        await node.start()
    except StartError as error:
        sys.stderr.write(f"shard-coordinator: {error}\n")
        return 1
    loop.add_signal_handler(signal.SIGHUP, node.reload)
    told = loop.create_task(stopping.wait())
    failed = node.fatal
    if failed is None:  # start() has made it
        raise AssertionError
    await asyncio.wait((told, failed), return_when=asyncio.FIRST_COMPLETED)
    if not failed.done():
        await node.hand_over()
    told.cancel()
    await node.stop()
    return 1 if failed.done() else 0


if __name__ == "__main__":
    main()
