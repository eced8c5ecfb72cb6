"""The command `shard-coordinator --config FILE`: one node until SIGTERM or SIGINT.

`shard-coordinator token new` makes a token instead (`token_command.py`).

Exit status: 0 stopped as told, 1 the node failed, could not start, or (`--ping`) does not live, 2
wrong usage or settings.
"""

import argparse
import os
import sys

import uvloop
from msgspec.structs import replace

from coordinator import __version__, token_command
from coordinator.api import TlsRefused, TokensRefused
from coordinator.credentials import Credentials
from coordinator.logs import set_up_logs
from coordinator.ping import is_alive
from coordinator.process import Start, run
from coordinator.settings import LogLevel, Settings, SettingsError, load_settings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shard-coordinator",
        description="One node of a Shard Coordinator cluster; `token new` makes tokens for it.",
        epilog="Every setting can be overridden by SHARD_COORDINATOR__SECTION__KEY.",
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="TOML file; see configs/")
    parser.add_argument(
        "--check",
        action="store_true",
        help="check the settings, tokens and the API's certificates, and exit: 0 good, 2 not",
    )
    parser.add_argument(
        "--ping",
        action="store_true",
        help="ask the node that runs with these settings whether it lives, and exit: 0 yes, 1 no",
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
    parser.add_argument(
        "--log-level",
        choices=[level.value for level in LogLevel],
        help="overrides the settings, after a reload (SIGHUP) as well",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def main() -> None:
    """Run a node, or make a token."""
    if sys.argv[1:2] == ["token"]:
        sys.exit(token_command.main(sys.argv[2:]))
    arguments = _parser().parse_args()

    def load() -> Settings:
        settings = load_settings(arguments.config, os.environ)
        if arguments.log_level is None:
            return settings
        level = LogLevel(arguments.log_level)
        return replace(settings, log=replace(settings.log, level=level))

    try:
        settings = load()
    except SettingsError as error:
        for fault in error.errors:
            sys.stderr.write(f"{arguments.config}: {fault}\n")
        sys.exit(2)
    if arguments.check:
        sys.exit(_checked(settings))
    if arguments.ping:
        sys.exit(0 if is_alive(settings) else 1)
    set_up_logs(settings.log.level, settings.log.format)
    start = Start(
        settings=settings,
        load=load,
        bootstrap=arguments.bootstrap,
        former_id=arguments.force_new_cluster,
    )
    sys.exit(uvloop.run(run(start)))


def _checked(settings: Settings) -> int:
    """2, with what is wrong, unless the files that the settings name can be used."""
    try:
        Credentials(settings.security)
    except (TokensRefused, TlsRefused) as refused:
        sys.stderr.write(f"shard-coordinator: {refused}\n")
        return 2
    return 0


if __name__ == "__main__":
    main()
