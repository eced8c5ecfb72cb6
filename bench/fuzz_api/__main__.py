"""Requests made from /openapi.json against three real nodes: python -m bench.fuzz_api [--json].

One schemathesis a node, all at once and each with a seed of its own, round after round until
`--cases` were sent: what the document allows, what it forbids, and chains along its links. Exit
status: 0 when nothing disagreed with the document, no answer was an undocumented server error, no
node logged a fault and all nodes hold the same state in the end; 1 otherwise; 2 if it is not there.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from bench.cluster import Nodes
from bench.processes import Processes
from bench.rows import progress

HERE: Final = Path(__file__).parent
CASES: Final = 20_000
ROUND_S: Final = 3_600.0
"""A round takes some minutes; several times that on a busy machine."""
AGREE_S: Final = 30.0
FAULT: Final = re.compile(r"Traceback|request_failed|CRITICAL|node_failed")
"""What no request may bring a node to say."""
SHOWN_MAX: Final = 40


async def hammer(
    processes: Processes, node: str, nodes: Nodes, *, seed: int, examples: int, folder: Path
) -> dict[str, Any]:
    """One run of schemathesis against one node; what it counted and what it found."""
    report = folder / f"{node}-{seed}.json"
    os.environ["FUZZ_API_REPORT"] = str(report)
    os.environ["SCHEMATHESIS_HOOKS"] = "bench.fuzz_api.hooks"
    name = f"schemathesis-{node}"
    started = await processes.start(
        name,
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file"),
            *(str(HERE / "schemathesis.toml"), "run", f"{nodes.api[node]}/openapi.json"),
            *[f"--header={key}: {value}" for key, value in nodes.headers.items()],
            *("--seed", str(seed), "--max-examples", str(examples), "--no-shrink"),
            *("--request-timeout", "30", "--continue-on-failure", "--no-color"),
        ],
    )
    async with asyncio.timeout(ROUND_S):
        await started.wait()
    await processes.finish(name, 5.0)
    if not report.exists():
        raise RuntimeError(f"schemathesis gave no report, see {folder / (name + '.log')}")
    told: dict[str, Any] = json.loads(report.read_text())
    return told


async def agreed(nodes: Nodes) -> bool:
    """Whether all nodes come to hold the same state, byte for byte."""
    ends_at = time.monotonic() + AGREE_S
    while time.monotonic() < ends_at:
        sights = await asyncio.gather(*[nodes.sight(name, "?digest=true") for name in nodes.names])
        told = {(sight.applied_index, sight.digest) for sight in sights if sight is not None}
        if len(told) == 1 and None not in sights:
            return True
        await asyncio.sleep(0.2)
    return False


def faults_in(folder: Path, names: list[str]) -> list[str]:
    """Lines of the nodes' logs that no request may bring about."""
    return [
        f"{name}: {line}"
        for name in names
        for line in (folder / f"{name}.log").read_text(errors="replace").splitlines()
        if FAULT.search(line)
    ]


async def fuzz(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Rounds until enough cases were sent; the summary."""
    began = time.monotonic()
    counts: Counter[str] = Counter()
    unexpected: list[dict[str, Any]] = []
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes, has_tokens=True)
        await nodes.start_all()
        seed = arguments.seed
        while counts["cases"] < arguments.cases:
            told = await asyncio.gather(
                *[
                    hammer(
                        processes,
                        name,
                        nodes,
                        seed=seed + number,
                        examples=arguments.examples,
                        folder=folder,
                    )
                    for number, name in enumerate(nodes.names)
                ]
            )
            seed += len(nodes.names)
            for each in told:
                counts.update(each["counts"])
                unexpected += each["unexpected"]
            progress(f"{counts['cases']} cases, {len(unexpected)} findings")
            await nodes.ready(nodes.names)
        await nodes.first_write("after-all")
        is_agreed = await agreed(nodes)
        await nodes.close()
    return {
        "cases": counts["cases"],
        "seeds": [arguments.seed, seed - 1],
        "undocumented_5xx": sum(1 for each in unexpected if each["code"] in {"ST101", "network"}),
        "disagreements": len(unexpected),
        "beyond_any_schema": counts["beyond_any_schema"],
        "statuses": {
            key.removeprefix("status_"): number
            for key, number in sorted(counts.items())
            if key.startswith("status_")
        },
        "log_faults": faults_in(folder, nodes.names)[:SHOWN_MAX],
        "replicas_agree": is_agreed,
        "seconds": round(time.monotonic() - began, 1),
        "findings": unexpected[:SHOWN_MAX],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz_api", description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES, help=f"at least so many ({CASES})")
    parser.add_argument("--examples", type=int, default=60, help="of each operation a round (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the first run (1)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--keep", type=Path, help="folder for logs, kept")
    arguments = parser.parse_args()
    if importlib.util.find_spec("schemathesis") is None:
        sys.stderr.write("pip install 'shard-coordinator[fuzz]'\n")
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        summary = asyncio.run(fuzz(arguments, folder))
    if arguments.json:
        print(json.dumps(summary))
    else:
        print(json.dumps(summary, indent=2))
    is_good = not summary["disagreements"] and not summary["log_faults"]
    return 0 if is_good and summary["replicas_agree"] else 1


if __name__ == "__main__":
    sys.exit(main())
