"""What a cure may do: the hooks a replica offers, all of them empty here.

Decides nothing. The hooks of a message run in the order of composition; the first that answers
None ends it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from coordinator.consensus.codec import Message
from coordinator.consensus.contract import ConsensusConfig
from coordinator.consensus.link_policy import LinkPolicy
from coordinator.consensus.memory_log import MemoryLog
from coordinator.consensus.snapshots import SnapshotStore

if TYPE_CHECKING:
    from coordinator.consensus.replica import Replica

Rewrite = Callable[[str, Message], Message | None]
"""(peer, message) -> the message to go on with, or None to end it here."""
Seen = Callable[[str, Message], None]
Hook = TypeVar("Hook")


@dataclass(slots=True)
class Blueprint:
    """What a replica is made of, before it is made; each cure may change it."""

    config: ConsensusConfig
    settings: dict[str, Any]
    log: MemoryLog
    snapshots: SnapshotStore
    apply: Callable[[int, bytes], object]
    entry_bytes_max: int | None = None
    in_flight_max: int | None = None
    log_bytes_max: int | None = None
    links: LinkPolicy = field(default_factory=LinkPolicy)


class Cure:
    """A cure without effect. `name` is what `--without` takes."""

    name: ClassVar[str] = ""
    replica: "Replica"

    def prepare(self, blueprint: Blueprint) -> None:
        """Changes what the replica is made of."""

    def attach(self, replica: "Replica") -> None:
        """Called once, when the replica is made and nothing has happened yet."""
        self.replica = replica

    def incoming(self) -> Mapping[str, Rewrite]:
        """Hooks by message type, before the library sees the message."""
        return {}

    def delivered(self) -> Mapping[str, Seen]:
        """Hooks by message type, after the library saw it."""
        return {}

    def outgoing(self) -> Mapping[str, Rewrite]:
        """Hooks by message type on what the library sends; "*" is every type."""
        return {}

    def may_stand(self) -> bool:
        """Asked when the election deadline has passed; every cure must agree."""
        return True

    def link_opened(self, peer: str) -> None:
        """A link to this peer is up."""

    def link_shut(self, peer: str) -> None:
        """The link to this peer is gone, with what was in it."""

    def members_moved(self, moved: Iterable[str]) -> None:
        """These members are other processes than before, at other addresses."""

    def peer_is_quarantined(self, peer: str) -> bool:  # noqa: ARG002 - a hook
        """True when this cure knows that the peer may not take part yet."""
        return False

    def before_step(self) -> None:
        """Each step, before the library's tick."""

    def after_step(self) -> None:
        """Each step, after the library's tick and before anything is flushed."""


def overrides(cure: Cure, hook: str) -> bool:
    """Whether a cure does anything in this hook."""
    return getattr(type(cure), hook) is not getattr(Cure, hook)


def by_type(tables: Iterable[Mapping[str, Hook]]) -> dict[str, tuple[Hook, ...]]:
    """The hooks of several cures for each type of message, in their order."""
    hooks: dict[str, tuple[Hook, ...]] = {}
    for table in tables:
        for kind, hook in table.items():
            hooks[kind] = (*hooks.get(kind, ()), hook)
    return hooks
