"""Executors that have just come: how fast they may be filled, and which version is rolled out.

Soft: a new leader takes who holds nothing for a newcomer, and versions that differ for a deploy
that has just begun. Must not know which shards are to be placed or moved.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState
from coordinator.core.planner import Ramp, Seat

_ROUNDING = 1.0 + 1e-9
"""A smoothed load may be a little more than the load that was reported all the time."""


@dataclass(frozen=True, slots=True)
class Filling:
    """How much an executor may hold for now."""

    share: float
    """Of its fair share."""
    shards: int = 0
    """So many in any case, whatever they weigh: one for each window of a ramp."""


def note_arrivals(namespace: NamespaceState, mind: Mind, now: float) -> None:
    """Remember who joined with nothing while others owned something, and since when.

    At the first placement of a namespace all are alike, and so are all that come while claims are
    taken; who inherits shards is warm already.
    """
    has_owners = namespace.has_owners or bool(namespace.reservations)
    may_be_new = has_owners and namespace.info.window is None
    present = {(one.id, one.incarnation) for one in namespace.executors.values()}
    for gone in [one for one in mind.arrivals if one not in present]:
        del mind.arrivals[gone]
    for record in namespace.executors.values():
        if (record.id, record.incarnation) not in mind.arrivals:
            is_new = may_be_new and not namespace.owned(record.id)
            mind.arrivals[record.id, record.incarnation] = now if is_new else None


def ramping(namespace: NamespaceState, mind: Mind, now: float) -> dict[str, Filling]:
    """How much each newcomer may hold by now."""
    policy = namespace.info.policy
    ratio, window_s = policy.join_ramp_ratio, policy.balancer.budget_window_s
    found: dict[str, Filling] = {}
    for (executor, _), arrived_at in mind.arrivals.items():
        if arrived_at is not None and (now - arrived_at) * ratio < window_s:
            windows = int((now - arrived_at) // window_s) + 1
            found[executor] = Filling(ratio * windows, windows)
    return found


def is_mixed(namespace: NamespaceState, mind: Mind, now: float) -> bool:
    """Whether a deploy is under way: executors differ in version, the latest not for very long.

    Who names no version is of none. Who is to be back counts as what it was.
    """
    versions = [one.profile.version for one in namespace.executors.values()]
    versions += [one.version for one in namespace.reservations.values()]
    live = dict.fromkeys(version for version in versions if version)
    for gone in [one for one in mind.versions_since if one not in live]:
        del mind.versions_since[gone]
    for version in live:
        mind.versions_since.setdefault(version, now)
    if len(live) <= 1:
        return False
    return now - max(mind.versions_since.values()) < namespace.info.policy.mixed_version_hold_s


@dataclass(frozen=True, slots=True)
class FairShare:
    """What each unit of an open executor's capacity would hold if all were level."""

    load: float
    count: float

    @classmethod
    def of(cls, load: float, count: int, seats: Iterable[Seat]) -> "FairShare":
        """The fair share of this much load, in this many shards, on these open seats."""
        room = sum(seat.capacity for seat in seats if seat.is_open)
        return cls(load / room, count / room) if room > 0.0 else cls(0.0, 0.0)

    def ramp(self, seat: Seat, filling: Filling, load: float, count: int) -> Ramp:
        """How much one that has `load` in `count` shards may be sent until it is filled so far."""
        return Ramp(
            load=self.load * seat.capacity * filling.share * _ROUNDING - load,
            count=ceil(self.count * seat.capacity * filling.share) - count,
            at_least=filling.shards - count,
        )
