"""Asking before what cannot be taken back, or moves many shards.

Decides how one is asked: by typing a name, since a `y` comes too easily. Without a terminal there
is nobody to ask, and nothing is done without `--yes`.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(function: F) -> F:
    """`--yes` of commands that ask."""
    return click.option("--yes", is_flag=True, help="Do not ask.")(function)


def confirm(question: str, name: str, *, is_sure: bool) -> None:
    """Go on if the name is typed, or if nobody has to be asked; else a wrong usage."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"nobody to ask: {question} — repeat with --yes")
    typed = click.prompt(f"{question} Type {name} to go on", err=True)
    if typed != name:
        raise click.UsageError("that is another name: nothing was done")
