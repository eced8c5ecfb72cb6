"""Where each member is: as configured, until a newer revision says that it was moved.

Decides which of two addresses counts, and so which of two processes of one name is the member.
Must not know connections. What a node learned is told in every hello, so that a node with an old
table finds the members that moved meanwhile.
"""

import json
from collections.abc import Mapping
from typing import Final

from coordinator.consensus.codec import Malformed
from coordinator.consensus.library import logger

Moved = Mapping[str, tuple[int, str]]
"""Member name -> (revision of its move, its address since)."""

MOVED_MAX: Final = 32
"""Told in one hello; more members than any cluster has."""
ADDRESS_CHARS_MAX: Final = 261
REVISION_MAX: Final = 1 << 62


class Addresses:
    """The Raft address of every member, this node included."""

    def __init__(self, own_name: str, configured: Mapping[str, str], noted: str | None) -> None:
        self._own_name = own_name
        self._configured = configured
        self._moved: dict[str, tuple[int, str]] = {}
        if noted is not None:
            self.learn(decode_moved(json.loads(noted)))

    @property
    def moved(self) -> Moved:
        """What is newer than the configuration."""
        return self._moved

    def of(self, member: str) -> str:
        """Where this member is."""
        moved = self._moved.get(member)
        return self._configured[member] if moved is None else moved[1]

    def learn(self, told: Moved) -> list[str]:
        """Takes what is newer; gives the members whose address is another now."""
        changed = []
        for member, (revision, address) in told.items():
            if member not in self._configured or revision <= self._moved.get(member, (0, ""))[0]:
                continue
            if address != self.of(member):
                changed.append(member)
                logger.info(
                    "member_moved node=%s member=%s from=%s to=%s revision=%d",
                    self._own_name,
                    member,
                    self.of(member),
                    address,
                    revision,
                )
            self._moved[member] = (revision, address)
        return changed

    def fault(self, member: str, said: str) -> str | None:
        """Why whoever says to be this member at that address is not it; None when it may be."""
        known = self.of(member)
        if said in ("", known):
            return None
        if member in self._moved:
            return (
                f"{member} was moved to {known}, and you are at {said}: you are its former "
                "process, to be stopped, unless POST /v1/cluster/members names your address"
            )
        return (
            f"{self._own_name} knows {member} at {known}, and you are at {said}: POST "
            "/v1/cluster/members tells of a move; otherwise node.peers must be alike on all nodes"
        )

    def note(self) -> str:
        """All that was learned, as text to keep."""
        return json.dumps(self._moved)


def decode_moved(said: object) -> Moved:
    """What a peer told of moved members; raises Malformed."""
    if type(said) is not dict or len(said) > MOVED_MAX:
        raise Malformed("moved members are a small map")
    moved: dict[str, tuple[int, str]] = {}
    for member, place in said.items():
        if type(member) is not str or type(place) not in (tuple, list) or len(place) != 2:
            raise Malformed("a moved member has a revision and an address")
        revision, address = place
        if type(revision) is not int or not 0 < revision < REVISION_MAX:
            raise Malformed("a revision is a positive number")
        if type(address) is not str or not 0 < len(address) <= ADDRESS_CHARS_MAX:
            raise Malformed("an address is a short string")
        moved[member] = (revision, address)
    return moved
