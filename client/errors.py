"""Every error that the client raises.

    ShardCoordinatorError
    ├── Refused                 the coordinator understood the request and said no
    │   ├── Invalid             the request is wrong, and stays wrong when repeated
    │   ├── Unauthenticated     no valid token
    │   ├── Forbidden           the token does not allow this
    │   ├── NotFound            namespace, executor, shard or drain
    │   ├── Conflict            the state does not allow it now
    │   │   └── ShardParked     nobody may run the shard until an operator says so
    │   ├── PreconditionFailed  somebody else changed it first
    │   └── RateLimited         a quota or a rate is used up
    ├── Unavailable             no answer that can be trusted; worth trying again later
    │   ├── NoLeader            no leader or no quorum
    │   ├── Recovering          the node is catching up or the cluster is starting cold
    │   ├── Unassigned          the shard has no owner at the moment
    │   ├── Unreachable         no node could be connected to
    │   ├── TimedOut            the deadline of the caller passed
    │   ├── OutcomeUnknown      a change may or may not have been made; repeat with the same key
    │   └── BadAnswer           something answered that is not a coordinator
    ├── Misdirected             a process was asked for a shard that is not its own
    ├── LeaseLost               the right to act on the shards has run out
    ├── FencedOut               a later owner of the shard has been at the store before
    ├── Contended               somebody kept changing what was to be written
    └── IncarnationClosed       the coordinator ended this executor: its `cause` says why

Decides which class a problem becomes. It must not know how requests are sent.
"""

from collections.abc import Mapping, Sequence
from typing import Final


class ShardCoordinatorError(Exception):
    """Root of all errors of the client."""

    def __init__(
        self,
        detail: str,
        *,
        reason: str = "",
        status: int | None = None,
        request_id: str = "",
        retry_after_s: float | None = None,
        errors: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(detail)
        self.detail: Final = detail
        self.reason: Final = reason  # the machine-readable reason of the contract, or ""
        self.status: Final = status  # HTTP status, or None when there was no answer
        self.request_id: Final = request_id  # to find the request in a node's log
        self.retry_after_s: Final = retry_after_s  # what the node asked to wait, if it did
        self.errors: Final = tuple(errors)  # (path, message) of each wrong field

    def __str__(self) -> str:
        """Reason and detail in one line."""
        fields = "; ".join(f"{path}: {message}" for path, message in self.errors)
        text = self.detail if fields in self.detail else f"{self.detail} ({fields})"
        return f"{self.reason}: {text}" if self.reason else text


class Refused(ShardCoordinatorError):
    """The coordinator understood the request and said no."""


class Invalid(Refused):
    """The request is wrong, and stays wrong when repeated."""


class Unauthenticated(Refused):
    """There is no valid token."""


class Forbidden(Refused):
    """The token does not allow this."""


class NotFound(Refused):
    """There is no such namespace, executor, shard or drain."""


class Conflict(Refused):
    """The state does not allow it now."""


class ShardParked(Conflict):
    """Nobody may run the shard until an operator says so."""


class PreconditionFailed(Refused):
    """Somebody else changed it first."""


class RateLimited(Refused):
    """A quota or a rate is used up."""


class Unavailable(ShardCoordinatorError):
    """There was no answer that can be trusted; worth trying again later."""


class NoLeader(Unavailable):
    """There is no leader, or no quorum."""


class Recovering(Unavailable):
    """The node is catching up, or the cluster is starting cold."""


class Unassigned(Unavailable):
    """The shard has no owner at the moment."""


class Unreachable(Unavailable):
    """No node could be connected to."""


class TimedOut(Unavailable):
    """The deadline of the caller passed."""


class OutcomeUnknown(Unavailable):
    """A change may or may not have been made; repeat it with the same idempotency key."""


class BadAnswer(Unavailable):
    """Something answered that is not a coordinator of this version."""


class Misdirected(ShardCoordinatorError):
    """A process was asked for a shard that it does not own; another one does, or will."""


class LeaseLost(ShardCoordinatorError):
    """The right to act on the shards has run out."""


class FencedOut(ShardCoordinatorError):
    """A later owner of the shard has been at the store before: nothing was written."""

    def __init__(self, detail: str, *, epoch: int, highest: int) -> None:
        super().__init__(detail)
        self.epoch: Final = epoch  # of the write that was refused
        self.highest: Final = highest  # that the store has seen


class Contended(ShardCoordinatorError):
    """Somebody kept changing what was to be written, and did not show an epoch."""


class IncarnationClosed(ShardCoordinatorError):
    """The coordinator ended this executor."""

    def __init__(
        self, detail: str, *, cause: str, status: int | None = None, request_id: str = ""
    ) -> None:
        super().__init__(detail, reason="incarnation_closed", status=status, request_id=request_id)
        self.cause: Final = cause  # expired, superseded, evicted or left


_BY_REASON: Final[Mapping[str, type[ShardCoordinatorError]]] = {
    "shard_parked": ShardParked,
    "no_leader": NoLeader,
    "recovering": Recovering,
    "shard_unassigned": Unassigned,
    "outcome_unknown": OutcomeUnknown,
}
_BY_STATUS: Final[Mapping[int, type[ShardCoordinatorError]]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    429: RateLimited,
}
_CLIENT_ERRORS = range(400, 500)


def class_of(status: int, reason: str) -> type[ShardCoordinatorError]:
    """The error class of a problem; a reason that is not known yet falls back to its status."""
    named = _BY_REASON.get(reason) or _BY_STATUS.get(status)
    if named is not None:
        return named
    return Invalid if status in _CLIENT_ERRORS else Unavailable
