"""The operators' guide: its transcripts are run as they stand, and its table is the command's.

`REWRITE=1` writes what the commands print now into the guide; review that as a diff.
"""

import asyncio
import contextlib
import io
import os
import re
import shlex
from pathlib import Path

import click
import pytest

from client import Operator
from client.cli import root
from tests.client.cli_run import commands
from tests.client.fleet import Diary
from tests.waiting import until

GUIDE = Path(__file__).parents[2] / "client" / "OPERATING.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
HOSTS = 8
LOADS = (0.3, 0.25, 0.1)
"""Of the three shards of each executor."""
POLICY = {
    "lease_ttl_s": 30.0,
    "heartbeat_interval_s": 0.2,
    "initial_hold_s": 0.0,
    "balancer": {"mode": "off", "high_mark": 0.85, "smoothing_horizon_s": 0.1},
}
ANY = "…"
"""A line that stands for any lines."""
_VOLATILE = (
    (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
    (r"d-[0-9a-f]{12}", "DRAIN"),
    (r"\bevent \d+", "event N"),
    (r"\b\d{12,16}\b", "EPOCH"),
    (r"\b\d+\.\d+s\b", "AGE"),
    (r"\(matching-\d\)|matching-\d(?=:)|matching-\d(?= would)", "WHICH"),  # equals are many
    (r"[ \t]+", " "),
)


def alike(line: str) -> str:
    """A line without what differs from one run to the next."""
    for pattern, word in _VOLATILE:
        line = re.sub(pattern, word, line)
    return line.strip()


def is_as_told(printed: list[str], told: list[str]) -> bool:
    """Whether these lines were printed, where `…` stands for any."""
    pattern = "\n".join(
        "(?:.*\n)*?.*" if line.strip() == ANY else re.escape(alike(line)) for line in told
    )
    return re.fullmatch(pattern, "\n".join(map(alike, printed))) is not None


def steps(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a transcript, each with what is shown below it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def shell(line: str, *common: str) -> tuple[int, list[str]]:
    """What one line of a transcript prints, on both streams as a terminal shows it."""
    program, *words = shlex.split(line)
    assert program == "shardctl"
    both = io.StringIO()
    with contextlib.redirect_stdout(both), contextlib.redirect_stderr(both):
        status = root.run([*common, *words])
    return status, both.getvalue().splitlines()


@contextlib.asynccontextmanager
async def night_shift(cluster, operator, diary):
    """Eight hosts with an executor and three shards each, all of them measured."""
    await operator.create_namespace("orders", policy=POLICY)
    await cluster.close_window("orders")
    keys = [f"orders/{number}" for number in range(HOSTS * len(LOADS))]
    await operator.declare_shards("orders", keys)
    async with contextlib.AsyncExitStack() as stack:
        first, *_ = [
            await stack.enter_async_context(member(cluster, diary, number))
            for number in range(1, HOSTS + 1)
        ]
        await until(lambda: first.lease_state.name == "CONNECTED")
        homes = (f"matching-{number % HOSTS + 1}" for number in range(len(keys)))
        await asyncio.gather(*(at_home(operator, *one) for one in zip(keys, homes, strict=True)))
        await until(lambda: all_measured(operator))
        yield
    await operator.delete_namespace("orders", force=True)


def member(cluster, diary, number):
    name = f"matching-{number}"

    async def start(shard):
        diary.note(name, "start", shard)
        shard.set_load(LOADS[int(shard.key.split("/")[1]) // HOSTS])

    return diary.executor(
        cluster.endpoints,
        "orders",
        name,
        host=f"host-{number}",
        address=f"10.0.0.{number}:7933",
        on_start=start,
        leave_timeout_s=0.05,
    )


async def at_home(operator: Operator, key: str, home: str) -> None:
    """Where the transcript wants it, whatever the first placement was."""

    async def is_there() -> bool:
        view = await operator.shard("orders", key)
        if view.state == "owned" and view.executor != home:
            await operator.move_shard("orders", key, home, reason="set up")
        return view.state == "owned" and view.executor == home

    await until(is_there)


async def all_measured(operator: Operator) -> bool:
    balance = await operator.balance("orders")
    even = all(abs(one.load - sum(LOADS)) < 1e-6 for one in balance.executors)
    return not balance.unmeasured and even and len(balance.executors) == HOSTS


@pytest.mark.asyncio(loop_scope="session")
async def test_the_transcripts_are_what_the_commands_print(cluster, operator):
    text = GUIDE.read_text()
    written = text
    wrong: list[str] = []
    diary = Diary()
    async with night_shift(cluster, operator, diary):
        for block in BLOCK.findall(text):
            shown = ""
            for line, told in steps(block):
                common = ("--endpoints", cluster.endpoints[0])
                status, printed = await asyncio.to_thread(shell, line, *common)
                assert status == 0, (line, printed)
                shown += f"$ {line}\n" + "".join(f"{one.rstrip()}\n" for one in printed)
                if not is_as_told(printed, told):
                    wrong.append(f"$ {line}\n" + "\n".join(printed))
            written = written.replace(block, shown)
    if os.environ.get("REWRITE"):
        GUIDE.write_text(written)
        return
    assert not wrong, "\n".join(wrong)


def test_each_task_takes_two_commands_at_most():
    tasks = re.split(r"^## ", GUIDE.read_text(), flags=re.MULTILINE)[1:]
    transcripts = {task.splitlines()[0]: BLOCK.findall(task) for task in tasks}
    told = {title: blocks for title, blocks in transcripts.items() if blocks}
    assert len(told) >= 6
    assert [t for t, blocks in told.items() if sum(len(steps(b)) for b in blocks) > 2] == []


def row(path: str, one: click.Command) -> str:
    """A command as the guide's table names it."""
    common = {"--namespace", "--output", "--no-header", "--help"}
    long = (
        max((name for name in option.opts if name.startswith("--")), key=len, default="")
        for option in one.params
    )
    options = " ".join(f"`{name}`" for name in long if name and name not in common)
    told = " ".join((one.help or "").split("\n\n")[0].split())
    return f"| `{path}` | {options} | {told} |"


def test_the_table_names_every_command_and_every_option_and_no_other():
    before, mark, _ = GUIDE.read_text().partition("| command | options | |\n|---|---|---|\n")
    text = before + mark + "".join(f"{row(*one)}\n" for one in commands().items())
    if os.environ.get("REWRITE"):
        GUIDE.write_text(text)
    assert GUIDE.read_text() == text, "REWRITE=1 writes it anew"
