"""Fuzz whatever reads bytes of peers and disks: python -m bench.fuzz --seconds 60 [--json].

Guided by coverage, with atheris (`pip install 'shard-coordinator[bench]'`), one target after the
other in a process of its own. Exit status: 0 nothing found, 1 an input breaks a target (it is kept
and printed), 2 atheris is not there.
"""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

INPUT_BYTES_MAX = 4096
"""What is wrong with large inputs is wrong with small ones; the rest is a test's business."""
MEMORY_MB_MAX = 512
INPUT_S_MAX = 5


def fuzz(target: str, arguments: list[str]) -> None:
    """Never returns: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["coordinator.consensus", "coordinator.codec"]):
        from bench.fuzz.targets import TARGETS
    atheris.Setup([sys.argv[0], *arguments], TARGETS[target])
    atheris.Fuzz()


def run(target: str, seeds: list[bytes], seconds: int, kept: Path) -> dict[str, object]:
    """One target for this long, in a process of its own."""
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds):
            (Path(corpus) / f"seed-{number}").write_bytes(seed)
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "bench.fuzz", "--target", target, "--"),
                *(f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}"),
                *(f"-rss_limit_mb={MEMORY_MB_MAX}", f"-timeout={INPUT_S_MAX}"),
                *("-print_final_stats=1", "-verbosity=1", f"-artifact_prefix={kept}/"),
                corpus,
            ],
            capture_output=True,
            text=True,
            timeout=seconds + 120,
            check=False,
        )
    said = ended.stderr
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", said)
    edges = re.findall(r"cov: (\d+)", said)
    artifact = re.search(r"Test unit written to (\S+)", said)
    result: dict[str, object] = {
        "target": target,
        "seconds": seconds,
        "runs": int(runs[1]) if runs else 0,
        "edges": int(edges[-1]) if edges else 0,
        "is_broken": ended.returncode != 0,
    }
    if artifact:
        result |= {"input": artifact[1], "input_hex": Path(artifact[1]).read_bytes().hex()}
    if ended.returncode:
        result["said"] = said[-2000:]
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="in all (60)")
    parser.add_argument("--json", action="store_true", help="one JSON object a target")
    parser.add_argument("--only", help="this target alone")
    parser.add_argument("--keep", type=Path, default=Path("bench/results"), help="for bad inputs")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        sys.stderr.write(
            "bench.fuzz needs atheris, which this Python does not have: pip install"
            " 'shard-coordinator[bench]' (Linux on x86-64). The tests spoil the same targets"
            " without it: pytest tests/consensus/test_fuzz.py\n"
        )
        return 2
    if arguments.target:
        fuzz(arguments.target, arguments.rest)
    from bench.fuzz.corpus import valid

    corpus = valid()
    if arguments.only is not None and arguments.only not in corpus:
        parser.error(f"--only is one of {', '.join(corpus)}")
    chosen = [arguments.only] if arguments.only else list(corpus)
    arguments.keep.mkdir(parents=True, exist_ok=True)
    is_broken = False
    for target in chosen:
        seconds = max(1, arguments.seconds // len(chosen))
        result = run(target, corpus[target], seconds, arguments.keep)
        is_broken = is_broken or bool(result["is_broken"])
        if arguments.json:
            print(json.dumps(result), flush=True)
        else:
            verdict = "BROKEN by " + str(result.get("input_hex")) if result["is_broken"] else "ok"
            print(
                f"{target:10} {result['runs']:>10} inputs in {seconds} s,"
                f" {result['edges']} edges: {verdict}",
                flush=True,
            )
            if result["is_broken"]:
                print(result["said"])
    return 1 if is_broken else 0


if __name__ == "__main__":
    sys.exit(main())
