"""The list of what stands against what names tests that are there."""

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_file_that_the_list_names_exists():
    text = (HERE / "README.md").read_text()
    named = set(re.findall(r"`((?:[a-z]+/)?(?:test_\w+|machine)\.py)`", text))
    assert len(named) > 20
    for name in named:
        assert (HERE / name).exists() or (HERE.parent / name).exists(), name


def test_every_claim_that_the_list_quotes_is_a_tests_name():
    text = (HERE / "README.md").read_text()
    known = "\n".join(path.read_text() for path in HERE.parent.rglob("test_*.py"))
    for part in re.findall(r"`…(\w+?)…?`", text):
        assert part.strip("_") in known, part
