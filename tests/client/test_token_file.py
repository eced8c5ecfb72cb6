"""Tokens from files: renewed while the kit runs, and shown to nobody but nodes."""

import asyncio
import logging
import os

import pytest

from client import Executor, Operator, Router, blocking, errors
from client.connection import Connection
from client.token_file import LOOK_EVERY_S, TokenFile, TokenFileError
from tests.client.cli_run import run
from tests.client.scripted import ok, problem, serving

NAMESPACES = {"namespaces": []}


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "token"
    write(made, "first")
    return made


def write(path, text, mode=0o600):
    path.write_text(text + "\n")
    path.chmod(mode)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_a_renewed_file_is_looked_at_once_a_second(path):
    clock = Clock()
    kept = TokenFile(path, monotonic=clock)
    write(path, "second one")
    assert kept.current() == "first"
    clock.now += LOOK_EVERY_S
    assert kept.current() == "second one"


def test_a_file_that_cannot_be_used_later_leaves_the_former_and_is_told_of_once(path, caplog):
    clock = Clock()
    kept = TokenFile(path, monotonic=clock)
    path.unlink()
    for _ in range(5):
        clock.now += LOOK_EVERY_S
        assert kept.current() == "first"
    assert caplog.text.count("token_kept") == 1
    write(path, "third")
    clock.now += LOOK_EVERY_S
    assert kept.current() == "third"


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o602, 0o644])
def test_a_file_that_others_can_read_or_change_is_refused(path, mode):
    path.chmod(mode)
    with pytest.raises(TokenFileError, match=f"mode {mode:04o}"):
        TokenFile(path)
    path.chmod(0o640)
    assert TokenFile(path).current() == "first"


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\x07", "secret-ü", "x" * 5000])
def test_a_file_without_a_token_is_refused_and_not_repeated(path, text):
    write(path, text)
    with pytest.raises(TokenFileError, match="holds no token") as refused:
        TokenFile(path)
    assert "secret" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TokenFileError, match="No such file"):
        TokenFile(tmp_path / "none")


def test_the_token_is_in_no_repr(path):
    kept = TokenFile(path)
    assert "first" not in repr(kept) + str(vars(Connection(["http://h"], token_file=path)))


def test_a_token_and_a_file_of_one_are_one_too_many(path):
    with pytest.raises(ValueError, match="not both"):
        Connection(["http://h"], "token", token_file=path)


async def test_a_token_that_is_known_no_more_is_read_anew_and_the_request_made_again(path):
    def only_second(request):
        known = request.headers["Authorization"] == "Bearer second one"
        return (ok(NAMESPACES) if known else problem(401, "unauthenticated"))(request)

    async with serving(only_second) as node, Operator([node.url], token_file=path) as operator:
        with pytest.raises(errors.Unauthenticated):
            await operator.namespaces()
        assert len(node.seen) == 1, "the same token is not tried twice"
        write(path, "second one")
        assert await operator.namespaces() == []


async def test_reads_leave_a_node_that_does_not_know_the_token_yet(path):
    told = []
    async with (
        serving(problem(401, "unauthenticated")) as behind,
        serving(ok(NAMESPACES)) as node,
        Operator([behind.url, node.url], token_file=path) as operator,
    ):
        for _ in range(3):
            try:
                told.append(await operator.namespaces())
            except errors.Unauthenticated:
                told.append(None)
    assert told.count(None) <= 1
    assert told[-1] == []


async def test_every_part_of_the_kit_takes_a_file(path):
    async with serving(problem(403, "forbidden")) as node:
        with pytest.raises(errors.Forbidden):
            async with Executor(
                [node.url], namespace="n", name="e", token_file=path, on_start=print, on_stop=print
            ):
                pass
        async with Router([node.url], namespace="n", token_file=path) as router:
            with pytest.raises(errors.TimedOut):
                await router.ready(timeout_s=0.1)

        def ask():
            with blocking.Operator([node.url], token_file=path) as operator:
                operator.namespaces()

        with pytest.raises(errors.Forbidden):
            await asyncio.to_thread(ask)
    assert {"Bearer first"} == set(node.header("Authorization"))
    assert len(node.seen) >= 3


# ------------------------------------------------------------------------------- shardctl


async def test_shardctl_takes_a_token_from_the_environment_and_a_file_before_it(path, monkeypatch):
    monkeypatch.setenv("SHARDCTL_TOKEN", "from-environment")
    async with serving(problem(401, "unauthenticated")) as node:
        words = ("--endpoints", node.url, "namespace", "list")
        refused = await asyncio.to_thread(run, *words)
        await asyncio.to_thread(run, "--token-file", str(path), *words)
    assert node.header("Authorization")[0] == "Bearer from-environment"
    assert set(node.header("Authorization")[1:]) == {"Bearer first"}
    assert "SHARDCTL_TOKEN" in refused.err
    assert "from-environment" not in refused.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--token-file", "TOKEN"), "open to others (mode 0644)"),
        (("--key", "k"), "--key goes with --certificate"),
        (("--ca-file", "/nowhere"), "certificates cannot be used (/nowhere)"),
        (("--certificate", "TOKEN"), "certificates cannot be used"),
    ],
)
def test_shardctl_says_which_file_is_wrong(path, words, told):
    path.chmod(0o644)
    words = [str(path) if word == "TOKEN" else word for word in words]
    ended = run(*words, "namespace", "list")
    assert ended.status == 2
    assert told in ended.err


async def test_no_token_is_logged(path, caplog):
    caplog.set_level(logging.DEBUG)
    async with (
        serving(problem(500, "internal")) as node,
        Operator([node.url], token_file=path, timeout_s=0.2) as operator,
    ):
        with pytest.raises(errors.ShardCoordinatorError) as refused:
            await operator.namespaces()
    assert "first" not in caplog.text + repr(refused.value) + str(refused.value)
    assert os.environ.get("SHARDCTL_TOKEN") is None
