"""`shard-coordinator token new`: what it shows fits the file, and the secret is in one place."""

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coordinator import __main__ as program
from coordinator.api.rights import Role
from coordinator.api.tokens import PREFIX, parse_book, read_book
from coordinator.token_command import main

ROOT = Path(__file__).parents[1]
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


def test_the_readmes_tokens_are_made_as_it_says(tmp_path: Path):
    text = (ROOT / "README.md").read_text().split("**Tokens.**")[1]
    block = text.split("```bash\n")[1].split("```")[0]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    ran = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", block],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
    book = read_book(str(tmp_path / "tokens.toml"))
    fleet = book.bearer((tmp_path / "orders-fleet.token").read_text().strip(), NOW_MS)
    alice = book.bearer((tmp_path / ".shardctl.token").read_text().strip(), NOW_MS)
    assert fleet is not None
    assert fleet.caller.namespaces.patterns == ("orders",)
    assert alice is not None
    assert (alice.caller.label, alice.caller.role) == ("alice", Role.OPERATOR)


def test_a_check_looks_into_the_file_of_tokens_and_repeats_no_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    token, line = made(capsys, "--role", "viewer", "--label", "eye")
    tokens, config = tmp_path / "tokens.toml", tmp_path / "n1.toml"
    config.write_text(
        '[node]\nname = "n1"\npeers = { n1 = "127.0.0.1:7071" }\n'
        f"[security]\ntokens_file = {json.dumps(str(tokens))}\n"
    )
    monkeypatch.setattr(sys, "argv", ["shard-coordinator", "--config", str(config), "--check"])

    def checked(text: str) -> int | str | None:
        tokens.write_text(text)
        tokens.chmod(0o600)
        with pytest.raises(SystemExit) as ended:
            program.main()
        return ended.value.code

    assert checked(f"[tokens]\n{line}\n") == 0
    assert checked(f'[tokens]\n{line}\n"spare" = "{token}"\n') == 2
    told = capsys.readouterr().err
    assert "tokens.spare: must be a table" in told
    assert token not in told
