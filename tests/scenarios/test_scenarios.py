"""Scripts of events with the trace they leave; `make rewrite` writes the traces anew for review."""

import os
from pathlib import Path

import pytest

from tests.scenarios.scripts import Script, parsed, rendered

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
IS_REWRITE = bool(os.environ.get("REWRITE"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_script_leaves_the_trace_that_is_written_in_it(path: Path) -> None:
    script = Script()
    blocks = parsed(path.read_text())
    told = rendered([(command, script.trace(command)) for command, _ in blocks])
    if IS_REWRITE:
        path.write_text(told)
    assert told == path.read_text()


def test_there_are_scripts_and_each_says_what_it_is_about() -> None:
    assert len(SCRIPTS) >= 10
    assert all(path.read_text().startswith("# ") for path in SCRIPTS)
