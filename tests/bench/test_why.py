"""The judge of explanations: a sentence for every move, the last one and those before."""

from bench.demo.ledger import Note, tenures_of
from bench.demo.why import moves_of, unexplained, why
from client.views import EventView, ShardView


def note(kind, at, executor, epoch):
    return Note(kind, at, executor, "1", "k", epoch, at + 3.0)


TENURES = tenures_of(
    [
        note("start", 0.0, "a", 1),
        note("stop", 9.0, "a", 1),
        note("start", 10.0, "b", 2),
        note("stop", 19.0, "b", 2),
        note("start", 20.0, "c", 3),
    ]
)
FIRST, LAST = moves_of(TENURES, 0.0, 100.0)


def event(source, target, *, detail="", reason=""):
    return EventView(1, shard="k", executor=source, target=target, detail=detail, reason=reason)


def view(*history, executor="c", epoch=3, why_here="it was moved from b to level the load"):
    return ShardView("k", executor, epoch=epoch, why_here=why_here, history=list(history))


def test_a_move_is_a_start_elsewhere_within_the_time():
    assert [(move.source, move.target) for move in (FIRST, LAST)] == [("a", "b"), ("b", "c")]
    assert moves_of(TENURES, 0.0, 15.0) == [FIRST]
    assert moves_of(TENURES, 15.0, 100.0) == [LAST]


def test_the_last_move_is_explained_by_why_the_shard_is_where_it_is():
    assert why(LAST, view()) == "it was moved from b to level the load"
    assert unexplained([FIRST, LAST], {"k": view()}) == [FIRST]


def test_a_move_before_is_explained_by_an_event_that_says_what_it_was_for():
    assert why(FIRST, view(event("a", "b", detail="takes a from 3 to 2"))) == "takes a from 3 to 2"
    assert why(FIRST, view(event("a", "b", reason="an operator's"))) == "an operator's"
    assert not why(FIRST, view(event("a", "b")))
    assert not why(FIRST, view(event("a", "c", detail="takes a from 3 to 2")))


def test_what_explains_another_executor_another_epoch_or_nothing_explains_no_move():
    assert not why(LAST, None)
    assert not why(LAST, view(why_here=""))
    assert not why(LAST, view(why_here="it was moved from d to level the load"))
    assert not why(LAST, view(epoch=5))
    assert not why(LAST, view(executor="b"))
