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
from client.sampler import LoadSampler, LoadsCallback
from client.signals import BacklogCallback, Signals


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


@dataclass(frozen=True, slots=True)
class LoadSources:
    """Where the figures of a heartbeat come from, beside the handles of the shards."""

    loads: LoadsCallback | None = None
    recorder: LoadRecorder | None = None
    backlog: BacklogCallback | None = None

    def __post_init__(self) -> None:
        if self.loads is not None and self.recorder is not None:
            raise ValueError("loads come from `loads` or from a `recorder`, not from both")


def assembled(
    profile: ExecutorProfile,
    callbacks: ShardCallbacks,
    connection: Connection,
    sources: LoadSources,
    *,
    clock: Callable[[], float],
    rng: random.Random,
    mint: Callable[[], str],
    lock: NameLock | None,
    concurrency_max: int,
    observe_state: Callable[[LeaseState], object],
    observe_fault: Callable[[Exception], object],
) -> Parts:
    """The parts of an executor, none of them begun."""

    def incarnation() -> str:
        return beats.incarnation

    def suspect() -> None:  # a node says that the incarnation is over: the next one will know
        beats.hurry()

    recorder = sources.recorder
    loads = LoadSampler(sources.loads)
    acks = AckSender(profile, connection, incarnation=incarnation, rng=rng, suspect=suspect)
    keeper = ShardKeeper(
        profile.namespace,
        callbacks,
        clock=clock,
        concurrency_max=concurrency_max,
        acknowledge=acks.add,
        may_go_on=lambda: beats.may_go_on(),  # noqa: PLW0108 - there are no beats yet
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
        signals=Signals(clock, sources.backlog),
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
