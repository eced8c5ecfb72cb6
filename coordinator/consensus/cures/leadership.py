"""Cures of leadership: `step-down` and `pre-vote`.

Decide when a leader stops believing in itself and when a follower may stand. Must not know logs
beyond their last entry.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.consensus.codec import Message
from coordinator.consensus.cures.base import Blueprint, Cure, Rewrite
from coordinator.consensus.library import logger

ASK_INTERVAL_S: Final = 0.1
"""How often an unanswered pre-vote is repeated."""
ROUND_S: Final = 0.4
"""How long grants of one round count: above a slow link's round trip, below an election."""
BROKEN_LINK_JITTER_S: Final = 0.08
"""Followers see a killed leader at once; the first to ask should be done before the next asks."""
YIELD_S: Final = 0.15
"""Whoever granted a pre-vote lets the other finish before it asks itself."""


class StepDown(Cure):
    """A stale leader ends: by its own fallback time-out, and by being told the higher term."""

    name = "step-down"

    def prepare(self, blueprint: Blueprint) -> None:
        """Falls back before anyone else may be elected."""
        blueprint.settings["leaderFallbackTimeout"] = blueprint.config.fallback_timeout_s

    def incoming(self) -> Mapping[str, Rewrite]:
        """Appends of a former term are answered; the answer is obeyed."""
        return {"append_entries": self._answer_stale, "higher_term": self._obey}

    def _answer_stale(self, peer: str, message: Message) -> Message | None:
        term = self.replica.engine.term
        if message["term"] >= term:
            return message
        self.replica.send(peer, {"type": "higher_term", "term": term})
        return None

    def _obey(self, peer: str, message: Message) -> None:
        engine = self.replica.engine
        if message["term"] > engine.term:
            logger.info(
                "higher_term_told node=%s by=%s term=%d former=%d",
                self.replica.name,
                peer,
                message["term"],
                engine.term,
            )
            engine.enter_term(message["term"], None)


class PreVote(Cure):
    """Votes are sought only after a majority said it would give them.

    They are granted only by nodes that hear no live leader, so a node with one bad link cannot
    depose a leader through the third. A handed-over leadership skips the question.
    """

    name = "pre-vote"

    def __init__(self) -> None:
        self._heard_at_s: float | None = None
        self._round = 0
        self._round_term = 0
        self._round_ends_s = 0.0
        self._ask_next_s = 0.0
        self._granted: set[str] = set()
        self._transfer_term = 0

    def incoming(self) -> Mapping[str, Rewrite]:
        """The two messages of a pre-vote, and what a live leader is known by."""
        return {
            "append_entries": self._hear,
            "request_vote": self._stick,
            "pre_vote": self._consider,
            "pre_vote_ok": self._count,
        }

    def outgoing(self) -> Mapping[str, Rewrite]:
        """A handed-over candidacy says so."""
        return {"request_vote": self._mark_transfer}

    def _hear(self, _peer: str, message: Message) -> Message:
        if message["term"] >= self.replica.engine.term:
            self._heard_at_s = self.replica.now
        return message

    def _has_live_leader(self) -> bool:
        if self.replica.engine.is_leader:
            return True
        shortest = self.replica.config.election_timeout_s[0]
        return self._heard_at_s is not None and self.replica.now - self._heard_at_s < shortest

    def _stick(self, _peer: str, message: Message) -> Message | None:
        if message.get("transfer"):
            return message
        return None if self._has_live_leader() else message

    def _mark_transfer(self, _peer: str, message: Message) -> Message:
        if message["term"] == self._transfer_term:
            return {**message, "transfer": True}
        return message

    def may_stand(self) -> bool:
        """True once a majority granted the next term; asks otherwise."""
        replica = self.replica
        term = replica.engine.term + 1
        if replica.engine.is_transfer_target:
            self._transfer_term = term
            return True
        if not replica.peers:
            return True
        if self._round_term == term and replica.now < self._round_ends_s:
            if replica.is_majority(len(self._granted) + 1):
                self._round_term = 0
                self._granted.clear()
                return True
        else:
            self._round += 1
            self._round_term = term
            self._round_ends_s = replica.now + ROUND_S
            self._granted.clear()
            self._ask_next_s = replica.now
        if replica.now >= self._ask_next_s:
            self._ask_next_s = replica.now + ASK_INTERVAL_S
            self._ask(term)
        return False

    def _ask(self, term: int) -> None:
        engine = self.replica.engine
        for peer in self.replica.peers:
            if peer not in self._granted:
                self.replica.send(
                    peer,
                    {
                        "type": "pre_vote",
                        "term": term,
                        "round": self._round,
                        "last_log_index": engine.last_index,
                        "last_log_term": engine.last_term,
                    },
                )

    def _consider(self, peer: str, message: Message) -> None:
        engine = self.replica.engine
        if message["term"] <= engine.term:
            # The asker is behind; without this it would ask for ever in a term that is over.
            if not self._has_live_leader():
                self.replica.send(peer, {"type": "higher_term", "term": engine.term})
            return
        offered = (message["last_log_term"], message["last_log_index"])
        if self._has_live_leader() or offered < (engine.last_term, engine.last_index):
            return
        is_asking = self._round_term == engine.term + 1 and self.replica.now < self._round_ends_s
        if not (is_asking and self.replica.name < peer):  # of two that ask at once one goes on
            later = self.replica.now + YIELD_S
            engine.set_election_deadline(max(engine.election_deadline_s, later))
        self.replica.send(
            peer, {"type": "pre_vote_ok", "term": message["term"], "round": message["round"]}
        )

    def _count(self, peer: str, message: Message) -> None:
        if message["term"] == self._round_term and message["round"] == self._round:
            self._granted.add(peer)

    def link_shut(self, peer: str) -> None:
        """A broken link to the leader is the fastest sign of its death: ask at once."""
        engine = self.replica.engine
        if engine.leader != peer or engine.is_leader:
            return
        self._heard_at_s = None
        soon = self.replica.now + self.replica.rng.uniform(0.0, BROKEN_LINK_JITTER_S)
        engine.set_election_deadline(min(engine.election_deadline_s, soon))
