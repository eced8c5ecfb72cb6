"""The paths and query parameters that several routes share, and what texts of each kind look like.

Patterns are written as ECMAScript reads them too, since the OpenAPI document bears them.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.api.query import EXECUTOR_ID, INSTANT_PATTERN
from coordinator.api.route import Parameter

CURSOR_PATTERN: Final = r"([^\x00-\x1f\x7f-\x9f]{1,111}:[0-9]{1,16})?"
"""Empty stands for none: programs that keep a cursor begin with an empty one."""
WAIT_PATTERN: Final = r"[0-9]{1,9}(\.[0-9]{1,9})?(ms|s|m)?"
INCARNATION_PATTERN: Final = r"[A-Za-z0-9-]{1,64}"
KEY_PATTERN: Final = r"[^\x00-\x1f\x7f-\x9f]{1,256}"

NS: Final = "/v1/namespaces/{namespace}"
EXECUTOR: Final = f"{NS}/executors/{{executor}}"
HOST: Final = f"{NS}/hosts/{{host}}"
SHARD: Final = f"{NS}/shards/{{key}}"

AFTER: Final = Parameter("after", "The cursor last processed.", pattern=CURSOR_PATTERN)
WAIT: Final = Parameter(
    "wait", "How long to wait for news: 0 to 300 s, such as 30s.", pattern=WAIT_PATTERN
)
_LINEARIZABLE: Final = "linearizable"
CONSISTENCY: Final = Parameter(
    "consistency",
    "local: this node's copy. linearizable: a quorum confirmed the leader after the request.",
    choices=("local", _LINEARIZABLE),
)
DRY_RUN: Final = Parameter("dry_run", "Check and tell, change nothing.", kind="boolean")
FORCE: Final = Parameter("force", "Although executors live there.", kind="boolean")
INCARNATION: Final = Parameter(
    "incarnation", "The caller's incarnation.", is_required=True, pattern=INCARNATION_PATTERN
)
BY_EXECUTOR: Final = Parameter("executor", "Only those of this one.", pattern=EXECUTOR_ID.pattern)
BY_SHARD: Final = Parameter("shard", "Only those of this one.", pattern=KEY_PATTERN)
BY_HOST: Final = Parameter("host", "Only those on this one.", pattern=EXECUTOR_ID.pattern)
SINCE: Final = Parameter("since", "Only from this time on.", pattern=INSTANT_PATTERN)
UNTIL: Final = Parameter("until", "Only up to this time.", pattern=INSTANT_PATTERN)
MISSING: Final = ("namespace_not_found",)
WATCH: Final = ("recovering", "too_many_waiters", "shutting_down")


def wants_proof(query: Mapping[str, str]) -> bool:
    """Whether a caller asks for a quorum's word."""
    return query.get(CONSISTENCY.name) == _LINEARIZABLE
