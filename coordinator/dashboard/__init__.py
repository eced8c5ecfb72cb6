"""The dashboard: a static page and what it loads, read once from the package's own files.

Decides which files there are and how they are told apart by their content. What they do is written
in themselves, and described in `DESIGN.md`; no tool makes them.
"""

from dataclasses import dataclass
from functools import cache
from hashlib import blake2s
from importlib.resources import files
from typing import Final

PAGE: Final = "index.html"
_MEDIA: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served."""

    body: bytes
    media: str
    etag: str
    """Changes with the content, so that a browser asks and is rarely sent anything."""


@cache
def assets() -> dict[str, Asset]:
    """Every file by its name."""
    return {
        file.name: _asset(file.read_bytes(), file.name.rpartition(".")[2])
        for file in files(__name__).joinpath("assets").iterdir()
        if file.name.rpartition(".")[2] in _MEDIA
    }


def _asset(body: bytes, kind: str) -> Asset:
    etag = f'"{blake2s(body, digest_size=8).hexdigest()}"'
    return Asset(body, f"{_MEDIA[kind]}; charset=utf-8", etag)
