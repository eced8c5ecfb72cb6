"""Which claim to a shard counts, when executors know more than the coordinator's memory.

Decides between what the table says, what was claimed before and what an executor claims now: the
highest epoch is the truth, since nobody was ever given a shard under a new epoch while another
could act on it. It must not know how claims travel, nor when the window closes.
"""

from enum import StrEnum
from typing import Final

from coordinator.core.names import key_fault
from coordinator.core.shard import Shard
from coordinator.core.types import EPOCH_MAX, EPOCH_SHIFT_BITS, Namespace, NamespaceKind
from coordinator.core.window import ClaimWindow

EPOCH_SLACK_S: Final = 86_400
"""A claim may name an epoch of a cluster that began up to this long from now: a node's clock may
have been a time zone off. One that may name any epoch could use up the counter for all."""


class Standing(StrEnum):
    """What a claim comes to."""

    ADOPTED = "adopted"
    """The claimant owns the shard from now on, under a new epoch."""
    SETTLED = "settled"
    """It owns the shard already, by this claim or by a later one of its own."""
    LIFTED = "lifted"
    """Somebody else holds the shard, without a gap: that one gets an epoch above the claimed."""
    LOST = "lost"
    """Somebody was given the shard after the claimant."""
    REFUSED = "refused"
    """There is no such shard, nor may it be born."""


def rank(window: ClaimWindow | None, shard: Shard) -> int:
    """The highest epoch that stands for the shard's present owner, or its last one.

    Epochs given in the window are above all that was claimed and say nothing of who came last; the
    epoch of the claim that they answered does.
    """
    is_new = window is not None and shard.epoch >= window.epoch_floor
    return shard.claimed_epoch if is_new else shard.epoch


def epoch_ceiling(at_ms: int) -> int:
    """The highest epoch that any cluster can have given by now."""
    return min(((at_ms // 1000) + EPOCH_SLACK_S) << EPOCH_SHIFT_BITS, EPOCH_MAX - 1)


def standing(
    info: Namespace,
    shard: Shard | None,
    executor: str,
    key: str,
    epoch: int,
    *,
    is_held: bool,
) -> Standing:
    """What a claim of `executor` comes to; `shard` is None when there is none of this key."""
    if shard is None:
        may_be_born = info.kind is NamespaceKind.OPEN and not key_fault(key)
        return Standing.ADOPTED if may_be_born else Standing.REFUSED
    known = rank(info.window, shard)
    if shard.executor == executor:
        # Of what it holds no more it may have released this epoch, to members that are lost, and
        # then never starts it again: it gets a new one, once.
        is_given_up = not is_held and epoch == shard.epoch == known
        return Standing.ADOPTED if epoch > known or is_given_up else Standing.SETTLED
    if shard.executor is None:
        return Standing.ADOPTED if epoch >= known else Standing.LOST
    if epoch <= known:
        return Standing.LOST
    if is_held or info.window is None or shard.epoch < info.window.epoch_floor:
        return Standing.ADOPTED
    # Its owner said that it holds it, the claimant only that it once did: the word of somebody who
    # may be acting counts more, as long as no store has seen a higher epoch than its own.
    return Standing.LIFTED if epoch > shard.epoch else Standing.LOST
