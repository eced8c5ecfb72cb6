"""What pages for operators name is there: commands, options, files, metrics, settings, events."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from client.cli.root import shardctl

ROOT = Path(__file__).parents[1]
PAGES = ("configs/RUNBOOK.md", "configs/DEPLOYMENT.md", "client/OPERATING.md")
SOURCE = "\n".join(
    path.read_text()
    for pattern in ("coordinator/**/*.py", "client/**/*.py", "configs/**/*.*")
    for path in sorted(ROOT.glob(pattern))
    if path.suffix != ".md"
)

everywhere = pytest.mark.parametrize("page", PAGES)


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def commands(text: str) -> Iterator[list[str]]:
    """Every call of `shardctl` in code."""
    code = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    inline = re.findall(r"`(shardctl [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line for block in code for line in block.splitlines()] + inline
    for line in lines:
        if found := re.match(r"\s*(?:until |while |! )?(shardctl [^#|&;>]*)", line):
            yield shlex.split(found[1])


def faults(argv: list[str]) -> str:
    """What is wrong with a call as it is written; empty when click takes it."""
    group: click.Command = shardctl
    context = click.Context(shardctl)
    words = iter(argv[1:])
    known = {option for one in shardctl.params for option in one.opts}
    for word in words:
        if word.startswith("-"):
            option = word.partition("=")[0]
            if option not in known:
                return f"no option {option}"
            flags = [one for one in group.params if option in one.opts]
            takes_one = not any(isinstance(one, click.Option) and one.is_flag for one in flags)
            if takes_one and "=" not in word:
                next(words, None)
        elif isinstance(group, click.Group):
            below = group.get_command(context, word)
            if below is None:
                return f"no command {word}"
            group = below
            known |= {option for one in group.params for option in one.opts}
    return "" if not isinstance(group, click.Group) else "no verb"


@everywhere
def test_every_command_that_is_named_exists_with_its_options(page: str) -> None:
    found = list(commands(text_of(page)))
    assert found
    assert {shlex.join(argv): fault for argv in found if (fault := faults(argv))} == {}


def test_a_command_that_is_not_there_is_noticed() -> None:
    assert faults(["shardctl", "cluster", "chek"]) == "no command chek"
    assert faults(["shardctl", "-n", "orders", "shard", "inspect", "--why"]) == "no option --why"
    assert faults(["shardctl", "cluster"]) == "no verb"


@everywhere
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)", text_of(page)):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target


@everywhere
def test_every_name_in_code_occurs_in_the_product(page: str) -> None:
    """Metrics, settings, reasons, kinds and log events are written with underscores."""
    prose = re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    names = {
        name
        for code in re.findall(r"`([^`\n]+)`", prose)
        for name in re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", code)
    }
    known = SOURCE.replace("shard_coordinator_", "")
    plain = {re.sub(r"^shard_coordinator_|_(?:total|bucket)$", "", name) for name in names}
    assert {name for name in plain if name not in known} == set()
