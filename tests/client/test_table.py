"""The router's table, answer by answer."""

import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.protocol import RoutedExecutor, RoutingAnswer
from client.table import Owner, RoutingTable

E1 = RoutedExecutor("10.0.0.1:1", "h1", "z1")
E2 = RoutedExecutor("10.0.0.2:1", "h2", "z2")


def answer(kind, revision, cluster="c1", **parts):
    parts.setdefault("executors", {"e1": E1, "e2": E2})
    return RoutingAnswer(kind=kind, cursor=f"{cluster}:{revision}", **parts)


def table():
    made = RoutingTable()
    made.apply(answer("snapshot", 5, owners={"a": ("e1", 1), "b": ("e2", 2)}, parked=["p"]))
    return made


def test_an_owner_comes_with_its_address():
    assert table().owner("a") == Owner("a", "e1", 1, "10.0.0.1:1", "h1", "z1")
    assert table().owner("unknown") is None
    assert len(table()) == 2
    assert set(table().owners()) == {"a", "b"}


def test_a_delta_changes_what_it_names_and_nothing_else():
    routes = table()
    assert routes.apply(answer("delta", 6, owners={"a": ("e2", 3)}))
    assert routes.owner("a") == Owner("a", "e2", 3, "10.0.0.2:1", "h2", "z2")
    assert routes.owner("b").epoch == 2


def test_a_move_shows_where_the_shard_goes_until_it_is_there():
    routes = table()
    routes.apply(answer("delta", 6, owners={"a": ("e1", 1)}, moving={"a": "e2"}))
    assert (routes.owner("a").moving_to, routes.owner("a").moving_to_address) == ("e2", E2.address)
    routes.apply(answer("delta", 7, owners={"a": ("e2", 3)}))
    assert routes.owner("a").moving_to is None


def test_removed_and_parked_shards_have_no_owner():
    routes = table()
    routes.apply(answer("delta", 6, removed=["a"], parked=["b"]))
    assert routes.owner("a") is None
    assert routes.owner("b") is None
    assert routes.is_parked("b")
    assert routes.is_parked("p")
    routes.apply(answer("delta", 7, owners={"b": ("e1", 9)}, removed=["p"]))
    assert not routes.is_parked("b")
    assert not routes.is_parked("p")


def test_an_executor_that_changes_its_address_changes_it_for_all_its_shards():
    routes = table()
    assert routes.owner("a").address == "10.0.0.1:1"
    routes.apply(answer("delta", 6, executors={"e1": RoutedExecutor("10.0.0.9:1")}))
    assert routes.owner("a").address == "10.0.0.9:1"
    assert routes.owner("b").address == "10.0.0.2:1"


def test_an_older_answer_of_the_same_cluster_is_dropped():
    routes = table()
    assert not routes.apply(answer("snapshot", 4, owners={}))
    assert not routes.apply(answer("delta", 4, owners={"a": ("e2", 0)}))
    assert routes.owner("a").executor == "e1"


def test_a_snapshot_of_another_cluster_replaces_the_table_and_a_delta_does_not():
    routes = table()
    assert not routes.apply(answer("delta", 1, "c2", owners={"a": ("e2", 9)}))
    assert routes.apply(answer("snapshot", 1, "c2", owners={"a": ("e2", 9)}))
    assert routes.owners() == {"a": Owner("a", "e2", 9, "10.0.0.2:1", "h2", "z2")}


def test_a_delta_without_a_table_says_nothing():
    assert not RoutingTable().apply(answer("delta", 1, owners={"a": ("e1", 1)}))


def test_pruning_keeps_every_executor_that_owns_or_gets_a_shard():
    routes = table()
    routes.apply(answer("delta", 6, owners={"b": ("e1", 3)}, moving={"b": "e2"}))
    routes.prune()
    assert set(routes._executors) == {"e1", "e2"}
    routes.apply(answer("delta", 7, executors={}, owners={"b": ("e1", 3)}))
    routes.prune()
    assert set(routes._executors) == {"e1"}
    assert routes.owner("b").address == "10.0.0.1:1"


def test_a_cursor_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a cursor"):
        table().apply(RoutingAnswer(kind="snapshot", cursor="7"))


KEYS = st.sampled_from("abcd")
ROWS = st.one_of(
    st.tuples(st.just("owned"), st.sampled_from(["e1", "e2"]), st.sampled_from([None, "e1"])),
    st.tuples(st.just("parked")),
    st.tuples(st.just("gone")),
)


@settings(deadline=None)
@given(st.lists(st.tuples(KEYS, ROWS), max_size=30), st.data())
def test_any_sequence_of_deltas_gives_what_a_snapshot_would(changes, data):
    """A server's history, read at random places, with repeats of what was read before."""
    truth, history = {}, [{}]
    for epoch, (key, row) in enumerate(changes, 1):
        truth = truth | {key: (*row, epoch)}
        history.append(truth)

    def read(after, revision):
        rows = history[revision]
        base = None if after is None else history[after]
        changed = {k: r for k, r in rows.items() if base is None or base.get(k) != r}
        owned = {k: r for k, r in changed.items() if r[0] == "owned"}
        return answer(
            "snapshot" if base is None else "delta",
            revision,
            owners={k: (r[1], r[3]) for k, r in owned.items()},
            moving={k: r[2] for k, r in owned.items() if r[2]},
            parked=[k for k, r in changed.items() if r[0] == "parked"],
            removed=[k for k, r in changed.items() if r[0] == "gone" and base is not None],
        )

    routes, reads, at = RoutingTable(), [], None
    for revision in range(len(history)):
        if not data.draw(st.booleans()) and revision < len(history) - 1:
            continue
        reads.append(read(at, revision))
        assert routes.apply(reads[-1])
        at = revision
        routes.apply(data.draw(st.sampled_from(reads)))
    whole = RoutingTable()
    whole.apply(read(None, len(history) - 1))
    assert routes.owners() == whole.owners()
    assert [k for k in "abcd" if routes.is_parked(k)] == [k for k in "abcd" if whole.is_parked(k)]


def test_owners_are_listed_on_one_thread_while_answers_come_on_another():
    made = RoutingTable()
    made.apply(answer("snapshot", 1, owners={str(key): ("e1", 1) for key in range(200)}))
    is_over = threading.Event()

    def answers():
        for revision in range(2, 400):
            made.apply(answer("delta", revision, owners={f"new-{revision}": ("e2", revision)}))
        is_over.set()

    coming = threading.Thread(target=answers)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        coming.start()
        while not is_over.is_set():
            assert len(made.owners()) >= 200
    finally:
        sys.setswitchinterval(before)
        coming.join()
