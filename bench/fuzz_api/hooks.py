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

WAIT: Final = "0.05"
"""Long polls are asked for, but must not take the whole run."""
TEACHABLE: Final = {
    "ST202": (
        r"key: must be 1 to 256 bytes",  # a schema counts characters
        r"confirm: must repeat",
        r"idempotency key .* came with another request",
        r"wait: (must be at most 300 s|needs `after`)",
        r"after: is no cursor",  # digits beyond 2^53
        r"page: is ",
        r"executors(: |\[\d+\]: |/\d+: )",  # of ranges and sums of fleets
        r"^(policy|balancer|handoff)\b.*",  # of two fields of a policy against each other
        r"shard_count: ",  # belongs to one kind and not to the other
        r"kind: ",
        r"labels(\.|: )",  # bytes again
        r"(node|api|raft|to): ",  # addresses that can be used
        r"Expected 'int', got 'float'",  # to a schema 1.0 is an integer
        r"keys(\[\d+\])?: ",  # bytes and control characters
        r"claims?: |(released|prepared|failed|last_held|shards)\b.*",  # the same
        r"(shard|executor): ",
        r"is no version of this namespace",
        r"expires_in_s: ",
        r"without_hosts",
    ),
}
"""Code of a failure -> details of refusals that are right although the document cannot say so."""

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
    known = TEACHABLE.get(failure.code, ())
    rule = next((each for each in known if re.search(each, detail)), None) if detail else None
    if rule is not None:
        counts["beyond_any_schema"] += 1
        counts[f"rule_{rule}"] += 1
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
