"""What a leader remembers of a claim window beyond the replicated state; soft, new in each term.

It tells which claims of a heartbeat must be committed before it is answered. Lost with the leader,
all of it comes again: the window's wait starts anew then, and executors repeat what they claim.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from coordinator.core.claims import Standing, epoch_ceiling, standing
from coordinator.core.commands import AdoptClaims, Reason, Refused
from coordinator.core.controller.beats import Beat
from coordinator.core.namespace import NamespaceState
from coordinator.core.types import SHARDS_MAX, Claim

CLAIM_BYTES_MAX: Final = 32 * 1024
"""Of one command's shard names: some 500 of ten characters, which are adopted in 10 ms."""

_RECORD_BYTES: Final = 16
"""What a claim costs beside its name."""

TOLD_MAX: Final = 10_000
"""Claims that came to nothing, each told once: more than anybody reads."""

_VAIN: Final = (Standing.LOST, Standing.REFUSED)


class ClaimBook:
    """The claims to one namespace's shards that are not in its table, yet or for good."""

    def __init__(self, now: float) -> None:
        self.last_held: dict[str, tuple[int, str]] = {}
        """Highest epoch and its claimant of each shard that was given up for want of a lease."""
        self.totals: dict[Standing, int] = dict.fromkeys(Standing, 0)
        """Claims that were committed, by what they came to."""
        self._since: float | None = now
        self._told: dict[tuple[str, str, int], None] = {}

    def open_since(self, now: float) -> float:
        """Since when this leader has known the window to be open."""
        if self._since is None:
            self._since = now
        return self._since

    def close(self) -> None:
        """The window is closed: nothing of it matters any more."""
        if self._since is not None:
            self._since = None
            self.last_held = {}
            self._told = {}

    def add_pause(self, gap_s: float) -> None:
        """The leader stood still and could hear no claims: that time does not count."""
        if self._since is not None:
            self._since += gap_s

    def remember(self, namespace: NamespaceState, beat: Beat) -> None:
        """Keep what an executor last held until the window closes, if it may come to something."""
        ceiling = epoch_ceiling(beat.at_ms) if beat.last_held else 0
        for claim, stood in _standings(namespace, beat.executor, beat.last_held, is_held=False):
            if claim.epoch > ceiling or not _changes(stood):
                continue
            known = self.last_held.get(claim.key)
            has_room = len(self.last_held) < SHARDS_MAX
            if has_room if known is None else claim.epoch > known[0]:
                self.last_held[claim.key] = (claim.epoch, beat.executor)

    def owed(self, namespace: NamespaceState, beat: Beat) -> list[Claim]:
        """Held claims that must be committed before the heartbeat is answered.

        Those that come to nothing are among them once, so that everybody hears of it.
        """
        record = namespace.executors.get(beat.executor)
        if namespace.info.window is None or record is None or record.predecessor is not None:
            return []  # what a successor says of its predecessor's shards counts for nothing
        return [
            claim
            for claim, stood in _held(namespace, beat)
            if (self._is_news(beat.executor, claim) if stood in _VAIN else _changes(stood))
        ]

    def _is_news(self, executor: str, claim: Claim) -> bool:
        is_told = (executor, claim.key, claim.epoch) in self._told
        return not is_told and len(self._told) < TOLD_MAX

    def learn(self, namespace: NamespaceState, command: AdoptClaims, adopted: int) -> None:
        """A command is through; what came to nothing of it is not proposed again."""
        self.totals[Standing.ADOPTED] += adopted
        claims = {claim.key: claim.epoch for claim in command.claims}
        for claim, stood in _standings(
            namespace, command.executor, claims, is_held=command.is_held
        ):
            if stood in _VAIN:
                self.totals[stood] += 1
                if len(self._told) < TOLD_MAX:
                    self._told[command.executor, claim.key, claim.epoch] = None
            if not command.is_held:
                self.last_held.pop(claim.key, None)

    def waiting(self, namespace: NamespaceState) -> dict[str, list[Claim]]:
        """What comes to something of the claims that wait for the window's end, by executor."""
        wanted: dict[str, dict[str, int]] = {}
        for key, (epoch, executor) in sorted(self.last_held.items()):
            record = namespace.executors.get(executor)
            if record is not None and namespace.is_eligible(record):
                wanted.setdefault(executor, {})[key] = epoch
        found = {
            executor: [
                claim
                for claim, stood in _standings(namespace, executor, claims, is_held=False)
                if _changes(stood)
            ]
            for executor, claims in wanted.items()
        }
        return {executor: claims for executor, claims in found.items() if claims}


