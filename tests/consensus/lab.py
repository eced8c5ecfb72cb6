"""One replica under a lamp: its peers are played by the test, its clock is set by hand."""

import random

from coordinator.consensus import ConsensusConfig
from coordinator.consensus.codec import decode_message
from coordinator.consensus.cures.base import Cure
from coordinator.consensus.cures.durable import Durable
from coordinator.consensus.cures.quarantine import Quarantine
from coordinator.consensus.library import Member
from coordinator.consensus.node import CURES
from coordinator.consensus.replica import Replica
from tests.consensus.cluster import Register


class Lab:
    """The replica n1 of n1, n2, n3. `without` leaves cures out; `admitted` skips quarantine.

    With a `disk` it lives on that disk, as long as `durable` is not left out.
    """

    def __init__(
        self, *without, admitted=True, machine=None, rig=None, seed=1, disk=None, **settings
    ):
        names = {cure.name for cure in CURES}
        assert set(without) <= names, without
        left_out = set(without) | ({Quarantine.name} if admitted else set())
        self.now = 100.0
        self.machine = machine or Register()
        composed = [cure for cure in CURES if cure.name not in left_out]
        cures = [cure(disk) if disk and cure is Durable else cure() for cure in composed]
        self.replica = Replica(
            ConsensusConfig(
                name="n1",
                peers={name: f"{name}:1" for name in ("n1", "n2", "n3")},
                api_url="",
                **settings,
            ),
            self.machine,
            [*cures, *([rig] if rig else [])],
            rng=random.Random(seed),
            clock=self.read,
        )
        self.engine = self.replica.engine
        for peer in ("n2", "n3"):
            self.replica.link_opened(peer)
        self.answers = []

    def read(self):
        self.now += 1e-5  # loops that wait for time to pass must end
        return self.now

    def pass_s(self, seconds, step_s=0.03):
        """Time goes by in steps, and nobody answers."""
        end = self.now + seconds
        while self.now < end:
            self.now += step_s
            self.step()

    def step(self):
        self.replica.step()

    def hear(self, peer, kind, **fields):
        self.replica.receive(peer, {"type": kind, **fields})

    def sent(self, peer=None, kind=None):
        """What left since the last time it was asked for, in order."""
        taken = self.replica.take_outbox()
        return [
            message
            for to, frames in taken.items()
            for message in map(decode_message, frames)
            if peer in (None, to) and kind in (None, message["type"])
        ]

    # Roles.

    def follow(self, term=1, leader="n2", entries=(), prev=(1, 0), commit=1):
        """An append of a leader: follows it, with these entries."""
        self.hear(
            leader,
            "append_entries",
            term=term,
            commit_index=commit,
            entries=tuple(entries),
            prevLogIdx=prev[0],
            prevLogTerm=prev[1],
            stamp=term,
        )

    def lead(self):
        """Wins the next election with the votes of n2, and commits its first entry."""
        for _ in range(100):
            self.now += 0.03
            self.step()
            for message in self.sent("n2"):
                if message["type"] == "pre_vote":
                    asked = {"term": message["term"], "round": message["round"]}
                    self.hear("n2", "pre_vote_ok", **asked)
                elif message["type"] == "request_vote":
                    self.hear("n2", "response_vote", term=message["term"])
            if self.engine.is_leader:
                break
        assert self.engine.is_leader
        self.acknowledge("n2")
        self.step()
        assert self.replica.is_ready_leader
        self.sent()
        return self.engine.term

    def acknowledge(self, peer, index=None, term=None, *, reset=False, success=True):
        """A follower's answer; by default it has everything."""
        self.hear(
            peer,
            "next_node_idx",
            next_node_idx=(index or self.engine.last_index) + 1,
            reset=reset,
            success=success,
            stamp=term or self.engine.term,
        )

    def propose(self, payload=b"x"):
        self.replica.propose(payload, lambda result, error: self.answers.append((result, error)), 0)

    def match(self, peer):
        return self.engine.match_index[Member(peer)]

    def log(self):
        """(index, term) of every entry kept."""
        return [(index, term) for _, index, term in self.engine.log[:]]


def entry(index, term, payload=b"x"):
    """A log entry as it travels."""
    return (b"\0" + payload, index, term)


class Settings(Cure):
    """Not a cure: changes the library's settings for one test."""

    def __init__(self, **settings):
        self._settings = settings

    def prepare(self, blueprint):
        blueprint.settings.update(self._settings)
