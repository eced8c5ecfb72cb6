"""`shard-coordinator token new`: what it shows fits the file, and the secret is in one place."""

import json
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coordinator.api.rights import Role
from coordinator.api.tokens import PREFIX, parse_book
from coordinator.token_command import main

NOW = datetime(2026, 11, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def made(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """The token and the line."""
    assert main(["new", *words], NOW) == 0
    token, line = capsys.readouterr().out.splitlines()
    return token, line


@pytest.mark.parametrize("role", list(Role))
def test_the_line_lets_the_token_be_known(capsys: pytest.CaptureFixture[str], role: Role):
    token, line = made(capsys, "--role", role.value, "--label", "one")
    assert token.startswith(PREFIX)
    assert token not in line
    known = parse_book(f"[tokens]\n{line}").bearer(token, NOW_MS)
    assert known is not None
    assert (known.caller.label, known.caller.role) == ("one", role)


def test_limits_and_an_end_are_in_the_line(capsys: pytest.CaptureFixture[str]):
    words = ["--role", "executor", "--label", "a.b@c", "--namespace", "n", "--namespace", "m-*"]
    words += ["--executor", "e-*", "--host", "h", "--requests-per-s", "50", "--days", "1.5"]
    token, line = made(capsys, *words)
    book = parse_book(f"[tokens]\n{line}")
    known = book.bearer(token, NOW_MS + 129_599_000)
    assert known is not None
    assert book.bearer(token, NOW_MS + 129_600_000) is None
    assert known.requests_per_s == 50
    assert known.caller.namespaces.patterns == ("n", "m-*")
    assert known.caller.executors.patterns == ("e-*",)
    assert known.caller.hosts.patterns == ("h",)


def test_a_token_goes_into_a_file_of_its_users_alone_and_overwrites_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    path = tmp_path / "token"
    words = ["new", "--role", "viewer", "--label", "one", "--out", str(path)]
    assert main(words, NOW) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text().strip()
    assert parse_book(f"[tokens]\n{line}").bearer(token, NOW_MS) is not None
    assert main(words, NOW) == 1
    assert "cannot be made: File exists" in capsys.readouterr().err
    assert path.read_text().strip() == token


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--label", "a"], "--role"),
        (["--role", "viewer"], "--label"),
        (["--role", "root", "--label", "a"], "invalid choice"),
        (["--role", "viewer", "--label", "a b"], "does not match"),
        (["--role", "viewer", "--label", 'a" }\n"b'], "does not match"),
        (["--role", "router", "--label", "a", "--host", "h"], "is a limit of executors"),
        (["--role", "metrics", "--label", "a", "--namespace", "n"], "metrics tell of every"),
        (["--role", "viewer", "--label", "a", "--namespace", "*"], "namespaces"),
        (["--role", "viewer", "--label", "a", "--requests-per-s", "nan"], "requests_per_s"),
    ],
)
def test_a_line_that_the_file_would_not_take_is_not_made(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
):
    with pytest.raises(SystemExit) as ended:
        main(["new", *words], NOW)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert PREFIX not in shown.out


def test_the_program_makes_tokens_and_checks_the_file_that_they_are_in(tmp_path: Path):
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "coordinator", *words],
            capture_output=True, text=True, check=False, timeout=50,
        )  # fmt: skip

    token, line = run("token", "new", "--role", "viewer", "--label", "eye").stdout.splitlines()
    tokens, config = tmp_path / "tokens.toml", tmp_path / "n1.toml"
    config.write_text(
        '[node]\nname = "n1"\npeers = { n1 = "127.0.0.1:7071" }\n'
        f"[security]\ntokens_file = {json.dumps(str(tokens))}\n"
    )
    tokens.write_text(f"[tokens]\n{line}\n")
    tokens.chmod(0o600)
    assert run("--config", str(config), "--check").returncode == 0
    tokens.write_text(f'[tokens]\n{line}\n"spare" = "{token}"\n')
    checked = run("--config", str(config), "--check")
    assert checked.returncode == 2
    assert "tokens.spare: must be a table" in checked.stderr
    assert token not in checked.stderr
