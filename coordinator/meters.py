"""What the shells of one node count and time, for whoever asks: sums that only grow.

Decides nothing and knows no names of metrics; `metrics` reads it at each scrape. Bounded by the
table of routes and the statuses they answer.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from coordinator.core.durations import Durations


@dataclass(slots=True)
class Meters:
    """One node's own figures since its start."""

    monotonic: Callable[[], float] = time.monotonic
    """The node's clock, by which all of them are measured."""
    answered: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Answers by (route, status)."""
    turned_away: Counter[str] = field(default_factory=Counter)
    """Requests that were not let in, by why."""
    requests: dict[str, Durations] = field(default_factory=dict)
    """By route, long polls left out."""
    commits: Durations = field(default_factory=Durations)
    """From a proposal to its outcome."""
    steps: Durations = field(default_factory=Durations)
    """How long the leader's steps held the loop."""
    loop_lag: Durations = field(default_factory=Durations)
    """How late the loop was, whenever it was looked at."""
    log_lines: Mapping[str, int] = field(default_factory=dict)
    """Lines written by level, and those left out as there were too many of a kind."""
    leaderships: int = 0
    """Terms that this node led."""
    connections: Callable[[], int] = int
    """Open connections to the API; zero until something listens."""
    held_back: Callable[[], int] = int
    """Those of them that wait for a turn, since callers of their address were refused often."""
    api_certificate_left_s: Callable[[], float | None] = lambda: None
    """How long the API's certificate is good for; None without one."""

    def took(self, route: str, seconds: float) -> None:
        """A request was answered."""
        durations = self.requests.get(route)
        if durations is None:
            durations = self.requests[route] = Durations()
        durations.observe(seconds)
