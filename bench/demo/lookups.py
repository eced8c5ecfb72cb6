"""Whether what routers were told was right.

Decides which answers count as lost or misdirected, given what executors noted of themselves.
Pure. A named executor need not run the shard at the very instant of the answer: a handoff takes
the time of a commit and of two messages, and for that window the answer is what it should be.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bench.demo.ledger import Tenure

HANDOFF_S: Final = 1.0
"""How far an answer may be from what the executors did: a stop, its acknowledgement, a commit,
the push to routers and the start take milliseconds; a busy machine is granted much more."""
LEASE_SLACK_S: Final = 1.0
"""What is promised for a crashed executor's shards: owned again within lease + 1 s."""


class Lookup(msgspec.Struct, frozen=True):
    """One answer, or one that a router's table kept giving from `since` to `until`."""

    since: float
    until: float
    key: str
    executor: str = ""
    """Empty when there was no owner."""
    epoch: int = 0
    way: str = ""
    """"table" or "http"."""
    count: int = 1
    """How often it was given in that time."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Crash:
    """An executor that was killed."""

    executor: str
    at: float
    lease_s: float

    @property
    def over_at(self) -> float:
        """When its shards must be owned again."""
        return self.at + self.lease_s + LEASE_SLACK_S


@dataclass(frozen=True, slots=True)
class Outage:
    """A time without a leader: handoffs that were under way wait for it to end."""

    since: float
    until: float


@dataclass(slots=True)
class Verdict:
    """What became of all look-ups."""

    lookups: int = 0
    lost: int = 0
    """No owner, although no crash explains it."""
    misdirected: int = 0
    """The named executor did not run the shard, although no handoff or crash explains it."""
    excused: int = 0
    """No owner, or a dead one, within a crashed executor's lease."""
    examples: list[str] = field(default_factory=list)
    ways: Counter[str] = field(default_factory=Counter)


def judge(
    lookups: Iterable[Lookup],
    tenures: Mapping[str, Sequence[Tenure]],
    crashes: Sequence[Crash] = (),
    outages: Sequence[Outage] = (),
) -> Verdict:
    """Every look-up against what the executors did; `tenures` by key."""
    verdict = Verdict()
    for lookup in lookups:
        verdict.lookups += lookup.count
        verdict.ways[lookup.way] += lookup.count
        of_key = tenures.get(lookup.key, ())
        if lookup.executor and _is_true(lookup, of_key, outages):
            continue
        if _is_excused(lookup, of_key, crashes):
            verdict.excused += lookup.count
            continue
        if lookup.executor:
            verdict.misdirected += lookup.count
        else:
            verdict.lost += lookup.count
        if len(verdict.examples) < 5:
            verdict.examples.append(_told(lookup, of_key))
    return verdict


def _is_true(lookup: Lookup, of_key: Sequence[Tenure], outages: Sequence[Outage]) -> bool:
    """Whether the named executor ran the shard under that epoch, give or take a handoff."""
    slack_s = HANDOFF_S + sum(
        outage.until - outage.since
        for outage in outages
        if lookup.since <= outage.until + HANDOFF_S and lookup.until >= outage.since - HANDOFF_S
    )
    return any(
        tenure.executor == lookup.executor
        and tenure.epoch_first <= lookup.epoch <= tenure.epoch_last
        and tenure.began_at - slack_s <= lookup.since
        and lookup.until <= _end_of(tenure) + slack_s
        for tenure in of_key
    )


def _end_of(tenure: Tenure) -> float:
    return tenure.valid_until if tenure.ended_at is None else tenure.ended_at


def _is_excused(lookup: Lookup, of_key: Sequence[Tenure], crashes: Sequence[Crash]) -> bool:
    """Whether a crash explains the answer: its executor's lease had not been over for long.

    The dead executor may be named also for a shard that it was given in its last moment and never
    came to start. Nobody at all may be named only for a shard that it ran.
    """
    return any(
        lookup.until >= crash.at
        and lookup.until <= crash.over_at
        and (
            lookup.executor == crash.executor
            or (not lookup.executor and _ran_at_the_end(of_key, crash.executor))
        )
        for crash in crashes
    )


def _ran_at_the_end(of_key: Sequence[Tenure], executor: str) -> bool:
    return any(one.executor == executor and one.ended_at is None for one in of_key)


def _told(lookup: Lookup, of_key: Sequence[Tenure]) -> str:
    said = f"{lookup.executor} epoch {lookup.epoch}" if lookup.executor else "no owner"
    ran = "; ".join(
        f"{one.executor} {one.epoch_first}-{one.epoch_last} {one.began_at:.3f}-"
        f"{'' if one.ended_at is None else f'{one.ended_at:.3f}'}"
        for one in of_key[-4:]
    )
    return (
        f"{lookup.way} {lookup.key} {lookup.since:.3f}-{lookup.until:.3f}: {said}"
        f" {lookup.error}; ran: {ran}"
    )
