"""What a node that starts empty may do: nothing that it might have promised before."""

import logging

import pytest

from coordinator.consensus.cures.quarantine import Quarantine
from tests.consensus.lab import Lab, entry


def nonce_of(lab):
    (asked,) = {m["nonce"] for m in lab.sent(kind="rejoin")}
    return asked


def answer(lab, peer, nonce, *, term=5, fresh=False, admitted=True, views=None, own=None):
    own = own or f"{peer}-start"
    lab.hear(
        peer,
        "rejoin_ack",
        nonce=nonce,
        own=own,
        term=term,
        fresh=fresh,
        admitted=admitted,
        views=views or {},
    )


def empty_node(*without, **settings):
    lab = Lab(*without, admitted=False, **settings)
    lab.pass_s(0.2)
    return lab, nonce_of(lab)


def ask_vote(lab, term=6):
    lab.hear("n2", "request_vote", term=term, last_log_index=9, last_log_term=5)
    return lab.sent("n2", "response_vote")


def test_an_empty_node_gives_no_vote():
    lab, _ = empty_node()
    assert ask_vote(lab) == []
    assert lab.engine.term == 0


def test_without_quarantine_an_empty_node_gives_a_vote_it_may_have_given_before():
    lab = Lab("quarantine")
    assert len(ask_vote(lab)) == 1


def test_an_empty_node_does_not_stand_however_long_it_waits():
    lab, _ = empty_node()
    lab.pass_s(20)
    assert lab.engine.term == 0
    assert lab.sent(kind="pre_vote") == []


def test_nothing_is_acknowledged_before_every_member_has_answered_this_start():
    lab, nonce = empty_node()
    answer(lab, "n2", nonce)
    lab.follow(term=5, entries=[entry(2, 5)])
    assert lab.sent("n2", "next_node_idx") == []
    answer(lab, "n3", "another start")
    lab.follow(term=5, entries=[entry(2, 5)])
    assert lab.sent("n2", "next_node_idx") == []
    answer(lab, "n3", nonce)
    lab.follow(term=5, entries=[entry(2, 5)])
    assert len(lab.sent("n2", "next_node_idx")) == 1


def test_the_answer_of_a_process_that_was_replaced_is_asked_of_its_successor():
    """The former n3 answered; its successor may have stood since, with this node's vote."""
    lab, nonce = empty_node()
    answer(lab, "n3", nonce, term=4)
    lab.replica.members_moved("", ["n3"])
    answer(lab, "n2", nonce)
    lab.follow(term=5, entries=[entry(2, 5)])
    assert lab.sent("n2", "next_node_idx") == []
    answer(lab, "n3", nonce, term=6)
    assert lab.engine.term == 6


def test_a_move_takes_nothing_from_a_node_that_was_admitted():
    lab = caught_up()
    lab.follow(term=5, prev=(3, 5), commit=3)
    lab.step()
    lab.replica.members_moved("kept", ["n3"])
    assert not lab.replica.is_quarantined
    assert lab.engine.log.notes["moved"] == "kept"


def test_the_answer_of_a_member_in_quarantine_does_not_count():
    lab, nonce = empty_node()
    answer(lab, "n2", nonce)
    answer(lab, "n3", nonce, admitted=False)
    lab.follow(term=5, entries=[entry(2, 5)])
    assert lab.sent("n2", "next_node_idx") == []


def test_the_highest_term_answered_is_adopted_and_a_leader_of_a_lower_one_is_refused():
    lab, nonce = empty_node()
    answer(lab, "n2", nonce, term=5)
    answer(lab, "n3", nonce, term=6)  # it stood in term 6, and may have this node's vote
    assert lab.engine.term == 6
    lab.follow(term=5, leader="n2", entries=[entry(2, 5)])
    assert lab.engine.last_index == 1
    assert lab.sent("n2", "next_node_idx") == []


def caught_up():
    lab, nonce = empty_node()
    for peer in ("n2", "n3"):
        answer(lab, peer, nonce)
    lab.follow(term=5, entries=[entry(2, 4), entry(3, 5)], commit=2)
    lab.step()
    return lab


def test_a_node_stays_in_quarantine_until_an_entry_of_the_leaders_own_term_is_applied():
    lab = caught_up()
    assert lab.replica.is_quarantined  # entry 2 is of an older term
    lab.follow(term=5, prev=(3, 5), commit=3)
    assert lab.replica.is_quarantined  # not applied yet
    lab.step()
    assert not lab.replica.is_quarantined
    assert lab.machine.values == ["x", "x"]


def test_the_vote_of_the_term_it_comes_back_in_is_spent():
    lab = caught_up()
    lab.follow(term=5, prev=(3, 5), commit=3)
    lab.step()
    lab.sent()
    lab.pass_s(2)
    assert ask_vote(lab, term=5) == []
    assert len(ask_vote(lab, term=6)) == 1


