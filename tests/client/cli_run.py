"""Runs `shardctl` within the test's process, and keeps what it printed."""

import contextlib
import io
import json
from dataclasses import dataclass

import click

from client.cli import root

Stream = io.StringIO  # a test may put a terminal here


@dataclass(frozen=True)
class Run:
    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return self.out.splitlines()


def run(*arguments):
    out, err = Stream(), Stream()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = root.run(list(arguments))
    assert "Traceback" not in err.getvalue()
    return Run(status, out.getvalue(), err.getvalue())


def commands(group=root.shardctl, path=()):
    """Every command by its words."""
    found = {}
    for name, one in group.commands.items():
        if isinstance(one, click.Group):
            found |= commands(one, (*path, name))
        else:
            found[" ".join((*path, name))] = one
    return found
