"""Runs `shardctl` within the test's process, and keeps what it printed."""

import contextlib
import io
import json
from dataclasses import dataclass

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
