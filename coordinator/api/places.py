"""What a connection tells whoever counts connections, and asks of it.

It decides nothing: who is let in, and who goes first when places are short, is `listen`'s to say.
"""

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from coordinator.api.conversation import Conversation


class Admission(Enum):
    """What becomes of a new connection."""

    FULL = "full"
    """There is no place for it."""
    LATER = "later"
    """It has a place, and is served when it is told to `begin`."""
    NOW = "now"


class Places(Protocol):
    """Who counts connections."""

    def admit(self, conversation: "Conversation", peer: Any) -> Admission:
        """Whether there is a place for one more; it is taken then."""

    def asked(self, conversation: "Conversation") -> None:
        """It has asked something: it is no longer the first to go when places are short."""

    def has_room(self, conversation: "Conversation", size: int) -> bool:
        """Whether so much more that it said before its turn can be kept."""

    def refused(self, conversation: "Conversation") -> None:
        """Its caller took a node's time for nothing: a sign of one that means no good."""

    def let_go(self, conversation: "Conversation") -> None:
        """It has had its last answer and only has to read it: it is the first to go."""

    def ended(self, conversation: "Conversation") -> None:
        """Its place is free."""
