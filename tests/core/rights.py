"""A model of what correct executors may act upon, walked beside the rules."""

from dataclasses import dataclass, field

from coordinator.core import commands as c
from coordinator.core.state import ClusterState
from tests.core.builders import space

Holder = tuple[str, str]
"""An executor's name and incarnation."""


@dataclass
class Rights:
    """What correct executors may still act upon, at worst.

    Each takes up at once whatever its set offers, and gives up only by its own word, or because
    its lease is over: an incarnation's by the commands that vouch for it, a shard's by the one
    that ends an overdue release.
    """

    acting: dict[str, dict[Holder, set[int]]] = field(default_factory=dict)
    stopped: set[tuple[Holder, str, int]] = field(default_factory=set)
    known: dict[Holder, None] = field(default_factory=dict)

    def before(self, command: c.Command, state: ClusterState) -> None:
        """Rights that end by what the command says has happened outside."""
        match command:
            case c.JoinExecutor():
                self.known[command.executor, command.incarnation] = None
                self.end((command.executor, command.predecessor_dead))
            case c.InheritShards():
                self.end((command.executor, command.predecessor))
            case c.CloseIncarnation():
                self.end((command.executor, command.incarnation))
            case c.Acknowledge():
                holder = (command.executor, command.incarnation)
                for claim in (*command.released, *command.failed):
                    self._stop(holder, claim.key, claim.epoch)
            case c.FinishOverdue():
                for claim in command.claims:
                    shard = space(state).shards.get(claim.key)
                    if shard is not None and shard.overdue and shard.epoch == claim.epoch:
                        for holder in list(self.acting.get(claim.key, {})):
                            self._stop(holder, claim.key, claim.epoch)
            case _:
                pass

    def after(self, state: ClusterState) -> None:
        """Everyone reads its set and starts what it may."""
        for holder in self.known:
            for key, epoch, duty in space(state).assignments(*holder):
                if duty == "run" and (holder, key, epoch) not in self.stopped:
                    self.acting.setdefault(key, {}).setdefault(holder, set()).add(epoch)

    def end(self, holder: Holder) -> None:
        """It acts no more: it was told so, or its lease is over."""
        for holders in self.acting.values():
            holders.pop(holder, None)

    def contested(self) -> dict[str, list[Holder]]:
        """Shards that more than one may act upon."""
        return {key: sorted(holders) for key, holders in self.acting.items() if len(holders) > 1}

    def _stop(self, holder: Holder, key: str, epoch: int) -> None:
        # A stop ends what ran before it as well: a client never runs two epochs of one shard.
        self.stopped.add((holder, key, epoch))
        holders = self.acting.get(key, {})
        left = {one for one in holders.get(holder, set()) if one > epoch}
        if left:
            holders[holder] = left
        else:
            holders.pop(holder, None)
