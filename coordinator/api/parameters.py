"""The paths and query parameters that several routes share."""

from typing import Final

from coordinator.api.route import Parameter

NS: Final = "/v1/namespaces/{namespace}"
EXECUTOR: Final = f"{NS}/executors/{{executor}}"
HOST: Final = f"{NS}/hosts/{{host}}"
SHARD: Final = f"{NS}/shards/{{key}}"

AFTER: Final = Parameter("after", "The cursor last processed.")
WAIT: Final = Parameter("wait", "How long to wait for news: 0 to 300 s, such as 30s.")
CONSISTENCY: Final = Parameter(
    "consistency",
    "local: this node's copy. linearizable: a quorum confirmed the leader after the request.",
    choices=("local", "linearizable"),
)
DRY_RUN: Final = Parameter("dry_run", "Check and tell, change nothing.", kind="boolean")
FORCE: Final = Parameter("force", "Although executors live there.", kind="boolean")
INCARNATION: Final = Parameter("incarnation", "The caller's incarnation.", is_required=True)
MISSING: Final = ("namespace_not_found",)
WATCH: Final = ("recovering", "too_many_waiters", "shutting_down")
