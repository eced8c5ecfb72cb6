"""When to try again.

Decides how long to wait and whether another try is allowed at all. Pure; it must not know what is
tried.
"""

import random
from typing import Final

BASE_S: Final = 0.1  # a tenth of an election: early tries find the new leader soon
CAP_S: Final = 5.0  # longer waits make a recovered cluster look dead to its users
# Retries beyond these are refused, so that an outage does not double the load: a burst for a
# fail-over, a fifth of the requests, and one per two seconds for callers that are alone.
BUDGET_BURST: Final = 10.0
BUDGET_PER_REQUEST: Final = 0.2
BUDGET_PER_S: Final = 0.5


def full_jitter_s(
    failures: int, rng: random.Random, *, base_s: float = BASE_S, cap_s: float = CAP_S
) -> float:
    """A wait anywhere between nothing and the exponential bound after so many failures."""
    exponent = min(max(failures - 1, 0), 16)  # 2^16 is past every cap; larger would overflow
    return rng.uniform(0.0, min(cap_s, base_s * 2.0**exponent))


def spread_s(asked_s: float, rng: random.Random, *, cap_s: float = 60.0) -> float:
    """At least what a node asked to wait, spread by up to half of it; bounded."""
    bounded = min(max(asked_s, 0.0), cap_s)
    return bounded + rng.uniform(0.0, bounded / 2)


def poll_wait_s(longest_s: float, rng: random.Random) -> float:
    """How long one long poll asks to wait: three quarters of the longest wait, or up to all of it.

    A change wakes all who wait at once. If all waited equally long again they would come back
    together for as long as nothing else happens.
    """
    return longest_s * rng.uniform(0.75, 1.0)


class RetryBudget:
    """Tokens for retries: earned by requests and by time, spent by retries."""

    def __init__(
        self,
        *,
        burst: float = BUDGET_BURST,
        per_request: float = BUDGET_PER_REQUEST,
        per_s: float = BUDGET_PER_S,
    ) -> None:
        self._burst: Final = burst
        self._per_request: Final = per_request
        self._per_s: Final = per_s
        self._tokens = burst
        self._at: float | None = None

    def earn(self, now: float) -> None:
        """A request was made for the first time."""
        self._refill(now)
        self._tokens = min(self._burst, self._tokens + self._per_request)

    def spend(self, now: float) -> bool:
        """Whether one more retry is allowed; takes its token if so."""
        self._refill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _refill(self, now: float) -> None:
        if self._at is not None and now > self._at:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_s)
        self._at = now


class Pace:
    """A token bucket for long polls: answers in a row are taken at once, floods are slowed."""

    def __init__(self, *, burst: float = 8.0, per_s: float = 50.0) -> None:
        # State is level-triggered, so answers that come faster than fifty a second may coalesce.
        self._burst: Final = burst
        self._per_s: Final = per_s
        self._tokens = burst
        self._at: float | None = None

    def delay_s(self, now: float) -> float:
        """How long the next poll has to wait; takes its token."""
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._per_s)
        self._at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._per_s)
