"""The file of tokens: who is known, by the hash of a secret or by the name in a certificate.

Decides what a line may say and whom a presented token stands for. Secrets are never in it, only
their SHA-256: they are random and long, so a slow hash would protect nothing. It must not know
requests, nor what roles may do.
"""

import hashlib
import hmac
import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from coordinator.api.rights import Caller, Role, Scope
from coordinator.guarded_files import WRITABLE_BY_OTHERS, FileRefused, read_guarded
from coordinator.settings_tree import Faults, build

PREFIX: Final = "shc_"
"""Tells scanners of repositories and logs what they have found."""
SECRET_BYTES: Final = 32
"""256 bits: nobody guesses one, and nobody finds one from its hash."""
TOKEN_CHARACTERS_MAX: Final = 512
"""Of tokens that were not minted here, too; longer ones are not even hashed."""
LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
FILE_BYTES_MAX: Final = 1 << 20
LINES_MAX: Final = 2_000
"""Tokens and certificates of one file. A line is some 200 bytes."""

_Pattern = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}\*?$(?!\n)")]
_Patterns = Annotated[list[_Pattern], Meta(max_length=64)]


class _Line(Struct, frozen=True, kw_only=True):
    role: Role
    namespaces: _Patterns = field(default_factory=list)
    executors: _Patterns = field(default_factory=list)
    hosts: _Patterns = field(default_factory=list)
    capacity_max: Annotated[float, Meta(gt=0)] | None = None
    requests_per_s: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    expires_at: datetime | None = None


class TokenLine(_Line, frozen=True, kw_only=True):
    """What stands behind a label: who, what for, within which limits, until when."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]


class _File(Struct, frozen=True, kw_only=True):
    tokens: dict[str, TokenLine] = field(default_factory=dict)
    certificates: dict[str, _Line] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Credential:
    """Somebody who is known, how long, and how much they may ask."""

    caller: Caller
    digest: bytes = b""
    """Of the token; empty for a certificate."""
    requests_per_s: float | None = None
    """Of each node; None is no bound but the node's own."""
    expires_at_ms: int | None = None


class TokensRefused(Exception):  # noqa: N818 - says what is done with the file
    """The file cannot be used; `errors` has every fault with its path."""

    def __init__(self, errors: tuple[str, ...]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


class TokenBook:
    """Everybody who is known at one time. It never changes: a changed file is another book."""

    def __init__(
        self, tokens: Mapping[bytes, Credential], certificates: Mapping[str, Credential]
    ) -> None:
        self._by_digest = tokens
        self._by_name = certificates

    @property
    def labels(self) -> frozenset[str]:
        """The label of everybody."""
        known = (*self._by_digest.values(), *self._by_name.values())
        return frozenset(one.caller.label for one in known)

    def bearer(self, token: str, now_ms: int) -> Credential | None:
        """Whom a token stands for, if it is known and not over.

        What is looked up is a hash that nobody can steer, so the time that it takes tells nothing
        of any token; the hashes themselves are compared in constant time.
        """
        if len(token) > TOKEN_CHARACTERS_MAX:
            return None
        digest = digest_of(token)
        found = self._by_digest.get(digest)
        if found is None or not hmac.compare_digest(found.digest, digest):
            return None
        return _valid(found, now_ms)

    def named(self, names: frozenset[str], now_ms: int) -> Credential | None:
        """Whom a certificate stands for; nobody, if its names would be several."""
        found = [self._by_name[name] for name in names if name in self._by_name]
        return _valid(found[0], now_ms) if len(found) == 1 else None


def _valid(found: Credential, now_ms: int) -> Credential | None:
    is_over = found.expires_at_ms is not None and found.expires_at_ms <= now_ms
    return None if is_over else found


def minted() -> str:
    """A new token. It is shown once; only its hash is kept."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def digest_of(token: str) -> bytes:
    """What stands in the file, as bytes."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def read_book(path: str) -> TokenBook:
    """The book in a file; raises TokensRefused."""
    try:
        data = read_guarded(path, forbidden=WRITABLE_BY_OTHERS, bytes_max=FILE_BYTES_MAX)
    except FileRefused as refused:
        raise TokensRefused((str(refused),)) from None
    try:
        return parse_book(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise TokensRefused((f"{path} is not UTF-8",)) from None
    except TokensRefused as refused:
        raise TokensRefused(tuple(f"{path}: {one}" for one in refused.errors)) from None


def parse_book(text: str) -> TokenBook:
    """The book in a text; raises TokensRefused."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as fault:  # of numbers and nesting that are too large, too
        # Its message may quote what it could not read, and that may be a secret put there by
        # mistake; the place is enough.
        place = re.search(r"\(at [^)]*\)", str(fault))
        raise TokensRefused((f"is not TOML {place[0] if place else ''}".rstrip(),)) from None
    faults = Faults()
    file: _File = build(_File, tree, "", faults)
    tokens: dict[bytes, Credential] = {}
    for label, line in file.tokens.items():
        path = f"tokens.{label}"
        _check(path, label, line, faults)
        digest = bytes.fromhex(line.sha256)
        if digest in tokens:
            faults.add(f"{path}.sha256", f"is that of {tokens[digest].caller.label!r} as well")
        tokens[digest] = _credential(label, line, digest)
    certificates: dict[str, Credential] = {}
    for name, holder in file.certificates.items():
        _check(f"certificates.{name}", name, holder, faults)
        if name.lower() in certificates:
            faults.add(f"certificates.{name}", "stands there twice: case is no difference in names")
        certificates[name.lower()] = _credential(name, holder)
        if name in file.tokens:
            faults.add(f"certificates.{name}", "is the label of a token as well")
    if len(file.tokens) + len(file.certificates) > LINES_MAX:
        faults.add("tokens", f"more than {LINES_MAX} lines")
    if faults.found:
        raise TokensRefused(tuple(faults.found))
    return TokenBook(tokens, certificates)


def _check(path: str, label: str, line: _Line, faults: Faults) -> None:
    if label.startswith(PREFIX):  # audits and logs name labels
        faults.add(path.partition(".")[0], "a label looks like a token; tokens are nowhere in here")
    elif not LABEL.fullmatch(label):
        faults.add(path, f"does not match {LABEL.pattern}")
    if line.expires_at is not None and line.expires_at.tzinfo is None:
        faults.add(f"{path}.expires_at", "needs an offset, such as Z")
    if line.role is Role.METRICS and line.namespaces:
        faults.add(f"{path}.namespaces", "metrics tell of every namespace: they have no limit")
    if line.role is not Role.EXECUTOR:
        for limit in ("executors", "hosts", "capacity_max"):
            if getattr(line, limit):
                faults.add(f"{path}.{limit}", f"is a limit of executors, not of {line.role}s")


def _credential(label: str, line: _Line, digest: bytes = b"") -> Credential:
    caller = Caller(
        label,
        line.role,
        Scope(tuple(line.namespaces)),
        Scope(tuple(line.executors)),
        Scope(tuple(line.hosts)),
        inf if line.capacity_max is None else line.capacity_max,
    )
    over = line.expires_at
    return Credential(
        caller,
        digest,
        line.requests_per_s,
        None if over is None or over.tzinfo is None else int(over.timestamp() * 1000),
    )
