"""The cure of lost memory: `quarantine`.

Decides whether this node may take part in elections and acknowledgements. A node that starts
empty may have voted and acknowledged before; it must do neither until it knows what it may have
promised. Must not know sockets or how a log is replicated.

Three ways out. *Rejoin*: every other member answered this start's nonce with its term, and this
node applied an entry of a leader whose term is at least all of those. *Founding*: all members are
fresh and know each other's nonces, so nobody can have promised anything. *Override*: the operator
said to found the cluster with the majority that is there.

A node that kept a journal forgot nothing, and starts where it stopped: admitted, or still waiting.

*Adoption*: a survivor whose others are lost for good (`survivor.py`) tells empty members that there
is nobody else to wait for. Such a member takes in what the survivor says and votes for it alone,
until it is caught up. Of each name one memory is adopted, noted before it is told: a former one of
that name may have been admitted, and what it promised then may bind others.

A node is fresh while its term is zero: whoever voted or stood has a higher one, and so has the
candidate that was voted for, even after the voter forgot.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator.consensus.codec import Message
from coordinator.consensus.cures.base import Cure, Rewrite, Seen
from coordinator.consensus.library import logger

ASK_INTERVAL_S: Final = 0.1
"""As often as a heartbeat: a restart costs one round trip and this at most."""
TELL_INTERVAL_S: Final = 5.0
"""How often a waiting node says what it waits for."""
FOUNDING_JITTER_S: Final = (0.02, 0.15)
"""Founders are admitted within a round trip; the first to stand should be done before the next."""
ASKING_AGE_S: Final = 0.5
"""A peer that asked within five intervals is still in quarantine."""


@dataclass(frozen=True, slots=True)
class _Answer:
    term: int
    fresh: bool
    admitted: bool
    views: Mapping[str, str]


class Quarantine(Cure):
    """An empty node neither votes, stands nor acknowledges until it cannot contradict itself."""

    name = "quarantine"

    def __init__(self) -> None:
        self._nonce = ""
        self._is_override = False
        self._is_sole = False
        """Alone with its state: all other members are new, and none was admitted yet."""
        self._adopted: dict[str, str] = {}
        """The nonce of each member that was told so."""
        self._adopter: str | None = None
        self._nonces: dict[str, str] = {}
        self._answers: dict[str, _Answer] = {}
        self._terms: dict[str, int] = {}
        self._founders: dict[str, str] | None = None
        self._outdated_by: set[str] = set()
        self._asked_at: dict[str, float] = {}
        self._ask_next_s = 0.0
        self._tell_next_s: float | None = None
        self._leader_commit: tuple[str, int, int] | None = None

    def attach(self, replica: Any) -> None:
        """Starts in quarantine under a new nonce."""
        super().attach(replica)
        # The nonce names a memory, not a process: a journal that is whole brings its own along.
        notes = replica.engine.log.notes
        self._nonce = notes.get("nonce") or f"{replica.rng.getrandbits(64):016x}"
        self._nonces[replica.name] = self._nonce
        if "founders" in notes:
            self._founders = json.loads(notes["founders"])
        self._is_override = replica.config.bootstrap
        self._is_sole = notes.get("sole") == "1"
        self._adopted = json.loads(notes.get("adopted", "{}"))
        if notes.get("admitted") == self._nonce:
            self._nonces.update(json.loads(notes.get("nonces", "{}")))
            return
        replica.engine.log.note("nonce", self._nonce)
        replica.is_quarantined = True
        if not replica.peers:
            self._stand_soon()

    def incoming(self) -> Mapping[str, Rewrite]:
        """While in quarantine votes are withheld; until all answered, everything is."""
        return {
            "append_entries": self._screen_append,
            "request_vote": self._withhold_vote,
            "pre_vote": self._withhold_vote,
            "timeout_now": self._withhold,
            "higher_term": self._withhold_unanswered,
            "probe": self._withhold,
            "rejoin": self._answer,
            "rejoin_ack": self._learn,
            "proceed": self._proceed,
            "admitted": self._note_admitted,
            "outdated": self._note_outdated,
        }

    def delivered(self) -> Mapping[str, Seen]:
        """After each step of the log this node may be caught up."""
        return {}

    def may_stand(self) -> bool:
        """Not in quarantine."""
        return not self.replica.is_quarantined

    def members_moved(self, moved: Iterable[str]) -> None:
        """What a former process answered may be older than what its successor promised."""
        if self.replica.is_quarantined:
            for member in moved:
                self._answers.pop(member, None)
                self._terms.pop(member, None)

    def peer_is_quarantined(self, peer: str) -> bool:
        """The peer asked for answers a moment ago."""
        asked = self._asked_at.get(peer)
        return asked is not None and self.replica.now - asked < ASKING_AGE_S

    # Withholding.

    def _withhold(self, _peer: str, message: Message) -> Message | None:
        return None if self.replica.is_quarantined else message

    def _withhold_vote(self, peer: str, message: Message) -> Message | None:
        return message if peer == self._adopter else self._withhold(peer, message)

    def _withhold_unanswered(self, _peer: str, message: Message) -> Message | None:
        if self.replica.is_quarantined and not self._all_answered():
            return None
        return message

    def _screen_append(self, peer: str, message: Message) -> Message | None:
        if not self.replica.is_quarantined:
            return message
        if not self._all_answered():
            return None  # an acknowledgement might contradict a forgotten vote
        if "prevLogIdx" in message:
            self._leader_commit = (peer, message["term"], message["commit_index"])
        return message

    def _all_answered(self) -> bool:
        return len(self._terms) == len(self.replica.peers)

    # Asking and answering.

    def before_step(self) -> None:
        """Asks every peer from time to time, and says what is missing."""
        replica = self.replica
        if not replica.is_quarantined or replica.now < self._ask_next_s:
            return
        self._ask_next_s = replica.now + ASK_INTERVAL_S
        for peer in replica.peers:
            replica.send(peer, {"type": "rejoin", "nonce": self._nonce, "views": self._nonces})
        self._tell()

    def after_step(self) -> None:
        """Leaves when the entry that the leader said is committed was applied here."""
        replica = self.replica
        if not replica.is_quarantined or self._leader_commit is None:
            return
        peer, term, commit = self._leader_commit
        engine = replica.engine
        if (
            term == engine.term
            and engine.leader == peer
            and term >= max(self._terms.values(), default=0)
            and engine.entry_term(commit) == term
            and engine.applied_index >= commit
        ):
            # Its vote of this term may be spent already; so it is, on the leader of the term.
            engine.spend_vote(peer)
            self._admit("caught up")

    def _answer(self, peer: str, message: Message) -> None:
        replica = self.replica
        nonce = message["nonce"]
        if self._nonces.get(peer) != nonce:
            self._know(peer, nonce)
            if replica.engine.is_leader:
                # What the former life acknowledged is gone.
                replica.engine.match_index[self.replica.members[peer]] = 0
        self._asked_at[peer] = replica.now
        if self._founders is not None and self._founders.get(peer) == nonce:
            replica.send(peer, {"type": "proceed", "nonces": self._founders})
        answer: Message = {
            "type": "rejoin_ack",
            "nonce": nonce,
            "own": self._nonce,
            "term": replica.engine.term,
            "fresh": self._is_fresh(),
            "admitted": not replica.is_quarantined,
            "views": self._nonces,
        }
        replica.send(peer, answer | {"adopts": True} if self._adopts(peer, nonce) else answer)

    def _adopts(self, peer: str, nonce: str) -> bool:
        if not self._is_sole:
            return False
        if peer not in self._adopted:
            self._adopted[peer] = nonce
            self.replica.engine.log.note("adopted", json.dumps(self._adopted))
        return self._adopted[peer] == nonce

    def _learn(self, peer: str, message: Message) -> None:
        replica = self.replica
        self._know(peer, message["own"])
        if message["nonce"] != self._nonce or not replica.is_quarantined:
            return
        answer = _Answer(
            message["term"], message["fresh"], message["admitted"], dict(message["views"])
        )
        self._answers[peer] = answer
        if message.get("adopts") and self._adopter is None:
            self._adopter = peer
            for member in replica.peers:
                self._terms.setdefault(member, answer.term)
            self._adopt_term()
        if answer.admitted and not self._all_answered():
            self._terms[peer] = answer.term
            if self._all_answered():
                self._adopt_term()
        if answer.fresh and self._is_fresh():
            self._found()

    def _adopt_term(self) -> None:
        highest = max(self._terms.values())
        if highest > self.replica.engine.term:
            self.replica.engine.enter_term(highest, None)
        logger.info("rejoin_answered node=%s term=%d", self.replica.name, highest)

    # Founding.

    def _is_fresh(self) -> bool:
        engine = self.replica.engine
        return engine.term == 0 and engine.last_index == 1

    def _found(self) -> None:
        """Proceeds with the members that are fresh, if they are enough and know each other."""
        replica = self.replica
        if any(not answer.fresh for answer in self._answers.values()):
            return
        group = sorted([replica.name, *self._answers])
        members = len(replica.peers) + 1
        needed = members // 2 + 1 if self._is_override else members
        nonces = {name: self._nonces[name] for name in group}
        # Each answer was given when its sender knew these very starts: no forgotten vote is
        # younger than an answer.
        agree = all(
            {name: answer.views.get(name) for name in group} == nonces
            for answer in self._answers.values()
        )
        if len(group) < needed or not agree:
            return
        self._name_founders(nonces)
        for peer in replica.peers:
            replica.send(peer, {"type": "proceed", "nonces": nonces})
        self._stand_soon()

    def _proceed(self, _peer: str, message: Message) -> None:
        nonces = message["nonces"]
        if not self.replica.is_quarantined or not self._is_fresh():
            return
        if nonces.get(self.replica.name) == self._nonce:
            self._name_founders(dict(nonces))
            self._stand_soon()

    def _name_founders(self, nonces: dict[str, str]) -> None:
        self._founders = nonces
        self.replica.engine.log.note("founders", json.dumps(nonces))
        for name, nonce in nonces.items():
            self._know(name, nonce)

    # Old copies of a journal.

    def _know(self, peer: str, nonce: str) -> None:
        self._nonces[peer] = nonce
        self.replica.engine.log.note("nonces", json.dumps(self._nonces))

    def link_opened(self, peer: str) -> None:
        """The first word on a link: with which memory this node takes part."""
        if not self.replica.is_quarantined:
            self.replica.send(peer, {"type": "admitted", "nonce": self._nonce})

    def link_shut(self, peer: str) -> None:
        """Whoever comes next may have another memory."""
        self.replica.distrusted.discard(peer)

    def _note_admitted(self, peer: str, message: Message) -> None:
        self._asked_at.pop(peer, None)
        nonce = message.get("nonce")
        if self._is_sole and nonce == self._nonces.get(peer):
            self._is_sole = False  # from here on there are two who know
            self.replica.engine.log.note("sole", "")
        if nonce is None or self._nonces.get(peer) == nonce:
            return
        if self.replica.is_quarantined or peer not in self._nonces:
            self._know(peer, nonce)
            return
        # Every admitted member answered a new memory before that was admitted, so this one is an
        # older one: a journal that was put back, or used again after a life without it.
        logger.error("memory_outdated node=%s peer=%s", self.replica.name, peer)
        self.replica.send(peer, {"type": "outdated"})
        self.replica.distrusted.add(peer)

    def _note_outdated(self, peer: str, _message: Message) -> None:
        # One peer alone may be the one whose memory is old.
        self._outdated_by.add(peer)
        log = self.replica.engine.log
        if log.is_durable and self.replica.is_majority(len(self._outdated_by)):
            self.replica.fail(
                f"{log.path} is older than what the other members know of this node; move its "
                "folder away and start again: the node comes back empty and is caught up"
            )

    def _stand_soon(self) -> None:
        # There is no leader to wait for: the first of the founders stands at once.
        soon_s = self.replica.now + self.replica.rng.uniform(*FOUNDING_JITTER_S)
        self.replica.engine.set_election_deadline(soon_s)
        self._admit("founded")

    def _admit(self, how: str) -> None:
        self.replica.is_quarantined = False
        self.replica.engine.log.note("admitted", self._nonce)
        for peer in self.replica.peers:
            self.replica.send(peer, {"type": "admitted", "nonce": self._nonce})
        logger.info("quarantine_left node=%s how=%r", self.replica.name, how)

    def _tell(self) -> None:
        replica = self.replica
        if self._tell_next_s is None:  # a start within the first interval needs no words
            self._tell_next_s = replica.now + TELL_INTERVAL_S
        if replica.now < self._tell_next_s:
            return
        self._tell_next_s = replica.now + TELL_INTERVAL_S
        unreachable = [peer for peer in replica.peers if peer not in replica.links]
        if all(answer.fresh for answer in self._answers.values()) and self._is_fresh():
            logger.warning(
                "bootstrap_waiting node=%s unreachable=%s: every member must be up once, or start "
                "one with --bootstrap",
                replica.name,
                ",".join(unreachable) or "none",
            )
            return
        missing = [peer for peer in replica.peers if peer not in self._terms]
        logger.warning(
            "rejoin_waiting node=%s unanswered=%s leader=%s",
            replica.name,
            ",".join(missing) or "none",
            replica.engine.leader,
        )
