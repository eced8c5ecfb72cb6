"""Lines of the log: whole, structured, bounded, and without secrets."""

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.logs import REQUEST_ID, TRACE_ID
from coordinator.logs.context import Binding
from coordinator.logs.lines import JsonLines, TextLines
from coordinator.logs.repeats import COUNTED, KNOWN_MAX, LINES_MAX, WINDOW_S, Repeats
from coordinator.logs.words import VALUE_CHARACTERS_MAX, clean, words_of
from tests.api.nodes import running, settings_of
from tests.waiting import until

OWN = "coordinator.leader"
SEED = """
[namespaces.orders]
kind = "open"
policy = { lease_ttl_s = 1.0, heartbeat_interval_s = 0.5 }
"""
"""Whose claim window the leader soon decides to close."""


def record(template: str, *args: Any, name: str = OWN, level: int = logging.INFO) -> Any:
    return logging.LogRecord(name, level, "file.py", 1, template, args, None)


def as_json(one: logging.LogRecord) -> dict[str, Any]:
    line = JsonLines().format(one)
    assert "\n" not in line
    fields: dict[str, Any] = json.loads(line)
    return fields


def as_text(one: logging.LogRecord) -> str:
    return TextLines().format(one).partition(f"{one.name} ")[2]


# -- events --------------------------------------------------------------------------------------


def test_fields_are_the_arguments_whatever_spaces_and_signs_they_hold() -> None:
    one = record(
        "shard_parked key=%s why=%r count=%d gap_s=%.2f", 'a b="c"', "it's \n off", 3, 0.125
    )
    told = as_json(one)
    assert told["event"] == "shard_parked"
    assert told["key"] == 'a b="c"'
    assert told["why"] == "it's \\x0a off"
    assert (told["count"], told["gap_s"]) == (3, 0.12)
    assert as_text(one) == (
        'shard_parked key="a b=\\"c\\"" why="it\'s \\\\x0a off" count=3 gap_s=0.12'
    )


def test_plain_values_stay_plain_in_text() -> None:
    one = record("leader_elected node=%s term=%d", "n1", 7)
    assert as_text(one) == "leader_elected node=n1 term=7"
    assert as_json(one)["term"] == 7


def test_a_name_in_the_events_place_is_the_event() -> None:
    one = record("%s node=%s peer=%s why=%r", "link_refused", "n1", "n2", "other cluster")
    assert as_json(one)["event"] == "link_refused"
    assert as_text(one) == 'link_refused node=n1 peer=n2 why="other cluster"'


@pytest.mark.parametrize(
    ("template", "args"),
    [
        ("done 100%% of %s", ("it",)),
        ("no fields at all", ()),
        ("by name %(key)s", ({"key": "value"},)),
    ],
)
def test_what_is_no_event_is_written_as_it_reads(template: str, args: tuple[object, ...]) -> None:
    one = record(template, *args)
    assert as_json(one)["message"] == one.getMessage()


def test_libraries_write_sentences() -> None:
    one = record("Error handling request from %s", "127.0.0.1", name="aiohttp.server")
    told = as_json(one)
    assert told["message"] == "Error handling request from 127.0.0.1"
    assert told["logger"] == "aiohttp.server"


def test_an_event_cannot_overwrite_what_every_line_has() -> None:
    told = as_json(record("odd level=%s at=%s", "x", "y"))
    assert told["level"] == "info"
    assert told["at"] != "y"


# -- bounds and secrets --------------------------------------------------------------------------


def test_a_value_from_outside_neither_forges_nor_floods_a_line() -> None:
    forged = (
        "x\r\n12:00:00.000 INFO coordinator.leader leader_elected node=n9\u2028\x85" + "y" * 9_999
    )
    one = record("turned_away who=%s", forged)
    for line in (TextLines().format(one), JsonLines().format(one)):
        assert len(line.splitlines()) == 1
        assert len(line) < 3 * VALUE_CHARACTERS_MAX


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer shc_abcDEF-123_456",
        "bad header b'authorization: bearer s3cr3t-of-another-kind'",
        "basic czNjcjN0 tried",
        "token shc_abcDEF-123_456 in a path",
    ],
)
@pytest.mark.parametrize("name", [OWN, "aiohttp.server"])
def test_no_credential_reaches_the_log(text: str, name: str) -> None:
    for one in (record(f"x {text}", name=name), record("x why=%s", text, name=name)):
        for line in (TextLines().format(one), JsonLines().format(one)):
            assert "[removed]" in line
            for secret in ("shc_abcDEF", "s3cr3t", "czNjcjN0"):
                assert secret not in line


def test_a_traceback_is_bounded_and_has_no_credentials_in_it() -> None:
    def deep(left: int) -> None:
        if left == 0:
            raise ValueError("Bearer shc_abcDEF-123_456")
        with contextlib.suppress(KeyError):
            deep(left - 1)

    try:
        deep(300)
    except ValueError as error:
        one = record("request_failed route=%s", "/")
        one.exc_info = (type(error), error, error.__traceback__)
    line = JsonLines().format(one)
    assert len(line) < 40_000
    assert "ValueError" in line
    assert "shc_abc" not in line
    first, *below = TextLines().format(one).splitlines()
    assert "request_failed" in first
    assert all(one.startswith("  | ") for one in below)
    assert "shc_abc" not in "".join(below)


