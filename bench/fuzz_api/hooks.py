"""What schemathesis is told of this API beside its document, and what is counted.

Loaded by schemathesis itself (SCHEMATHESIS_HOOKS). Decides which refusals of well-formed requests
no schema can foretell; every other disagreement is a finding.
"""

import atexit
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import schemathesis

REFUSED_THOUGH_VALID: Final = "ST202"
LET_IN_WITHOUT_AUTH: Final = "ST401"
WAIT: Final = "0.05"
"""Long polls are asked for, but must not take the whole run."""
BEYOND: Final = (
    r"^key: must be 1 to 256 bytes",  # a schema counts characters
    r"^keys(\[\d+\])?: ",
    r"^(shards|last_held|released|prepared|failed)(\.|\[|: )",  # keys once more
    r"^labels(\.|: )",
    r"^confirm: must repeat",  # the path
    r"^idempotency key .* came with another request",  # before
    r"^wait: (must be at most 300 s|needs `after`)",
    r"^after: is no cursor",  # digits beyond 2^53
    r"^page: is ",
    r"^executors(: |\[\d+\]: )",  # sums and ranges
    r"^without_(hosts|executors)\b",  # nobody of that name
    r"^(policy|balancer|handoff)\b",  # two fields against each other
    r"^shard_count( must be|: )",  # belongs to one kind; within the policy's max_shards
    r"^at: is yet to come",  # now
    r"^(node|api|raft|to): ",  # what the members are
    r"is no version of this namespace",
    r"Expected 'int', got 'float'",  # to a schema 1.0 is an integer
)
"""Details of refusals that are right although no schema can foretell them."""

counts: Counter[str] = Counter()
unexpected: list[dict[str, Any]] = []


@schemathesis.deserializer("application/msgpack")
def from_msgpack(_context: Any, response: Any) -> Any:
    return msgspec.msgpack.decode(response.content)


@schemathesis.serializer("application/msgpack")
def to_msgpack(_context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else msgspec.msgpack.encode(value, enc_hook=str)


@schemathesis.hook
def map_query(_context: Any, query: dict[str, Any] | None) -> dict[str, Any] | None:
    if query and re.fullmatch(r"[0-9.]+(ms|s|m)?", str(query.get("wait", ""))):
        query["wait"] = WAIT
    return query


@schemathesis.hook
def after_call(_context: Any, _case: Any, response: Any) -> None:
    counts["cases"] += 1
    counts[f"status_{response.status_code}"] += 1


@schemathesis.hook
def after_network_error(_context: Any, case: Any, _request: Any) -> None:
    counts["cases"] += 1
    counts["network_errors"] += 1
    unexpected.append({"code": "network", "at": f"{case.method} {case.formatted_path}"})


@schemathesis.hook
def filter_failure(_context: Any, failure: Any, case: Any, response: Any) -> bool:
    detail = ""
    if response is not None:
        try:
            told = json.loads(response.content)
        except ValueError:
            told = None
        if isinstance(told, Mapping):
            detail = str(told.get("detail", ""))
    if failure.code == LET_IN_WITHOUT_AUTH and "got `429" in failure.message:
        counts["too_many_failures"] += 1  # who shows wrong tokens is sent away before they are read
        return False
    is_refused = failure.code == REFUSED_THOUGH_VALID and response.status_code in {412, 422}
    if is_refused and any(re.search(each, detail) for each in BEYOND):
        counts["beyond_any_schema"] += 1
        return False
    unexpected.append(
        {
            "code": failure.code,
            "at": f"{case.method} {case.operation.path}",
            "what": failure.message[:500],
            "status": getattr(response, "status_code", None),
            "detail": detail[:300],
            "repeat": case.as_curl_command()[:1000],
        }
    )
    return True


@atexit.register
def report() -> None:
    path = os.environ.get("FUZZ_API_REPORT")
    if path:
        Path(path).write_text(json.dumps({"counts": counts, "unexpected": unexpected}))
