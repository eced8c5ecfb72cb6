"""The file of tokens: what it may say, whom it knows, and that it gives no secret away."""

import contextlib
import json
import os
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.api.rights import Role
from coordinator.api.tokens import (
    FILE_BYTES_MAX,
    LINES_MAX,
    PREFIX,
    TOKEN_CHARACTERS_MAX,
    TokenLine,
    TokensRefused,
    digest_of,
    minted,
    parse_book,
    read_book,
)

NOW_MS = 1_800_000_000_000
SHA = digest_of("x").hex()


def faults(text: str) -> list[str]:
    with pytest.raises(TokensRefused) as caught:
        parse_book(text)
    return list(caught.value.errors)


def line(token: str, rest: str = "") -> str:
    return f'{{ role = "executor", sha256 = "{digest_of(token).hex()}"{rest} }}'


def test_a_token_stands_for_the_line_with_its_hash():
    first, second = minted(), minted()
    limit = ', namespaces = ["n*"]'
    book = parse_book(f'[tokens]\n"a" = {line(first)}\n"b" = {line(second, limit)}')
    known = book.bearer(first, NOW_MS)
    assert known is not None
    assert (known.caller.label, known.caller.role) == ("a", Role.EXECUTOR)
    other = book.bearer(second, NOW_MS)
    assert other is not None
    assert other.caller.namespaces.admits("n-1")
    assert not other.caller.namespaces.admits("m")
    for wrong in (first[:-1], first + "x", "", digest_of(first).hex(), f"{PREFIX}{'a' * 43}"):
        assert book.bearer(wrong, NOW_MS) is None


def test_tokens_are_long_random_and_found_by_scanners():
    made = {minted() for _ in range(100)}
    assert len(made) == 100
    assert all(token.startswith(PREFIX) and len(token) == len(PREFIX) + 43 for token in made)


def test_a_token_that_is_too_long_is_not_even_hashed():
    long = "x" * (TOKEN_CHARACTERS_MAX + 1)
    assert parse_book(f"[tokens]\na = {line(long)}").bearer(long, NOW_MS) is None


def test_a_token_ends_when_its_line_says():
    book = parse_book(f"[tokens]\na = {line('t', ', expires_at = 2027-01-15T08:00:00Z')}")
    assert book.bearer("t", NOW_MS - 1) is not None
    assert book.bearer("t", NOW_MS) is None


def test_a_certificate_stands_for_its_line_and_for_none_if_it_could_be_two():
    book = parse_book(
        '[certificates]\n"Router.example" = { role = "router" }\n"b.example" = { role = "viewer" }'
    )
    known = book.named(frozenset({"router.example", "else.example"}), NOW_MS)
    assert known is not None
    assert (known.caller.label, known.caller.role) == ("Router.example", Role.ROUTER)
    assert book.named(frozenset({"router.example", "b.example"}), NOW_MS) is None
    assert book.named(frozenset({"c.example"}), NOW_MS) is None
    assert book.named(frozenset(), NOW_MS) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[tokens]\na = 5", "tokens.a: must be a table, not a number"),
        (f'[tokens]\na = {{ sha256 = "{SHA}" }}', "tokens.a.role: is missing"),
        ('[tokens]\na = { role = "viewer" }', "tokens.a.sha256: is missing"),
        (f'[tokens]\na = {{ role = "root", sha256 = "{SHA}" }}', "tokens.a.role: invalid enum"),
        ('[tokens]\na = { role = "viewer", sha256 = "x" }', "tokens.a.sha256: expected str match"),
        (f"[tokens]\na = {line('x', ', namespace = []')}", "tokens.a.namespace: unknown key; did"),
        (
            f"[tokens]\na = {line('x', ', executors = [' + chr(34) + '*a' + chr(34) + ']')}",
            "tokens.a.exec",
        ),
        (f'[tokens]\n"a b" = {line("x")}', "tokens.a b: does not match"),
        (f"[tokens]\na = {line('x')}\nb = {line('x')}", "tokens.b.sha256: is that of 'a' as well"),
        (
            f"[tokens]\na = {line('x', ', expires_at = 2027-01-15T08:00:00')}",
            "tokens.a.expires_at: n",
        ),
        (
            f'[tokens]\na = {{ role = "metrics", sha256 = "{SHA}", namespaces = ["n"] }}',
            "tokens.a.namespaces: metrics tell of every namespace",
        ),
        (
            f'[tokens]\na = {{ role = "router", sha256 = "{SHA}", hosts = ["n"] }}',
            "tokens.a.hosts: is a limit of executors, not of routers",
        ),
        (
            f'[tokens]\na = {line("x")}\n[certificates]\na = {{ role = "viewer" }}',
            "certificates.a: is the label of a token as well",
        ),
        (
            "[certificates]\n'A.b' = { role = 'viewer' }\n'a.b' = { role = 'operator' }",
            "certificates.a.b: stands there twice",
        ),
        ("[certificates]\na = { role = 'viewer', sha256 = '' }", "certificates.a.sha256: unknown"),
        ("tokens = []", "tokens: must be a table, not a list"),
    ],
)
def test_each_fault_is_told_with_its_place(text: str, fault: str):
    assert any(told.startswith(fault) for told in faults(text)), faults(text)


