"""The entry point of `shardctl`.

Decides nothing but what to say when the extra that it needs is not installed.
"""

import importlib
import sys

_NEEDED = {"click", "rich"}


def main() -> None:
    """Run `shardctl`; never ends with a traceback."""
    try:
        root = importlib.import_module("client.cli.root")
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in _NEEDED:
            raise
        sys.stderr.write(
            f"shardctl: cannot start — {package} is not installed — "
            "pip install 'shard-coordinator[cli]'\n"
        )
        sys.exit(2)
    sys.exit(root.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
