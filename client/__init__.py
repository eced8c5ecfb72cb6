"""The client kit of Shard Coordinator: for executors, routers and operators.

    Executor      a process that owns and runs shards; its callbacks get a `Shard`
    LoadRecorder  what each shard costs such a process
    Router        a process that asks who owns a shard; answers are an `Owner`
    Switchboard   both in one process: a call is answered here, or goes to whom the shard belongs
    Operator      reads and changes what the coordinator decides

Errors are drawn as a tree in `client.errors`.
"""

from client.connection import Access
from client.errors import (
    BadAnswer,
    Conflict,
    Contended,
    FencedOut,
    Forbidden,
    IncarnationClosed,
    Invalid,
    LeaseLost,
    Misdirected,
    NoLeader,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    RateLimited,
    Recovering,
    Refused,
    ShardCoordinatorError,
    ShardParked,
    TimedOut,
    Unassigned,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from client.executor import Executor
from client.hashing import shard_for
from client.lease import LeaseState
from client.load import LoadRecorder
from client.operator import Operator
from client.router import Router
from client.shard import Shard
from client.switchboard import Switchboard
from client.table import Owner

__all__ = [
    "Access",
    "BadAnswer",
    "Conflict",
    "Contended",
    "Executor",
    "FencedOut",
    "Forbidden",
    "IncarnationClosed",
    "Invalid",
    "LeaseLost",
    "LeaseState",
    "LoadRecorder",
    "Misdirected",
    "NoLeader",
    "NotFound",
    "Operator",
    "OutcomeUnknown",
    "Owner",
    "PreconditionFailed",
    "RateLimited",
    "Recovering",
    "Refused",
    "Router",
    "Shard",
    "ShardCoordinatorError",
    "ShardParked",
    "Switchboard",
    "TimedOut",
    "Unassigned",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
    "shard_for",
]
