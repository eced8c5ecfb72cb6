"""Profiles, completion, times, and answers as they came: what `shardctl` does without a fleet."""

import asyncio
import contextlib
import io
import json
import subprocess
from datetime import UTC, datetime, timedelta, timezone

import pytest
from aiohttp import web

from client.cli import faults, root
from client.cli.times import moment_of
from tests.client.cli_run import commands, run
from tests.client.scripted import ok, problem, serving

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=ZONE)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("03:10", "2026-11-30T01:10:00.000000Z"),
        ("12:00:00", "2026-11-30T10:00:00.000000Z"),
        ("12:01", "2026-11-29T10:01:00.000000Z"),
        ("90s", "2026-11-30T09:58:30.000000Z"),
        ("2d", "2026-11-28T10:00:00.000000Z"),
        ("2026-11-30", "2026-11-29T22:00:00.000000Z"),
        ("2026-11-30T03:10", "2026-11-30T01:10:00.000000Z"),
        ("2026-11-30T03:10:00.5Z", "2026-11-30T03:10:00.500000Z"),
        ("2026-11-30T03:10+01:00", "2026-11-30T02:10:00.000000Z"),
    ],
)
def test_a_time_is_what_the_clock_on_the_wall_says(text, utc):
    assert moment_of(text, NOW) == utc


@pytest.mark.parametrize(
    "text", ["", "24:00", "3", "yesterday", "2026-13-01", "0001-01-01", "9" * 20 + "d"]
)
def test_a_text_that_is_no_time_is_none(text):
    assert moment_of(text, NOW) is None


def test_a_time_of_the_machines_own_zone_is_understood():
    assert moment_of("00:00", datetime.now(UTC).astimezone()) is not None


# ------------------------------------------------------------------------- exit statuses


@pytest.mark.parametrize(
    ("answered", "reason", "status"),
    [
        (403, "forbidden", faults.REFUSED),
        (422, "invalid", faults.REFUSED),
        (429, "quota_exceeded", faults.REFUSED),
        (404, "namespace_not_found", faults.NOT_FOUND),
        (409, "conflict", faults.CONFLICT),
        (409, "would_overload", faults.CONFLICT),
        (412, "precondition_failed", faults.CONFLICT),
        (503, "no_leader", faults.UNREACHABLE),
        (503, "recovering", faults.UNREACHABLE),
        (500, "internal", faults.UNREACHABLE),
        (504, "outcome_unknown", faults.UNREACHABLE),
    ],
)
async def test_each_class_of_refusals_has_its_exit_status(answered, reason, status):
    """Usage (2), a wait that timed out (6) and ^C (130) are tried with what they are about."""
    # What may pass is tried again until the time is over; what may not ends at once.
    is_tried_again = status == faults.UNREACHABLE
    async with serving(problem(answered, reason)) as node:
        timeout = "0.3" if is_tried_again else "20"
        words = ("--endpoints", node.url, "--request-timeout", timeout, "namespace", "list")
        ended = await asyncio.to_thread(run, *words)
    assert (ended.status, ended.out, ended.err.count("\n")) == (status, "", 1)
    assert is_tried_again or reason in ended.err


async def test_what_is_no_coordinator_is_like_nobody():
    async with serving(lambda _: web.Response(text="<html>")) as node:
        words = ("--endpoints", node.url, "--request-timeout", "0.3", "namespace", "list")
        ended = await asyncio.to_thread(run, *words)
    assert (ended.status, ended.err.count("\n")) == (faults.UNREACHABLE, 1)


# -------------------------------------------------------------------------------- profiles


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARDCTL_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("SHARDCTL_PROFILE", raising=False)

    def write(text):
        (tmp_path / "config.toml").write_text(text)
        return tmp_path

    return write


TWO = """
[profiles.prod]
endpoints = ["http://10.0.0.1:7070", "http://10.0.0.2:7070"]
namespace = "orders"
[profiles.here]
endpoints = "http://127.0.0.1:7070"
output = "json"
"""


def settings(*words):
    shown = run("-o", "json", *words, "profile", "show", "--origin")
    return {name: (row["value"], row["origin"]) for name, row in shown.json.items()}


def test_a_flag_comes_before_the_environment_that_before_the_profile(config, monkeypatch):
    config(TWO)
    assert settings()["namespace"] == (None, "default")
    shown = settings("--profile", "prod")
    assert shown["endpoints"] == ("http://10.0.0.1:7070,http://10.0.0.2:7070", "profile")
    assert shown["namespace"] == ("orders", "profile")
    assert shown["profile"] == ("prod", "flag")
    monkeypatch.setenv("SHARDCTL_NAMESPACE", "mail")
    assert settings("--profile", "prod")["namespace"] == ("mail", "environment")
    assert settings("--profile", "prod", "-n", "x")["namespace"] == ("x", "flag")
    monkeypatch.setenv("SHARDCTL_PROFILE", "here")
    assert settings()["endpoints"] == ("http://127.0.0.1:7070", "profile")