# -- repeats -------------------------------------------------------------------------------------


class Hours:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_event_that_comes_over_and_over_is_written_so_often_and_then_counted() -> None:
    clock = Hours()
    repeats = Repeats(clock)
    written = [
        repeats.filter(record("link_down node=%s peer=%s", "n1", f"n{number}"))
        for number in range(LINES_MAX + 50)
    ]
    assert sum(written) == LINES_MAX
    assert repeats.filter(record("another node=%s", "n1")), "others are not kept back for it"
    assert repeats.lines == Counter(info=LINES_MAX + 1, left_out=50)
    assert repeats.lines.keys() == set(COUNTED), "each is there before the first one"
    clock.now = WINDOW_S
    first = record("link_down node=%s peer=%s", "n1", "n2")
    assert repeats.filter(first)
    assert words_of(first).text == "link_down node=n1 peer=n2 left_out=50"
    assert as_json(first)["left_out"] == 50
    second = record("link_down node=%s peer=%s", "n1", "n2")
    assert repeats.filter(second)
    assert "left_out" not in words_of(second).text


@pytest.mark.parametrize("sentence", ["100% full", "plain", "%s"])
def test_what_was_left_out_of_a_sentence_is_told_too(sentence: str) -> None:
    clock = Hours()
    repeats = Repeats(clock)
    for _ in range(LINES_MAX + 1):
        repeats.filter(record(sentence, name="aiohttp.server"))
    clock.now = WINDOW_S
    one = record(sentence, name="aiohttp.server")
    assert repeats.filter(one)
    assert one.getMessage() == f"{sentence} left_out=1"


def test_arguments_by_name_are_left_as_they_are() -> None:
    clock = Hours()
    repeats = Repeats(clock)
    for _ in range(LINES_MAX + 1):
        repeats.filter(record("%(key)s", {"key": "value"}, name="aiohttp.server"))
    clock.now = WINDOW_S
    one = record("%(key)s", {"key": "value"}, name="aiohttp.server")
    assert repeats.filter(one)
    assert one.getMessage() == "value"


def test_sentences_that_differ_each_time_are_not_remembered_for_ever() -> None:
    repeats = Repeats(Hours())
    for number in range(3 * KNOWN_MAX):
        repeats.filter(record(f"sentence {number}", name="aiohttp.server"))
    assert len(repeats._windows) == KNOWN_MAX


# -- what it happened in -------------------------------------------------------------------------


@pytest.fixture
def asked() -> Iterator[None]:
    ids = REQUEST_ID.set("r-1"), TRACE_ID.set("4bf92f3577b34da6a3ce929d0e0e4736")
    yield
    REQUEST_ID.reset(ids[0])
    TRACE_ID.reset(ids[1])


@pytest.mark.usefixtures("asked")
def test_every_line_of_a_request_names_it_and_its_trace() -> None:
    one = record("executor_joined executor=%s", "e1")
    assert Binding(lambda: {"node": "n1", "term": 3, "revision": 9}).filter(one)
    told = as_json(one)
    assert (told["request_id"], told["node"], told["term"], told["revision"]) == ("r-1", "n1", 3, 9)
    assert told["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert as_text(one).startswith("executor_joined executor=e1 request_id=r-1 trace_id=4bf9")


@pytest.mark.usefixtures("asked")
def test_an_event_that_names_its_request_names_it_once() -> None:
    one = record("request_failed request_id=%s route=%s", "r-1", "/")
    Binding().filter(one)
    assert as_text(one).count("r-1") == 1


async def test_what_a_handler_starts_goes_on_under_its_requests_id() -> None:
    lines: list[dict[str, Any]] = []

    async def commit() -> None:
        one = record("decided")
        Binding().filter(one)
        lines.append(as_json(one))

    REQUEST_ID.set("r-2")
    await asyncio.get_running_loop().create_task(commit())
    assert lines[0]["request_id"] == "r-2"


async def test_a_leaders_decisions_are_nobodys_request(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever led to the election, its id must not be on every line of the term."""
    caplog.handler.addFilter(Binding())
    caplog.set_level(logging.INFO, "coordinator.leader")
    asked = REQUEST_ID.set("r-of-long-ago")
    try:
        async with running(*settings_of(extra=SEED)):
            await until(lambda: any("decided" in one.getMessage() for one in caplog.records))
    finally:
        REQUEST_ID.reset(asked)
    decided = [one for one in caplog.records if "decided" in one.getMessage()]
    assert all("request_id" not in as_json(one) for one in decided)


def test_what_tells_of_the_node_may_log_itself() -> None:
    binding = Binding(lambda: {"nested": binding.filter(record("inner"))})
    one = record("outer")
    assert binding.filter(one)
    assert as_json(one)["nested"] is True


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u2028", "\ud800", "\x85", "\x1b"])
def test_a_key_from_outside_neither_turns_a_line_round_nor_breaks_it(mark: str) -> None:
    shown = clean(f"a{mark}b")
    assert shown.isprintable()
    assert shown.encode("ascii")
    assert clean("\u043a\u043b\u044e\u0447 \u00e9") == "\u043a\u043b\u044e\u0447 \u00e9"
