"""The parts of an executor and how they hang together.

Decides who is told what. It must not decide when anything begins or ends.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from client.assignments import AckSender, AssignmentPolls
from client.connection import Connection
from client.heartbeats import Heartbeats
from client.keeper import ShardCallbacks, ShardKeeper
from client.lease import LeaseState
from client.load import LoadRecorder
from client.name_lock import NameLock
from client.profile import ExecutorProfile
from client.sampler import LoadSampler
from client.signals import Signals


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs behind an executor."""

    connection: Connection
    keeper: ShardKeeper
    beats: Heartbeats
    polls: AssignmentPolls
    acks: AckSender
    loads: LoadSampler
    lock: NameLock | None


def assembled(
    profile: ExecutorProfile,
    callbacks: ShardCallbacks,
    connection: Connection,
    loads: LoadSampler,
    *,
    clock: Callable[[], float],
    rng: random.Random,
    mint: Callable[[], str],
    lock: NameLock | None,
    signals: Signals,
    recorder: LoadRecorder | None,
    concurrency_max: int,
    observe_state: Callable[[LeaseState], object],
    observe_fault: Callable[[Exception], object],
) -> Parts:
    """The parts of an executor, none of them begun."""

    def incarnation() -> str:
        return beats.incarnation

    def may_go_on() -> bool:
        return beats.may_go_on()

    def suspect() -> None:
        """A node says that the incarnation is over: the next heartbeat will know."""
        beats.hurry()

    acks = AckSender(profile, connection, incarnation=incarnation, rng=rng, suspect=suspect)
    keeper = ShardKeeper(
        profile.namespace,
        callbacks,
        clock=clock,
        concurrency_max=concurrency_max,
        acknowledge=acks.add,
        may_go_on=may_go_on,
        observe_state=observe_state,
        observe_fault=observe_fault,
    )
    beats = Heartbeats(
        profile,
        connection,
        keeper,
        clock=clock,
        rng=rng,
        mint=mint,
        lock=lock,
        signals=signals,
        sampled_loads=loads.take,
        recorded_loads=None if recorder is None else lambda: recorder.take(profile.namespace),
        observe_incarnation=acks.forget,
    )
    polls = AssignmentPolls(
        profile,
        connection,
        keeper,
        incarnation=incarnation,
        clock=clock,
        rng=rng,
        suspect=suspect,
    )
    return Parts(connection, keeper, beats, polls, acks, loads, lock)