def test_a_profile_is_chosen_for_the_commands_to_come(config):
    config(TWO)
    listed = run("profile", "list")
    assert [line.split() for line in listed.lines] == [
        ["PROFILE", "ENDPOINTS"],
        ["here", "http://127.0.0.1:7070"],
        ["prod", "http://10.0.0.1:7070,http://10.0.0.2:7070"],
    ]
    assert run("profile", "use", "prod").status == 0
    assert settings()["namespace"] == ("orders", "profile")
    assert run("profile", "list").lines[2].startswith("*")
    plain = run("profile", "show")
    assert ["namespace", "orders"] in [line.split() for line in plain.lines]
    assert run("profile", "use", "-").status == 0
    assert settings()["namespace"] == (None, "default")
    assert run("profile", "use", "nothing").status == faults.USAGE


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[profiles.prod]\ncolour = 'red'", "names colour; there are "),
        ("[profiles.prod]\nprofile = 'x'", "names profile"),
        ("endpoints = 'x'", "[profiles.NAME] tables and nothing else"),
        ("[profiles]\nprod = 1", "[profiles.NAME] tables and nothing else"),
        ("[profiles.prod", "cannot be read"),
        ("# " + "x" * 70_000, "is longer than"),
        ("[profiles.other]", "there is no profile 'prod'"),
    ],
)
def test_a_file_with_faults_is_refused_in_one_line(config, text, told):
    config(text)
    wrong = run("--profile", "prod", "profile", "show")
    assert (wrong.status, told in wrong.err, wrong.err.count("\n")) == (faults.USAGE, True, 1)


@pytest.mark.usefixtures("config")
def test_without_a_file_there_is_no_profile():
    assert run("profile", "list").out == ""
    assert run("--profile", "prod", "profile", "list").status == faults.USAGE


def test_the_folder_is_where_such_files_are(monkeypatch, tmp_path):
    monkeypatch.delenv("SHARDCTL_CONFIG_DIR", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "shardctl").mkdir()
    (tmp_path / "shardctl" / "config.toml").write_text(TWO)
    assert settings("--profile", "prod")["namespace"] == ("orders", "profile")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert run("profile", "list").out == ""


# ------------------------------------------------------------------------------ completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_the_command(shell):
    script = run("completion", shell)
    assert script.status == 0
    assert f"_SHARDCTL_COMPLETE={shell}_complete" in script.out
    if shell == "bash":
        subprocess.run(["/bin/bash", "-n"], input=script.out, text=True, check=True, timeout=20)


def test_words_are_completed_from_the_tree_of_commands(monkeypatch):
    monkeypatch.setenv("_SHARDCTL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "shardctl executor dr")
    monkeypatch.setenv("COMP_CWORD", "2")
    told = io.TextIOWrapper(io.BytesIO())  # the shell is told in bytes
    with contextlib.redirect_stdout(told), pytest.raises(SystemExit):
        root.run([])
    assert told.buffer.getvalue() == b"plain,drain\n"


# ------------------------------------------------------------------- answers as they came


READS = [
    ("namespace list", "namespaces"),
    ("namespace show x", None),
    ("executor list", "executors"),
    ("executor show e1", None),
    ("shard list", "shards"),
    ("shard show a", None),
    ("shard inspect a --at 03:10", None),
    ("drain list", "drains"),
    ("drain show d-1", None),
    ("balance status", None),
    ("balance plan", None),
    ("balance what-if", None),
    ("balance capacity", None),
    ("balance history", None),
    ("balance decision 7", None),
    ("events list", "events"),
    ("mass-failure status", None),
    ("cluster status", None),
]
NAMES = {"namespace": "x", "executor": "e1", "key": "a", "mode": "on"}
ODD = {  # fields of one name that are of another kind elsewhere
    "balance": {"plan": {"moved": [], "rejected": []}, "decision": {"id": "7"}, "moved": []},
    "drain": {"id": "d-1"},
    "events": {"id": 7},
}


def answer(noun, field):
    """Odd spaces, an order of its own, and a field that no client knows."""
    known = {**NAMES, **ODD.get(noun, {}), "new_in_a_later_version": {"ä": [1.50, None]}}
    if field is not None:
        known = {field: [known], "cursor": "c:1"}
    return (json.dumps(known, ensure_ascii=False, indent=1) + "\n ").encode()


@pytest.mark.parametrize(("words", "field"), READS)
async def test_json_is_the_answer_byte_by_byte(words, field):
    body = answer(words.split()[0], field)
    async with serving(lambda _: web.Response(body=body, content_type="application/json")) as node:
        common = ("--endpoints", node.url, "-n", "jobs", "-o", "json")
        shown = await asyncio.to_thread(run, *common, *words.split())
    assert shown.status == 0, shown.err
    assert shown.out.encode() == body


def test_every_command_that_reads_is_among_them():
    read = {" ".join(words.split()[:2]) for words, _ in READS}
    changes = {
        path
        for path, one in commands().items()
        if any(option.name == "dry_run" for option in one.params)
    }
    asks_no_node = {path for path in commands() if path.split()[0] in {"profile", "completion"}}
    others = {"cluster check", "drain wait", "events watch", "watch", "version"}
    assert set(commands()) == read | changes | asks_no_node | others


class Terminal(io.StringIO):
    def isatty(self):
        return True


async def test_a_terminal_gets_the_end_of_the_line_as_well(monkeypatch):
    monkeypatch.setattr("tests.client.cli_run.Stream", Terminal)
    async with serving(ok({"namespaces": []})) as node:
        words = ("--endpoints", node.url, "-o", "json", "namespace", "list")
        listed = await asyncio.to_thread(run, *words)
    assert listed.out == '{"namespaces": []}\n'
