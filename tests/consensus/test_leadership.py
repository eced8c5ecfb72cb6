"""What `step-down`, `pre-vote` and the leadership probe do, one message at a time."""

import pytest

from coordinator.consensus import ConsensusError
from coordinator.consensus.probe import CROWD, MANY, PACE_S
from tests.consensus.lab import Lab, entry

# step-down


@pytest.mark.parametrize(("without", "leads"), [((), False), (("step-down",), True)])
def test_a_leader_nobody_answers_ends_within_the_shortest_election_only_with_the_cure(
    without, leads
):
    lab = Lab(*without)
    lab.lead()
    lab.pass_s(0.5)
    assert lab.engine.is_leader is leads


@pytest.mark.parametrize(("without", "told"), [((), [3]), (("step-down",), [])])
def test_a_stale_leader_is_told_the_higher_term_only_with_the_cure(without, told):
    lab = Lab(*without)
    lab.follow(term=3, leader="n3")
    lab.sent()
    lab.follow(term=2, leader="n2")
    assert [m["term"] for m in lab.sent("n2", "higher_term")] == told


@pytest.mark.parametrize(("without", "leads"), [((), False), (("step-down",), True)])
def test_a_leader_that_is_told_a_higher_term_ends_only_with_the_cure(without, leads):
    lab = Lab(*without)
    term = lab.lead()
    lab.hear("n2", "higher_term", term=term + 1)
    assert lab.engine.is_leader is leads


def test_a_lower_term_that_is_told_changes_nothing():
    lab = Lab()
    term = lab.lead()
    lab.hear("n2", "higher_term", term=term)
    assert lab.engine.is_leader


# pre-vote


@pytest.mark.parametrize(("without", "climbs"), [((), False), (("pre-vote",), True)])
def test_a_node_nobody_would_vote_for_leaves_the_term_alone_only_with_the_cure(without, climbs):
    lab = Lab(*without)
    lab.follow(term=1)
    lab.pass_s(10)
    assert (lab.engine.term > 5) is climbs
    assert (lab.engine.term == 1) is not climbs


def test_a_majority_of_pre_votes_makes_a_candidate_and_one_of_another_round_does_not():
    lab = Lab()
    lab.follow(term=1)
    lab.pass_s(1.2)
    asked = lab.sent("n2", "pre_vote")[-1]
    lab.hear("n2", "pre_vote_ok", term=asked["term"], round=asked["round"] - 1)
    lab.pass_s(0.03)
    assert lab.engine.term == 1
    asked = lab.sent("n2", "pre_vote")[-1:] or [asked]
    lab.hear("n2", "pre_vote_ok", term=2, round=asked[0]["round"])
    lab.pass_s(0.03)
    assert lab.engine.term == 2
    assert len(lab.sent("n3", "request_vote")) == 1


def ask(lab, *, term=2, index=9, last_term=1, kind="pre_vote", **more):
    fields = {"term": term, "last_log_index": index, "last_log_term": last_term, **more}
    if kind == "pre_vote":
        fields["round"] = 4
    lab.hear("n3", kind, **fields)


def granted(lab):
    return [(m["type"], m["term"]) for m in lab.sent("n3") if m["type"] != "pre_vote"]


def test_a_pre_vote_is_granted_only_when_no_live_leader_is_heard():
    lab = Lab()
    lab.follow(term=1)
    lab.sent()
    ask(lab)
    assert granted(lab) == []
    lab.now += 0.6
    ask(lab)
    assert granted(lab) == [("pre_vote_ok", 2)]


def test_a_leader_grants_no_pre_vote():
    lab = Lab()
    term = lab.lead()
    ask(lab, term=term + 1, last_term=term)
    assert granted(lab) == []


def test_a_pre_vote_is_not_granted_to_a_shorter_log():
    lab = Lab()
    lab.follow(term=1, entries=[entry(2, 1), entry(3, 1)])
    lab.sent()
    lab.now += 0.6
    ask(lab, index=2)
    assert granted(lab) == []


