"""What `shardctl` does without any node: usage, formats, failures, missing parts."""

import json
import subprocess
import sys

import pytest

from client import errors
from client.cli import faults, output
from client.cli.namespaces import parsed_policy
from tests.client.cli_run import run
from tests.client.conftest import free_port


def test_policies_are_nested_by_dots_and_typed_by_json():
    told = ("balancer.mode=off", "lease_ttl_s=5", "balancer.quiet_mark=null", "handoff.warmup=true")
    assert parsed_policy(told) == {
        "balancer": {"mode": "off", "quiet_mark": None},
        "lease_ttl_s": 5,
        "handoff": {"warmup": True},
    }


@pytest.mark.parametrize(
    "words",
    [
        ("--endpoints", "nonsense", "namespace", "list"),
        ("--endpoints", ",", "namespace", "list"),
        ("--token-file", "/nowhere", "namespace", "list"),
        ("executor", "list"),
        ("namespace", "list", "-o", "yaml"),
        ("namespace", "update", "x"),
        ("namespace", "update", "x", "--set", "nothing"),
        ("namespace", "update", "x", "--set", "a=1", "--set", "a.b=2"),
        ("-n", "x", "shard", "show"),
        ("bogus",),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(words):
    wrong = run(*words)
    assert wrong.status == faults.USAGE
    assert wrong.err.count("\n") == 1
    assert wrong.out == ""


def test_a_noun_alone_prints_its_help():
    asked = run("executor")
    assert asked.status == faults.USAGE
    assert "cordon" in asked.out + asked.err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.Invalid("x"), faults.REFUSED),
        (errors.RateLimited("x"), faults.REFUSED),
        (errors.NotFound("x"), faults.NOT_FOUND),
        (errors.ShardParked("x"), faults.CONFLICT),
        (errors.PreconditionFailed("x"), faults.CONFLICT),
        (errors.NoLeader("x"), faults.UNREACHABLE),
        (errors.OutcomeUnknown("x"), faults.UNREACHABLE),
        (errors.Unreachable("x"), faults.UNREACHABLE),
        (errors.IncarnationClosed("x", cause="left"), faults.REFUSED),
    ],
)
def test_each_kind_of_failure_has_its_status_and_says_what_to_try(error, status):
    assert faults.status_of(error) == status
    line = faults.told("shardctl x", error)
    assert "\n" not in line
    assert line.count(" — ") >= (1 if isinstance(error, errors.IncarnationClosed) else 2)


def test_what_others_wrote_cannot_command_the_terminal():
    assert "\x1b" not in output.aligned([["a", "b"]])
    body = json.dumps({"key": "k", "why": "\x1b[2Jgone", "list": [], "flag": True}).encode()
    shown = output.shown(body, "key", "table")
    assert "\x1b" not in shown
    assert "gone" in shown
    assert "\x1b" not in faults.told("x", errors.Refused("\x1b[2J\nmore"))


def test_columns_line_up_with_wide_characters_and_leave_nothing_behind():
    text = output.aligned([["名前", "x"], ["ab", "y"], ["a", ""]])
    assert text.splitlines() == ["名前  x", "ab    y", "a"]


def python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=30, check=False
    )


def test_without_its_extra_the_command_says_what_to_install():
    for missing in ("click", "rich"):
        code = f"import sys; sys.modules[{missing!r}] = None; import client.cli.main as m; m.main()"
        ended = python("-c", code)
        assert ended.returncode == 2
        assert ended.stderr.count("\n") == 1
        assert "shard-coordinator[cli]" in ended.stderr


def test_the_command_exits_5_when_no_node_is_there():
    nobody = f"http://127.0.0.1:{free_port()}"
    words = ("--endpoints", nobody, "--request-timeout", "0.2", "namespace", "list")
    ended = python("-m", "client.cli.main", *words)
    assert ended.returncode == faults.UNREACHABLE
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


def test_the_version_is_the_one_of_the_distribution():
    ended = python("-m", "client.cli.main", "version")
    assert ended.returncode == 0
    assert ended.stdout.strip()[0].isdigit()
