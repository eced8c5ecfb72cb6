"""The safety rules of ownership, each by a name under which it can be left out.

Decides what leaving a rule out means: one function of the product is another one meanwhile. The
product has no switch, and nothing here knows what becomes of it.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from client import lease
from client.lifecycle import AssignmentSet
from client.reconcile import Reconciler
from coordinator import leadership
from coordinator.consensus import ConsensusNode
from coordinator.consensus.confirming import Confirmation, Told
from coordinator.core.commands import JoinExecutor
from coordinator.core.controller import losses, promises, window
from coordinator.core.controller.mind import Mind
from coordinator.core.draft import Draft
from coordinator.core.liveness import LeaseBook
from coordinator.core.rules import executors, handoffs
from coordinator.core.shard import HANDOFF_STATES, Shard
from coordinator.core.types import Claim, Executor


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: why it is there, and what is done without it."""

    why: str
    owner: Any
    """A module or a class."""
    name: str
    without: Callable[[Any], Any]
    """From what is there to what is there when the rule is left out."""


def _superseded_at_once(former: Any) -> Any:
    def supersede(draft: Draft, record: Executor, command: JoinExecutor) -> None:
        holder = record.predecessor or record.incarnation
        former(draft, record, replace(command, predecessor_dead=holder))

    return supersede


def _unstretched(_: Any) -> Any:
    return lambda _self, received_at, ttl_s: received_at + ttl_s


def _little_grace(former: Any) -> Any:
    # Time to speak, or all would count as silent, and the guard against mass failures would help.
    return lambda self, known, ttl_s, now: former(self, known, ttl_s / 3, now)


def _unconfirmed(_: Any) -> Any:
    def confirm(
        self: ConsensusNode, told: Told, *, timeout_s: float = 2.0, patience_s: float = 0.0
    ) -> Confirmation:
        confirmation = self._confirmations.ask(told, timeout_s, patience_s)
        term = int(self._replica.engine.term)
        self._loop.call_soon(self._confirmations._tell, confirmation, term)
        return confirmation

    return confirm


def _taken_for_stopped(former: Any) -> Any:
    def track(self: Mind, namespace: Any, now: float) -> None:
        former(self, namespace, now)
        for handoff in self.overdue:
            self.overdue[handoff] = now - 1e6

    return track


def _always_renewed(former: Any) -> Any:
    return lambda *told: replace(former(*told), not_renewed=())


def _answered_while_closing(_: Any) -> Any:
    return lambda _self, _executor, _incarnation, by=None: by


def _any_set(_: Any) -> Any:
    def arrived(self: Reconciler, assigned: AssignmentSet, now: float) -> Any:
        if self._floor is None:
            return []
        if self._set is not None and assigned.cursor.revision < self._set.cursor.revision:
            return []
        self._set = assigned
        return self._converge_all(now, is_new_set=True)

    return arrived


def _any_epoch(_: Any) -> Any:
    def in_handoff(draft: Draft, claim: Claim) -> Shard | None:
        shard = draft.shard(claim.key)
        return shard if shard is not None and shard.state in HANDOFF_STATES else None

    return in_handoff


def _settled_at_once(_: Any) -> Any:
    def settlement_at(namespace: Any, _mind: Mind, now: float) -> float | None:
        info = namespace.info
        return None if info.lease_bound_s <= info.policy.lease_ttl_s else now

    return settlement_at


def _closed_at_once(former: Any) -> Any:
    def window_ends_at(namespace: Any, mind: Mind, now: float) -> float | None:
        return None if former(namespace, mind, now) is None else now

    return window_ends_at


RULES: Final[Mapping[str, Rule]] = {
    "supersession-wait": Rule(
        "a newer process under a name waits until the older one can act no more",
        executors,
        "_supersede",
        _superseded_at_once,
    ),
    "lease-stretch": Rule(
        "the leader waits for the lease by the slowest clock there may be",
        LeaseBook,
        "lease_end",
        _unstretched,
    ),
    "lease-margin": Rule(
        "an executor's lease ends earlier, by the fastest clock there may be",
        lease,
        "CLOCK_ERROR",
        lambda _: 0.0,
    ),
    "new-leader-lease": Rule(
        "a new leader grants everyone a full lease before it takes anything away",
        LeaseBook,
        "begin_term",
        _little_grace,
    ),
    "quorum-confirmed": Rule(
        "a heartbeat is answered only after a quorum confirmed the leader",
        ConsensusNode,
        "when_confirmed",
        _unconfirmed,
    ),
    "overdue-lease": Rule(
        "a stop that is not acknowledged is waited for by the shard's own lease",
        Mind,
        "track_handoffs",
        _taken_for_stopped,
    ),
    "not-renewed": Rule(
        "answers to heartbeats name the shards whose own lease runs out",
        leadership,
        "_beat_answer",
        _always_renewed,
    ),
    "closing-unanswered": Rule(
        "an incarnation whose end is proposed is not renewed meanwhile",
        LeaseBook,
        "close",
        _answered_while_closing,
    ),
    "cursor-floor": Rule(
        "after a lost lease no set from before its restoration is obeyed",
        Reconciler,
        "_set_arrived",
        _any_set,
    ),
    "ack-epoch": Rule(
        "an acknowledgement counts for the handoff of its epoch only",
        handoffs,
        "_in_handoff",
        _any_epoch,
    ),
    "lease-bound": Rule(
        "a shorter lease is reckoned with only after the longer ones have run out",
        promises,
        "settlement_at",
        _settled_at_once,
    ),
    "claim-window": Rule(
        "after total loss nothing is placed before all leases of before have run out",
        window,
        "window_ends_at",
        _closed_at_once,
    ),
    "adopted-unknown": Rule(
        "an incarnation on record that this leader never heard has a lease all the same",
        losses,
        "_adopt_unknown",
        lambda _: lambda _namespace, _mind, _now: None,
    ),
}


@contextlib.contextmanager
def left_out(names: Sequence[str]) -> Iterator[None]:
    """The product without these rules, as long as the block lasts."""
    with contextlib.ExitStack() as stack:
        for name in names:
            rule = RULES[name]
            former = getattr(rule.owner, rule.name)
            setattr(rule.owner, rule.name, rule.without(former))
            stack.callback(setattr, rule.owner, rule.name, former)
        yield
