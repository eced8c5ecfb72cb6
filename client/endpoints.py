"""Which node a request goes to.

Decides from what was answered and what failed: requests that need the leader go straight to it,
reads stay with one node until it fails. Pure but for the generator of chance it is given; it must
not know sockets, HTTP or what the requests say.
"""

import random
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

# A leader that could not be connected to is not followed again for this long: its followers name
# it until the next election (about a second), and its address may not be reachable from here.
SHUN_S: Final = 5.0
# Bound on remembered unreachable leaders; a cluster has three nodes.
SHUNNED_MAX: Final = 16


def checked_url(url: str) -> str:
    """The base URL without a trailing slash; raises ValueError on anything but http(s)://host."""
    parts = urlsplit(url.strip())
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"an endpoint looks like http://10.0.0.1:7070, not {url!r}")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ValueError(f"an endpoint is a bare base URL, without user or query: {url!r}")
    _ = parts.port  # raises ValueError when the port is no number
    return url.strip().rstrip("/")


class Endpoints:
    """The nodes of one cluster, with a hint who leads them."""

    def __init__(self, urls: Sequence[str], rng: random.Random) -> None:
        checked = tuple(dict.fromkeys(checked_url(url) for url in urls))
        if not checked:
            raise ValueError("at least one endpoint is needed")
        self._urls: Final = checked
        # A leader hint in plain HTTP would carry the token of a TLS user in the clear.
        self._is_tls_only: Final = all(url.startswith("https://") for url in checked)
        # Clients spread over the nodes by where they start.
        self._turn = rng.randrange(len(checked))
        self._leader: str | None = None
        self._shunned: dict[str, float] = {}

    @property
    def count(self) -> int:
        """How many nodes were configured."""
        return len(self._urls)

    @property
    def leader(self) -> str | None:
        """The node that is believed to lead."""
        return self._leader

    def pick(self, *, needs_leader: bool) -> str:
        """Where the next try goes."""
        if needs_leader and self._leader is not None:
            return self._leader
        return self._urls[self._turn]

    def observe_leader(self, url: str, now: float) -> None:
        """A node named its leader."""
        try:
            leader = checked_url(url)
        except ValueError:
            return
        if self._is_tls_only and not leader.startswith("https://"):
            return
        if now < self._shunned.get(leader, now):
            return
        self._shunned.pop(leader, None)
        self._leader = leader

    def observe_failure(self, url: str, now: float) -> None:
        """A node could not be connected to, or gave no answer in time."""
        if url == self._leader:
            self._leader = None
        if url not in self._shunned and len(self._shunned) >= SHUNNED_MAX:
            self._shunned.pop(next(iter(self._shunned)))
        self._shunned[url] = now + SHUN_S
        self.move_on(url)

    def observe_refusal(self, url: str) -> None:
        """A node answered that it cannot serve now (no leader, recovering, too many waiters)."""
        if url == self._leader:
            self._leader = None
        self.move_on(url)

    def move_on(self, url: str) -> None:
        """Reads leave this node, if they are there."""
        if url == self._urls[self._turn]:
            self._turn = (self._turn + 1) % len(self._urls)