def test_whoever_asks_in_a_term_that_is_over_is_told_the_term():
    lab = Lab()
    lab.follow(term=5)
    lab.sent()
    lab.now += 0.6
    ask(lab, term=4)
    assert granted(lab) == [("higher_term", 5)]


@pytest.mark.parametrize(("without", "term"), [((), 1), (("pre-vote",), 2)])
def test_a_vote_request_does_not_disturb_a_live_leadership_only_with_the_cure(without, term):
    lab = Lab(*without)
    lab.follow(term=1)
    ask(lab, kind="request_vote")
    assert lab.engine.term == term


def test_a_handed_over_candidacy_is_voted_for_despite_the_live_leader():
    lab = Lab()
    lab.follow(term=1)
    lab.sent()
    ask(lab, kind="request_vote", transfer=True)
    assert granted(lab) == [("response_vote", 2)]


def test_the_leaders_word_makes_a_follower_stand_at_once_without_a_pre_vote():
    lab = Lab()
    lab.follow(term=1, leader="n2")
    lab.sent()
    lab.hear("n3", "timeout_now", term=1)  # not the leader
    lab.step()
    assert lab.engine.term == 1
    lab.hear("n2", "timeout_now", term=1)
    lab.step()
    (request,) = lab.sent("n3", "request_vote")
    assert (request["term"], request["transfer"]) == (2, True)


def test_a_broken_link_to_the_leader_starts_the_pre_vote_at_once():
    lab = Lab()
    lab.follow(term=1, leader="n2")
    lab.sent()
    lab.replica.link_shut("n2")
    lab.pass_s(0.1, step_s=0.01)
    assert len(lab.sent("n3", "pre_vote")) >= 1
    assert lab.replica.leader is None


def test_a_broken_link_to_another_follower_starts_nothing():
    lab = Lab()
    lab.follow(term=1, leader="n2")
    lab.sent()
    lab.replica.link_shut("n3")
    lab.pass_s(0.2, step_s=0.01)
    assert lab.sent("n2", "pre_vote") == []


# The probe.


def probing(lab):
    answers = []
    lab.replica.confirm(answers.append)
    return answers


def test_a_leadership_is_confirmed_by_one_follower_of_two():
    lab = Lab()
    term = lab.lead()
    answers = probing(lab)
    lab.step()
    (probe,) = lab.sent("n2", "probe")
    assert answers == []
    lab.hear("n2", "probe_ack", id=probe["id"], term=term)
    assert answers == [term]


def test_whoever_asks_during_a_round_shares_the_next():
    lab = Lab()
    term = lab.lead()
    first = [probing(lab) for _ in range(10)]
    lab.step()
    (probe,) = lab.sent("n2", "probe")
    late = [probing(lab) for _ in range(10)]
    lab.step()
    assert lab.sent("n2", "probe") == []
    lab.hear("n2", "probe_ack", id=probe["id"], term=term)
    assert first == [[term]] * 10
    assert late == [[]] * 10
    lab.pass_s(PACE_S)
    (probe,) = lab.sent("n2", "probe")
    lab.hear("n2", "probe_ack", id=probe["id"] - 1, term=term)  # the answer to a former question
    assert late == [[]] * 10
    lab.hear("n2", "probe_ack", id=probe["id"], term=term)
    assert late == [[term]] * 10


def test_of_a_stream_of_callers_each_round_waits_for_more_and_of_single_ones_none():
    lab = Lab()
    term = lab.lead()
    for callers in (1, MANY - 1, MANY):  # each begins at once, so soon after the one before
        answers = [probing(lab) for _ in range(callers)]
        assert lab.replica.probe.due_s(lab.now) == 0.0
        lab.step()
        (probe,) = lab.sent("n2", "probe")
        assert lab.replica.probe.due_s(lab.now) is None, "the answer brings the next step"
        lab.hear("n2", "probe_ack", id=probe["id"], term=term)
        assert answers == [[term]] * callers
    alone = probing(lab)
    due_s = lab.replica.probe.due_s(lab.now)
    assert due_s == pytest.approx(PACE_S, rel=0.1)
    lab.step()
    assert lab.sent("n2", "probe") == []
    lab.now += due_s
    lab.step()
    (probe,) = lab.sent("n2", "probe")
    lab.hear("n2", "probe_ack", id=probe["id"], term=term)
    assert alone == [term]
    probing(lab)
    assert lab.replica.probe.due_s(lab.now) == 0.0, "the stream has ended"


