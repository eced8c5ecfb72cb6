import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.api import query
from coordinator.api.problems import Refusal


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("30", 30.0), ("30s", 30.0), ("500ms", 0.5), ("5m", 300.0), ("1.5s", 1.5)],
)
def test_durations_take_a_unit(text: str, seconds: float):
    assert query.duration_s(text, "wait", upper_s=300.0) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "-1", "1h", "1e3", "nan", "inf", "301", "6m", " 1", "1 s"]
)
def test_other_durations_are_refused(text: str):
    with pytest.raises(Refusal) as caught:
        query.duration_s(text, "wait", upper_s=300.0)
    assert caught.value.errors[0].path == "wait"


@pytest.mark.parametrize("name", ["a", "0", "a.b-c_d", "a" * 63])
def test_namespace_names_within_the_rule_pass(name: str):
    assert query.namespace_name(name) == name


@pytest.mark.parametrize("name", ["", "A", ".a", "-a", "a" * 64, "a/b", "a\n", "ä"])
def test_other_namespace_names_are_refused(name: str):
    with pytest.raises(Refusal):
        query.namespace_name(name)


@pytest.mark.parametrize("name", ["a", "A1._:@-", "a" * 128])
def test_executor_names_within_the_rule_pass(name: str):
    assert query.executor_id(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a" * 129, "a b", "a\n", "../x", "a\r\nX: y"])
def test_other_executor_names_are_refused(name: str):
    with pytest.raises(Refusal):
        query.executor_id(name)


@pytest.mark.parametrize("key", ["a", " ", "a/b", "ä" * 128, "a" * 256, "../..", "{}"])
def test_shard_keys_are_any_printable_text_of_256_bytes(key: str):
    assert query.shard_key(key) == key


@pytest.mark.parametrize("key", ["", "a" * 257, "ä" * 129, "a\n", "\x00", "\x7f", "\x85", "\ud800"])
def test_other_shard_keys_are_refused(key: str):
    with pytest.raises(Refusal):
        query.shard_key(key)


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40))
def test_a_key_in_a_path_is_read_as_it_was_meant(key: str):
    from urllib.parse import quote

    assert query.raw_segment(f"/v1/namespaces/n/shards/{quote(key, safe='')}/owner", 4) == key


@pytest.mark.parametrize("segment", ["%ff", "%zz", "%", "%4"])
def test_two_spellings_never_become_one_key(segment: str):
    with pytest.raises(Refusal):
        query.raw_segment(f"/v1/namespaces/n/shards/{segment}", 4)


def test_flags_are_true_or_false():
    assert query.boolean({"x": "true"}, "x")
    assert not query.boolean({"x": "false"}, "x", default=True)
    assert query.boolean({}, "x", default=True)
    for text in ("1", "yes", "TRUE", ""):
        with pytest.raises(Refusal):
            query.boolean({"x": text}, "x")


def test_choices_and_numbers_keep_to_their_bounds():
    assert query.choice({"s": "a"}, "s", ("a", "b")) == "a"
    assert query.choice({}, "s", ("a", "b")) is None
    with pytest.raises(Refusal):
        query.choice({"s": "c"}, "s", ("a", "b"))
    assert query.whole({"n": "3"}, "n", default=1, lower=1, upper=3) == 3
    assert query.whole({}, "n", default=1, lower=1, upper=3) == 1
    for text in ("0", "4", "-1", "1.0", "x", "", "1" * 10):
        with pytest.raises(Refusal):
            query.whole({"n": text}, "n", default=1, lower=1, upper=3)


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:00.25Z", 250),
        ("2026-11-30T12:00:00.999999999Z", 1_796_040_000_999),
        ("2026-02-30T00:00:00Z", 1_772_409_600_000),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000),
    ],
)
def test_times_are_milliseconds(text: str, at_ms: int):
    assert query.instant_ms(text, "since") == at_ms


@given(st.from_regex(query.INSTANT_PATTERN, fullmatch=True))
def test_every_time_of_the_documented_form_is_taken(text: str):
    if text.isascii():
        assert isinstance(query.instant_ms(text, "since"), int)


@pytest.mark.parametrize("text", ["", "now", "2026-11-30", "2026-13-01T00:00:00Z", "1", "\u0661"])
def test_other_times_are_refused(text: str):
    with pytest.raises(Refusal):
        query.instant_ms(text, "since")
