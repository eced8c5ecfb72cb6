"""The entry point of `shard-coordinator`.

Decides nothing but what to say when the extra that it needs is not installed.
"""

import importlib
import sys

_NEEDED = {"msgpack", "prometheus_client", "pysyncobj", "uvloop"}


def main() -> None:
    """Run `shard-coordinator`; where only the client is installed say what is missing."""
    try:
        node = importlib.import_module("coordinator.__main__")
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in _NEEDED:
            raise
        sys.stderr.write(
            f"shard-coordinator: cannot start — {package} is not installed — "
            "pip install 'shard-coordinator[server]'\n"
        )
        sys.exit(2)
    node.main()


if __name__ == "__main__":
    main()
