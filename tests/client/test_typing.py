"""The public surface as a type checker sees it, from outside and strict."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

WRONG = {
    "an epoch is no text": "shard.epoch.upper()",
    "an owner may be missing": "router.owner('orders').address",
    "a misspelt option": "Executor([], namespace='n', name='e', on_begin=print)",
    "a key is text": "router.owner(7)",
    "the same without a loop": "blocking.Executor([], namespace='n', name='e', on_begin=print)",
    "a router of no namespace": "blocking.Router([])",
    "what is no filter": "blocking.Operator([]).shards('n', by='load')",
}


# Without a cache from `make types` mypy reads aiohttp and the coordinator anew: half a minute.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def strictly(*files):
    """What mypy says; the modules of the kit are read for their types alone."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", *files],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=170,
        check=False,
    )


def test_user_code_is_strictly_typed():
    done = strictly(HERE / "user_code.py", HERE / "testing" / "user_tests.py")
    assert done.returncode == 0, done.stdout


def test_what_is_wrong_is_found(tmp_path):
    head = [
        "from client import Executor, Router, Shard, blocking",
        "def f(router: Router, shard: Shard) -> None:",
    ]
    wrong = tmp_path / "wrong.py"
    wrong.write_text("\n".join([*head, *(f"    {line}" for line in WRONG.values()), ""]))
    told = strictly(wrong).stdout.splitlines()
    found = {int(line.split(":")[1]) for line in told if ": error:" in line}
    assert found == {len(head) + 1 + at for at in range(len(WRONG))}, told