def test_a_secret_that_was_put_into_the_file_is_in_no_message():
    secret = minted()
    for text in (
        f"[tokens]\na = {secret}",
        f'[tokens]\n"{secret}" = {line("x")}',
        f'[tokens]\na = {{ role = "viewer", sha256 = "{secret}" }}',
        f'[tokens]\na = {{ role = "viewer", token = "{secret}" }}',
        f'[tokens]\na = "{secret}"',
    ):
        assert secret not in "".join(faults(text))


def test_more_lines_than_are_kept_are_refused():
    lines = [f"a{number} = {line(str(number))}" for number in range(LINES_MAX + 1)]
    assert faults("[tokens]\n" + "\n".join(lines)) == [f"tokens: more than {LINES_MAX} lines"]


VALUES = st.recursive(
    st.one_of(
        st.text(max_size=20).map(json.dumps),
        st.integers().map(str),
        st.sampled_from(["true", "nan", "inf", "1e400", "0001-01-01T00:00:00+14:00", "9" * 5_000]),
        st.sampled_from(["2027-02-30", "9999-12-31T23:59:59-23:59", "07:00:00", "[" * 50]),
    ),
    lambda inner: st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
    max_leaves=4,
)
FIELDS = ["role", "sha256", "namespaces", "hosts", "requests_per_s", "expires_at", "capacity_max"]


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=7), st.text(max_size=8))
def test_whatever_a_file_says_it_is_read_or_refused(fields: dict[str, str], label: str):
    good = {"role": '"executor"', "sha256": f'"{SHA}"'} if len(fields) % 2 else {}
    told = ", ".join(f"{key} = {value}" for key, value in (good | fields).items())
    for text in (f"[tokens]\n{json.dumps(label)} = {{ {told} }}", told, f"[certificates]\n{told}"):
        with contextlib.suppress(TokensRefused):
            parse_book(text)


def test_a_file_that_nests_without_end_is_refused():
    assert faults("tokens = " + "[" * 100_000)[0].startswith("is not TOML")


@pytest.mark.parametrize("mode", [0o660, 0o644, 0o602, 0o601])
def test_a_file_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int):
    path = tmp_path / "tokens.toml"
    path.write_text("")
    path.chmod(mode)
    with pytest.raises(TokensRefused, match=f"mode {mode:04o}"):
        read_book(str(path))
    path.chmod(0o640)
    assert read_book(str(path)).labels == frozenset()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_is_refused(tmp_path: Path):
    path = tmp_path / "tokens.toml"
    path.write_text("")
    path.chmod(0o600)
    os.chown(path, 65534, 65534)
    with pytest.raises(TokensRefused, match="belongs to user 65534"):
        read_book(str(path))


def test_a_file_that_is_none_or_too_large_or_no_text_is_refused(tmp_path: Path):
    path = tmp_path / "tokens.toml"
    with pytest.raises(TokensRefused, match="cannot be read: No such file"):
        read_book(str(path))
    with pytest.raises(TokensRefused, match="cannot be read: Is a directory"):
        read_book(str(tmp_path))
    for data, told in ((b"#" * (FILE_BYTES_MAX + 1), "is larger"), (b"\xff", "is not UTF-8")):
        path.write_bytes(data)
        path.chmod(0o600)
        with pytest.raises(TokensRefused, match=told):
            read_book(str(path))


def test_the_example_is_read_and_shows_every_role_and_every_field():
    text = (Path(__file__).parents[2] / "configs" / "tokens.toml").read_text()
    assert parse_book(text).labels >= {"orders-fleet", "front-2.example"}
    tables = tomllib.loads(text)
    lines = [*tables["tokens"].values(), *tables["certificates"].values()]
    assert {line["role"] for line in lines} == set(Role)
    fields = {field.name for field in msgspec.structs.fields(TokenLine)}
    assert set().union(*lines) == fields