def test_who_has_patience_shares_a_round_with_who_has_none_and_a_crowd_is_enough():
    lab = Lab()
    term = lab.lead()
    probe = lab.replica.probe
    patient = []
    lab.replica.confirm(patient.append, lab.now + 0.01)
    lab.step()
    assert lab.sent("n2", "probe") == []
    assert probe.due_s(lab.now) == pytest.approx(0.01, rel=0.1)
    at_once = probing(lab)
    lab.step()
    (asked,) = lab.sent("n2", "probe")
    lab.hear("n2", "probe_ack", id=asked["id"], term=term)
    assert at_once == patient == [term]
    for others in range(CROWD):
        assert (probe.due_s(lab.now) or 0.0) > 0.0 or not others
        lab.replica.confirm(patient.append, lab.now + 0.01)
    assert probe.due_s(lab.now) == 0.0
    lab.step()
    (asked,) = lab.sent("n2", "probe")
    lab.hear("n2", "probe_ack", id=asked["id"], term=term)
    assert patient == [term] * (CROWD + 1)
    lab.replica.confirm(patient.append, lab.now + 0.01)
    lab.now += 0.01
    lab.step()
    assert len(lab.sent("n2", "probe")) == 1, "patience has an end"


def test_no_round_waits_for_more_where_there_is_nobody_to_ask():
    lab = Lab()
    lab.lead()
    lab.replica.peers = ()
    for _ in range(3):
        answers = [probing(lab) for _ in range(MANY)]
        lab.step()
        assert all(answers)


def test_a_swallowed_probe_is_repeated():
    lab = Lab()
    lab.lead()
    probing(lab)
    lab.step()
    lab.sent()
    lab.pass_s(0.12)
    assert len(lab.sent("n2", "probe")) == 1


def test_a_lost_leadership_is_not_confirmed():
    lab = Lab()
    term = lab.lead()
    in_flight = probing(lab)
    lab.step()
    waiting = probing(lab)
    lab.hear("n2", "higher_term", term=term + 1)
    lab.step()
    assert in_flight == [None]
    assert waiting == [None]


def test_a_leader_without_an_applied_entry_of_its_term_is_not_confirmed():
    lab = Lab()
    lab.follow(term=1)
    lab.pass_s(1.2)
    asked = lab.sent("n2", "pre_vote")[-1]
    lab.hear("n2", "pre_vote_ok", term=2, round=asked["round"])
    lab.step()
    lab.hear("n2", "response_vote", term=2)
    assert lab.engine.is_leader
    answers = probing(lab)
    lab.step()
    assert lab.sent("n2", "probe") == []
    lab.acknowledge("n2")
    lab.step()
    (probe,) = lab.sent("n2", "probe")
    lab.hear("n2", "probe_ack", id=probe["id"], term=2)
    assert answers == [2]


def test_a_follower_answers_the_probe_of_its_leader_of_this_term_only():
    lab = Lab()
    lab.follow(term=2, leader="n2")
    lab.sent()
    lab.hear("n3", "probe", id=1, term=2)
    lab.hear("n2", "probe", id=2, term=1)
    assert lab.sent(kind="probe_ack") == []
    lab.hear("n2", "probe", id=3, term=2)
    assert [m["id"] for m in lab.sent("n2", "probe_ack")] == [3]


def test_a_follower_refuses_to_propose_at_once():
    lab = Lab()
    lab.follow(term=1)
    with pytest.raises(ConsensusError, match="not the leader \\(leader: n2\\)"):
        lab.propose()
