"""What `coordinator/DESIGN.md` names must be there under that name."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DESIGN = ROOT / "coordinator" / "DESIGN.md"
TEXT = DESIGN.read_text()
QUOTED = sorted(set(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", TEXT)))


def defined() -> set[str]:
    """Names of classes, of functions, and `Class.member` of what classes define."""
    names: set[str] = set()
    for package in ("coordinator", "client"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    names |= {node.name, *(f"{node.name}.{one}" for one in members(node))}
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    names.add(node.name)
                elif isinstance(node, ast.Assign | ast.AnnAssign):
                    names |= targets(node)
    return names


def targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    listed = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {
        one.id if isinstance(one, ast.Name) else one.attr
        for one in listed
        if isinstance(one, ast.Name | ast.Attribute)
    }


def members(node: ast.ClassDef) -> set[str]:
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(one.name)
        elif isinstance(one, ast.Assign | ast.AnnAssign):
            found |= targets(one)
    return found


PATHS = [one for one in QUOTED if re.fullmatch(r"[\w./-]+(\.py|\.md|/)", one)]
NAMES = [one for one in QUOTED if re.fullmatch(r"[A-Z]\w*(\.\w+)?|[A-Z]+(_[A-Z]+)+", one)]


@pytest.mark.parametrize("path", PATHS)
def test_every_file_that_is_named_exists(path: str) -> None:
    assert (ROOT / "coordinator" / path).exists() or (ROOT / path).exists()


def test_every_class_and_member_that_is_named_exists() -> None:
    known = defined()
    assert [name for name in NAMES if name not in known] == []
    assert len(NAMES) > 25


def test_decisions_are_numbered_without_gaps_and_say_what_would_change_our_mind() -> None:
    entries = re.split(
        r"^(?=\d+\. )", TEXT.partition("## Stated weaknesses")[0], flags=re.MULTILINE
    )[1:]
    assert [int(one.split(".")[0]) for one in entries] == list(range(1, len(entries) + 1))
    silent = [one[:40] for one in entries if "*Would change our mind:*" not in one]
    assert silent == []