def test_probes_are_not_answered_in_quarantine():
    lab = caught_up()
    lab.hear("n2", "probe", id=1, term=5)
    assert lab.sent("n2", "probe_ack") == []
    lab.follow(term=5, prev=(3, 5), commit=3)
    lab.step()
    lab.hear("n2", "probe", id=2, term=5)
    assert [m["id"] for m in lab.sent("n2", "probe_ack")] == [2]


def test_a_leader_forgets_what_a_former_life_acknowledged():
    lab = Lab(admitted=False)
    lab.replica.is_quarantined = False
    lab.lead()
    assert lab.match("n2") == 2
    lab.hear("n2", "rejoin", nonce="new life", views={})
    assert lab.match("n2") == 0
    (told,) = lab.sent("n2", "rejoin_ack")
    assert (told["nonce"], told["term"], told["admitted"]) == ("new life", lab.engine.term, True)


def see_fresh(lab, nonce, peers=("n2", "n3"), known=("n2", "n3")):
    views = {"n1": nonce, **{peer: f"{peer}-start" for peer in known}}
    for peer in peers:
        answer(lab, peer, nonce, term=0, fresh=True, admitted=False, views=views)


def test_a_cluster_is_founded_once_all_members_are_fresh_and_know_each_other():
    lab, nonce = empty_node()
    see_fresh(lab, nonce)
    assert not lab.replica.is_quarantined
    (proceed,) = lab.sent("n3", "proceed")
    assert proceed["nonces"] == {"n1": nonce, "n2": "n2-start", "n3": "n3-start"}


@pytest.mark.parametrize(
    ("peers", "known"),
    [(("n2",), ("n2", "n3")), (("n2", "n3"), ("n2",))],
    ids=["one is missing", "they do not know each other"],
)
def test_a_cluster_is_not_founded_when(peers, known):
    lab, nonce = empty_node()
    see_fresh(lab, nonce, peers, known)
    assert lab.replica.is_quarantined


def test_a_cluster_is_not_founded_when_a_member_remembers():
    lab, nonce = empty_node()
    see_fresh(lab, nonce, peers=("n2",))
    answer(lab, "n3", nonce, term=4, views={"n1": nonce, "n2": "n2-start", "n3": "n3-start"})
    see_fresh(lab, nonce, peers=("n2",))
    assert lab.replica.is_quarantined


def test_only_the_start_that_was_named_proceeds():
    lab, nonce = empty_node()
    lab.hear("n2", "proceed", nonces={"n1": "a former start", "n2": "x", "n3": "y"})
    assert lab.replica.is_quarantined
    lab.hear("n2", "proceed", nonces={"n1": nonce, "n2": "x", "n3": "y"})
    assert not lab.replica.is_quarantined


def test_a_founder_passes_the_word_on_to_a_named_start_that_missed_it():
    lab, nonce = empty_node()
    see_fresh(lab, nonce)
    lab.sent()
    lab.hear("n3", "rejoin", nonce="n3-start", views={})
    assert len(lab.sent("n3", "proceed")) == 1
    lab.hear("n3", "rejoin", nonce="a later start", views={})
    assert lab.sent("n3", "proceed") == []


def test_the_operators_override_founds_with_a_majority():
    lab, nonce = empty_node(bootstrap=True)
    see_fresh(lab, nonce, peers=("n2",))
    assert not lab.replica.is_quarantined
    (proceed,) = lab.sent("n2", "proceed")
    assert proceed["nonces"] == {"n1": nonce, "n2": "n2-start"}


def test_the_override_founds_nothing_against_a_member_that_remembers():
    lab, nonce = empty_node(bootstrap=True)
    answer(lab, "n3", nonce, term=4)
    see_fresh(lab, nonce, peers=("n2",))
    assert lab.replica.is_quarantined


def test_a_waiting_node_says_what_it_waits_for_once_in_five_seconds(caplog):
    lab = Lab(admitted=False)
    lab.replica.link_shut("n3")
    with caplog.at_level(logging.WARNING, "coordinator.consensus"):
        lab.pass_s(16)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3
    assert all(text.startswith("bootstrap_waiting node=n1 unreachable=n3") for text in told)


def test_a_peer_counts_as_quarantined_until_it_says_otherwise():
    lab = Lab(admitted=False)
    (quarantine,) = [cure for cure in lab.replica.cures if isinstance(cure, Quarantine)]
    assert not quarantine.peer_is_quarantined("n2")
    lab.hear("n2", "rejoin", nonce="n2-start", views={})
    assert quarantine.peer_is_quarantined("n2")
    lab.hear("n2", "admitted")
    assert not quarantine.peer_is_quarantined("n2")
