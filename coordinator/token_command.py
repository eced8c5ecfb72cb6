"""The command `shard-coordinator token new`: a token, and the line for the file of tokens.

Decides how both are shown. The secret is made here, written once, and kept nowhere; it is never
taken from arguments, which every process of the machine can read.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from coordinator.api.rights import Role
from coordinator.api.tokens import TokensRefused, digest_of, minted, parse_book


def main(words: Sequence[str], now: datetime | None = None) -> int:
    """Run the command; gives the exit status: 0 made, 1 not written, 2 wrong usage."""
    parser = _parser()
    arguments = parser.parse_args(words)
    token = minted()
    line = _line(arguments, token, now or datetime.now(UTC))
    try:
        parse_book(f"[tokens]\n{line}\n")
    except TokensRefused as refused:
        parser.error(str(refused))
    if arguments.out is None:
        sys.stderr.write("The token, shown this once; hand it to its user in a file of theirs:\n")
        sys.stdout.write(f"{token}\n")
    elif fault := _written(arguments.out, token):
        sys.stderr.write(f"shard-coordinator: {fault}\n")
        return 1
    sys.stderr.write("The line for [tokens] in the file of tokens (security.tokens_file):\n")
    sys.stdout.write(f"{line}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shard-coordinator token",
        description="Makes a token and the line that lets nodes know it by its hash.",
        epilog="Names may end in *, and stand for all that begin so. Options may be repeated.",
    )
    new = parser.add_subparsers(dest="verb", required=True).add_parser(
        "new", help="make a token", epilog=parser.epilog
    )
    new.add_argument("--label", required=True, help="what audits and logs call it")
    new.add_argument("--role", required=True, choices=[role.value for role in Role])
    several: dict[str, Any] = {"action": "append", "default": [], "metavar": "NAME"}
    new.add_argument("--namespace", **several, help="limit it to this namespace")
    new.add_argument("--executor", **several, help="limit it to this executor's name")
    new.add_argument("--host", **several, help="limit it to executors on this host")
    new.add_argument("--capacity-max", type=float, metavar="N", help="an executor may say it has")
    new.add_argument("--requests-per-s", type=float, metavar="N", help="that each node takes")
    new.add_argument(
        "--days", type=float, metavar="N", help="how long it is good; without: for ever"
    )
    new.add_argument(
        "--out", metavar="FILE", help="write the token into this new file instead of showing it"
    )
    return parser


def _line(arguments: argparse.Namespace, token: str, now: datetime) -> str:
    fields = [f'role = "{arguments.role}"', f'sha256 = "{digest_of(token).hex()}"']
    for key, names in (
        ("namespaces", arguments.namespace),
        ("executors", arguments.executor),
        ("hosts", arguments.host),
    ):
        if names:
            fields.append(f"{key} = [{', '.join(map(_quoted, names))}]")
    for key in ("capacity_max", "requests_per_s"):
        number = getattr(arguments, key)
        if number is not None:
            fields.append(f"{key} = {number}")
    if arguments.days is not None:
        ends_at = now + timedelta(days=arguments.days)
        fields.append(f"expires_at = {ends_at.isoformat(timespec='seconds')}")
    return f"{_quoted(arguments.label)} = {{ {', '.join(fields)} }}"


def _quoted(text: str) -> str:
    """A TOML string. What may stand in it is for the reader of the file to say."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{"".join(one if one.isprintable() else "?" for one in plain)}"'


def _written(path: str, token: str) -> str | None:
    """Why the token could not be written; a file that is there is never overwritten."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        return f"{path} cannot be made: {error.strerror}"
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{token}\n")
    except OSError as error:
        Path(path).unlink(missing_ok=True)
        return f"{path} cannot be written: {error.strerror}"
    return None
