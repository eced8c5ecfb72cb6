"""The lock file: every package of a server's install, in one version, with its files' hashes.

Decides what a lock must be like to be trusted. It asks nobody: what is checked is the text.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = ROOT / "configs" / "requirements.lock"
EXTRAS: Final = ("server", "cli")
"""What the container and the handbook install."""
PROJECT: Final = "shard-coordinator"

_PIN: Final = re.compile(r"([A-Za-z0-9._-]+)==([^\s;\\]+)\s*(?:;\s*([^\\]+?))?\s*(?:\\)?$")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Pin:
    """One package as it is installed."""

    name: str
    version: str
    marker: str
    """Where it is installed only there; empty: everywhere."""
    hashes: tuple[str, ...]
    """SHA-256 of each file that may be installed."""
    via: tuple[str, ...]
    """Who brings it: other packages, or the project itself."""


def read(text: str) -> list[Pin]:
    """The pins of a lock file; raises ValueError on a line that is none of its kinds."""
    pins: list[Pin] = []
    name = version = marker = ""
    hashes: list[str] = []
    via: list[str] = []

    def finish() -> None:
        if name:
            pins.append(Pin(name, version, marker, tuple(hashes), tuple(via)))
        hashes.clear()
        via.clear()

    for line in text.splitlines():
        bare = line.strip()
        if found := _PIN.fullmatch(bare):
            finish()
            name, version = canonicalize_name(found[1]), found[2]
            marker = found[3] or ""
        elif found := _HASH.match(bare):
            hashes.append(found[1])
        elif bare.startswith("#"):
            via += _brings(bare)
        elif bare:
            raise ValueError(f"neither a pin nor a hash: {bare[:100]!r}")
    finish()
    return pins


def _brings(comment: str) -> Iterator[str]:
    text = comment.removeprefix("#").strip().removeprefix("via").strip()
    if text.startswith(PROJECT):
        yield PROJECT
    elif text and " " not in text:
        yield canonicalize_name(text)


def asked_for(pyproject: Path = ROOT / "pyproject.toml") -> list[Requirement]:
    """What the project asks for with the extras that a server has."""
    project = tomllib.loads(pyproject.read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]
    return [Requirement(line) for line in lines]


def faults(pins: Sequence[Pin], wanted: Sequence[Requirement]) -> list[str]:
    """Why an install from these pins would not be what the project asks for."""
    by_name = {pin.name: pin for pin in pins}
    told = [f"{pin.name} has no hash" for pin in pins if not pin.hashes]
    told += [f"nobody asks for {pin.name}" for pin in pins if not pin.via]
    told += [
        f"{pin.name} comes with {source}, which is not pinned"
        for pin in pins
        for source in pin.via
        if source != PROJECT and source not in by_name
    ]
    if len(by_name) != len(pins):
        told.append("a package stands twice")
    for requirement in wanted:
        pin = by_name.get(canonicalize_name(requirement.name))
        if pin is None:
            told.append(f"{requirement.name} is not pinned")
        elif not requirement.specifier.contains(pin.version, prereleases=True):
            told.append(f"{pin.name} is {pin.version} where {requirement} is asked for")
    return told
