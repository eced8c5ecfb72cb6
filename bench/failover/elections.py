"""Who led in which term, by what the nodes logged themselves.

Decides what counts as two leaders in one term. Must not know what was done to the nodes.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LED: Final = re.compile(r"leader_elected node=(\S+) term=(\d+)")


def leaders_by_term(folder: Path, names: Iterable[str]) -> dict[int, set[str]]:
    """Everybody who says in its log `folder/NAME.log` that it led, term by term."""
    found: dict[int, set[str]] = {}
    for name in names:
        for leader, term in LED.findall((folder / f"{name}.log").read_text(errors="replace")):
            found.setdefault(int(term), set()).add(leader)
    return found


def rivals(folder: Path, names: Iterable[str]) -> list[str]:
    """The terms that had more than one leader, as sentences: there must be none."""
    return [
        f"term {term} had {len(led)} leaders: {', '.join(sorted(led))}"
        for term, led in sorted(leaders_by_term(folder, names).items())
        if len(led) > 1
    ]