def not_won(namespace: NamespaceState, beat: Beat) -> list[str]:
    """Keys that an executor says it holds although they are not its own: not to be renewed.

    It reads no set before the window closes, so this is how it hears of it: its right to act on
    them ends with the lease that it had before.
    """
    if namespace.info.window is None:
        return []
    return sorted(claim.key for claim, stood in _held(namespace, beat) if stood in _VAIN)


def outlasts(namespace: NamespaceState, beat: Beat) -> bool:
    """Whether a lease from before was longer than the window reckons with.

    Who says so is here; but as long a one may be out to somebody who is not heard.
    """
    window, record = namespace.info.window, namespace.executors.get(beat.executor)
    is_own = record is not None and record.predecessor is None and not beat.joining
    return window is not None and is_own and beat.lease_s > window.lease_s


def is_claim(namespace: NamespaceState, beat: Beat) -> bool:
    """Whether an incarnation that is not on record lived on from before, and says what it holds.

    One that leaves that out may hold anything: it is closed.
    """
    return namespace.info.window is not None and beat.shards is not None


def highest_claim(beat: Beat) -> int | None:
    """The highest epoch that a heartbeat names; None for one of a process just started."""
    if beat.joining:
        return None
    held = max((one.epoch for one in (beat.shards or {}).values()), default=0)
    return max(held, *beat.last_held.values(), 0)


def epoch_fault(namespace: NamespaceState, beat: Beat) -> Refused | None:
    """Why a heartbeat cannot be answered: it holds what no cluster can have given it.

    Acknowledged it could go on for another lease with a shard that its claim did not win. One that
    was only last held is passed over instead.
    """
    if namespace.info.window is None or not beat.shards:
        return None
    ceiling = epoch_ceiling(beat.at_ms)
    for key, one in beat.shards.items():
        if one.epoch > ceiling:
            return Refused(
                Reason.INVALID,
                f"epoch {one.epoch} of shard {key!r}: no cluster can have given it by now",
            )
    return None


def _changes(stood: Standing) -> bool:
    return stood in (Standing.ADOPTED, Standing.LIFTED)


def _held(namespace: NamespaceState, beat: Beat) -> Iterator[tuple[Claim, Standing]]:
    """What a heartbeat says it holds, and what each of that comes to; nothing without a window."""
    if namespace.info.window is None or not beat.shards:
        return iter(())
    held = {key: one.epoch for key, one in beat.shards.items()}
    return _standings(namespace, beat.executor, held, is_held=True)


def _standings(
    namespace: NamespaceState, executor: str, claims: Mapping[str, int], *, is_held: bool
) -> Iterator[tuple[Claim, Standing]]:
    """What each claim comes to now; shards may be born as long as there is room."""
    info = namespace.info
    room = min(info.policy.max_shards, SHARDS_MAX) - len(namespace.shards)
    for key, epoch in claims.items():
        shard = namespace.shards.get(key)
        found = standing(info, shard, executor, key, epoch, is_held=is_held)
        if shard is None and found is Standing.ADOPTED:
            found = Standing.ADOPTED if room > 0 else Standing.REFUSED
            room -= 1
        yield Claim(key, epoch), found


def chunks(claims: Iterable[Claim]) -> Iterator[tuple[Claim, ...]]:
    """Claims in commands of bounded size."""
    chunk: list[Claim] = []
    size = 0
    for claim in claims:
        cost = len(claim.key) * 4 + _RECORD_BYTES
        if size + cost > CLAIM_BYTES_MAX:
            yield tuple(chunk)
            chunk, size = [], 0
        chunk.append(claim)
        size += cost
    if chunk:
        yield tuple(chunk)
