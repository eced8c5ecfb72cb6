"""The time in which executors may know more of a namespace than its table does.

A record only: when it ends is the leader's to say, what a claim is worth is decided in `claims`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimWindow:
    """Executors say what they hold from before, and nobody is placed."""

    lease_s: float
    """The longest lease that may be out from before: the window outlasts it."""
    epoch_floor: int
    """Epochs from here on were given in this window."""
