"""What a failed command says and with which status it exits.

Decides both from the error alone: one line "what — why — what to try".
"""

from typing import Final

from client import errors

DONE: Final = 0
REFUSED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
UNREACHABLE: Final = 5
WAIT_TIMED_OUT: Final = 6
INTERRUPTED: Final = 130

_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (errors.NotFound, NOT_FOUND),
    (errors.Conflict, CONFLICT),
    (errors.PreconditionFailed, CONFLICT),
    (errors.Unavailable, UNREACHABLE),
    (errors.ShardCoordinatorError, REFUSED),
)

_BY_REASON: Final = {
    "namespace_not_found": "see `shardctl namespace list`",
    "executor_not_found": "see `shardctl executor list`",
    "shard_not_found": "see `shardctl shard list`",
    "decision_not_found": "see `shardctl balance history`",
    "drain_not_found": "see `shardctl drain list`",
    "namespace_exists": "kind and count are fixed; the policy changes with `namespace update`",
    "namespace_not_empty": "stop its executors, or repeat with --force",
    "event_not_found": "see `shardctl events list --orders -o wide`",
    "would_overload": "bring executors up first, or repeat with --force if it has to be",
}
_BY_CLASS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (
        errors.Unauthenticated,
        "say who you are: --token-file, SHARDCTL_TOKEN_FILE or SHARDCTL_TOKEN",
    ),
    (errors.Forbidden, "use a token with that right, such as an operator's"),
    (errors.Invalid, "correct it and try again"),
    (errors.NotFound, "check its name"),
    (errors.Conflict, "look at the present state and decide again"),
    (errors.PreconditionFailed, "read it again and decide again"),
    (errors.RateLimited, "wait a little and try again"),
    (errors.OutcomeUnknown, "look whether it was done before you repeat it"),
    (errors.NoLeader, "a majority of the nodes must run: see `shardctl cluster status`"),
    (errors.Recovering, "the cluster is starting; try again in a few seconds"),
    (errors.BadAnswer, "do the endpoints name coordinators of this version?"),
    (errors.Unavailable, "is a node there? name nodes with --endpoints or SHARDCTL_ENDPOINTS"),
)


def status_of(error: errors.ShardCoordinatorError) -> int:
    """The exit status that an error means."""
    return next(status for kind, status in _STATUSES if isinstance(error, kind))


def told(command: str, error: errors.ShardCoordinatorError) -> str:
    """One line for people: what failed, why, and what to try."""
    hint = _BY_REASON.get(error.reason)
    if hint is None:
        hint = next((text for kind, text in _BY_CLASS if isinstance(error, kind)), "")
    request = f" (request {error.request_id})" if error.request_id else ""
    parts = [f"cannot do `{command}`", f"{error}{request}", hint]
    return printable("shardctl: " + " — ".join(part for part in parts if part))


def printable(text: str) -> str:
    """One line that a terminal shows and does not obey."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
