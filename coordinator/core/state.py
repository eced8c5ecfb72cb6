"""The replicated state of the whole cluster, and its one door: `ClusterState.apply`.

`apply` is total: a broken rule is a `Refused`, never an exception, since every node applies the
same entry and none may stop at it. Nothing here iterates a set or asks a clock.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.core.commands import (
    Applied,
    Bootstrap,
    Command,
    CreateNamespace,
    DeleteNamespace,
    Entry,
    ForceNewCluster,
    MoveMember,
    NamespaceCommand,
    Once,
    Outcome,
    Reason,
    Refused,
)
from coordinator.core.draft import Draft
from coordinator.core.image import NamespaceImage
from coordinator.core.invariants import namespace_faults
from coordinator.core.namespace import NamespaceState
from coordinator.core.rules import decide
from coordinator.core.rules.claims import open_window
from coordinator.core.shard import Shard
from coordinator.core.types import EPOCH_MAX, SHARDS_MAX, Namespace, NamespaceKind
from coordinator.core.window import ClaimWindow

ONCE_MAX: Final = 10_000
"""Idempotency keys remembered: an operator's retries come within minutes."""

NAMESPACES_MAX: Final = 1_000
"""Each costs a leader pass and a planner; a runaway of made-up names ends here."""


MEMBERS_MAX: Final = 32
"""Moved members; a cluster has three to seven, and each is named once."""

ADDRESS_CHARS_MAX: Final = 261
"""A host name of 253 characters with brackets and a port."""
URL_CHARS_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class MovedMember:
    """Where a member is since it was moved."""

    node: str
    raft: str
    api: str
    revision: int
    """Of the move: the highest says where it is now."""


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """All that a snapshot holds."""

    cluster_id: str
    next_epoch: int
    next_revision: int
    once: tuple[tuple[str, str, Outcome], ...]
    namespaces: tuple[NamespaceImage, ...]
    moved: tuple[MovedMember, ...] = ()
    former: tuple[tuple[str, float], ...] = ()
    former_id: str = ""
    format: int = 1


class ClusterState:
    """Namespaces, the epoch counter, the revision counter and remembered idempotency keys."""

    __slots__ = (
        "_once",
        "cluster_id",
        "format",
        "former",
        "former_id",
        "moved",
        "namespaces",
        "next_epoch",
        "next_revision",
    )

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.former_id = ""
        """Of the cluster that this one was forced to go on from."""
        self.namespaces: dict[str, NamespaceState] = {}
        self.moved: dict[str, MovedMember] = {}
        self.former: dict[str, float] = {}
        """The longest lease in each namespace that was deleted although somebody may still act."""
        self.format = 1
        """The newest format of a command that came; for whoever writes snapshots."""
        self.next_epoch = 1
        self.next_revision = 1
        self._once: dict[str, tuple[str, Outcome]] = {}

    def apply(self, entry: Entry) -> Outcome:
        """Carry out one replicated command.

        The same entries in the same order give the same state and the same outcomes on every node.
        """
        if isinstance(entry, Once):
            remembered = self._recall(entry)
            if remembered is not None:
                return remembered
            outcome = self._apply(entry.command)
            self._once[entry.key] = (entry.digest, outcome)
            while len(self._once) > ONCE_MAX:
                del self._once[next(iter(self._once))]
            return outcome
        return self._apply(entry)

    def check(self, entry: Entry) -> Outcome:
        """What `apply` would answer now; changes nothing."""
        if isinstance(entry, Once):
            return self._recall(entry) or self.check(entry.command)
        match entry:
            case Bootstrap():
                return self._check_bootstrap(entry)
            case ForceNewCluster():
                return self._check_force(entry)
            case CreateNamespace():
                return self._check_create(entry)
            case DeleteNamespace():
                return self._check_delete(entry)
            case MoveMember():
                return self._check_move(entry)
            case _:
                return self._decide(entry)[1]

    def remembers(self, key: str) -> bool:
        """Whether an order came under this idempotency key, and what became of it is known."""
        return key in self._once

    def _recall(self, once: Once) -> Outcome | None:
        if once.key not in self._once:
            return None
        digest, outcome = self._once[once.key]
        if digest == once.digest:
            return outcome
        return Refused(
            Reason.IDEMPOTENCY_KEY_REUSED,
            f"idempotency key {once.key!r} came with another request before",
        )

    def _apply(self, command: Command) -> Outcome:
        match command:
            case Bootstrap():
                outcome = self._check_bootstrap(command)
                if isinstance(outcome, Applied):
                    self.cluster_id = command.cluster_id
                    self.next_epoch = max(self.next_epoch, command.epoch_base)
                return outcome
            case ForceNewCluster():
                outcome = self._check_force(command)
                if isinstance(outcome, Applied) and outcome.created:
                    self._force(command)
                return outcome
            case CreateNamespace():
                outcome = self._check_create(command)
                if isinstance(outcome, Applied) and outcome.created:
                    self._create(command)
                return outcome
            case DeleteNamespace():
                outcome = self._check_delete(command)
                if isinstance(outcome, Applied):
                    self._delete(command.namespace)
                return outcome
            case MoveMember(node=node, raft=raft, api=api):
                outcome = self._check_move(command)
                if isinstance(outcome, Applied) and outcome.created:
                    self.moved[node] = MovedMember(node, raft, api, self._take_revision())
                return outcome
            case _:
                draft, outcome = self._decide(command)
                if isinstance(outcome, Applied) and draft is not None:
                    self._commit(draft)
                return outcome

    def _commit(self, draft: Draft) -> None:
        if draft.loads is not None:
            draft.base.loads = draft.loads
        elif not draft.is_empty:
            draft.base.commit(draft, self._take_revision())
            self.next_epoch = draft.next_epoch

    def _decide(self, command: NamespaceCommand) -> tuple[Draft | None, Outcome]:
        namespace = self.namespaces.get(command.namespace)
        if namespace is None:
            return None, Refused(Reason.NAMESPACE_NOT_FOUND, f"no namespace {command.namespace!r}")
        draft = Draft(namespace, self.next_epoch, getattr(command, "at_ms", 0))
        outcome = decide(draft, command)
        if draft.next_epoch > max(self.next_epoch, EPOCH_MAX + 1):
            return None, Refused(Reason.QUOTA_EXCEEDED, "the epoch counter is used up")
        return draft, outcome

    def _take_revision(self) -> int:
        revision = self.next_revision
        self.next_revision += 1
        return revision

    def _check_bootstrap(self, command: Bootstrap) -> Outcome:
        if self.cluster_id is not None:
            return Refused(Reason.CONFLICT, f"this is cluster {self.cluster_id!r} already")
        if not command.cluster_id or not 0 < command.epoch_base <= EPOCH_MAX:
            return Refused(Reason.INVALID, "a cluster needs an id and an epoch base to start from")
        return Applied(resource=command.cluster_id, created=True)

    def _check_force(self, command: ForceNewCluster) -> Outcome:
        if command.former_id and command.former_id == self.former_id:
            return Applied(resource=self.cluster_id or "")
        if self.cluster_id is None or command.former_id != self.cluster_id:
            return Refused(
                Reason.CONFLICT, f"this is cluster {self.cluster_id!r}, not {command.former_id!r}"
            )
        if command.cluster_id in ("", self.cluster_id):
            return Refused(Reason.INVALID, "another cluster needs an id of its own")
        if not 0 < command.epoch_base <= EPOCH_MAX:
            return Refused(Reason.INVALID, "another cluster needs an epoch base to start from")
        return Applied(resource=command.cluster_id, created=True)

    def _force(self, command: ForceNewCluster) -> None:
        self.former_id, self.cluster_id = command.former_id, command.cluster_id
        self.next_epoch = max(self.next_epoch, command.epoch_base)
        for namespace in self.namespaces.values():
            draft = Draft(namespace, self.next_epoch, command.at_ms)
            open_window(draft, command.former_id, command.at_ms)
            namespace.commit(draft, self._take_revision())

    def _check_create(self, command: CreateNamespace) -> Outcome:
        existing = self.namespaces.get(command.namespace)
        if existing is not None:
            info = existing.info
            if (info.kind, info.shard_count) == (command.kind, command.shard_count):
                return Applied(resource=command.namespace)
            return Refused(
                Reason.NAMESPACE_EXISTS,
                f"namespace {command.namespace!r} exists: {info.kind}, {info.shard_count} shards",
            )
        if len(self.namespaces) >= NAMESPACES_MAX:
            return Refused(Reason.QUOTA_EXCEEDED, f"{NAMESPACES_MAX} namespaces exist already")
        shards_max = min(command.policy.max_shards, SHARDS_MAX)
        if command.kind is NamespaceKind.FIXED and not 1 <= command.shard_count <= shards_max:
            return Refused(Reason.INVALID, f"shard_count must be 1 to {shards_max}")
        return Applied(resource=command.namespace, created=True, count=command.shard_count)

    def _create(self, command: CreateNamespace) -> None:
        revision = self._take_revision()
        info = Namespace(
            name=command.namespace,
            kind=command.kind,
            shard_count=command.shard_count,
            policy=command.policy,
            created_at_ms=command.at_ms,
            created_revision=revision,
            lease_bound_s=command.policy.lease_ttl_s,
            window=ClaimWindow(
                lease_s=max(command.policy.lease_ttl_s, self.former.pop(command.namespace, 0.0)),
                epoch_floor=self.next_epoch,
            ),
        )
        if command.kind is NamespaceKind.FIXED:
            revision = self._take_revision()
        created = NamespaceState(info, revision)
        if command.kind is NamespaceKind.FIXED:
            created.load(Shard(key=str(number)) for number in range(command.shard_count))
        self.namespaces[command.namespace] = created

    def _check_delete(self, command: DeleteNamespace) -> Outcome:
        namespace = self.namespaces.get(command.namespace)
        if namespace is None:
            return Refused(Reason.NAMESPACE_NOT_FOUND, f"no namespace {command.namespace!r}")
        if namespace.executors and not command.force:
            return Refused(
                Reason.NAMESPACE_NOT_EMPTY,
                f"{len(namespace.executors)} executors live in {command.namespace!r}",
            )
        return Applied(resource=command.namespace)

    def _delete(self, name: str) -> None:
        gone = self.namespaces.pop(name)
        info = gone.info
        if gone.executors or info.window is not None:
            # Some may still act in it; one of the same name waits for them.
            before_s = 0.0 if info.window is None else info.window.lease_s
            self.former[name] = max(info.lease_bound_s, before_s)
            while len(self.former) > NAMESPACES_MAX:
                del self.former[next(iter(self.former))]

    def _check_move(self, command: MoveMember) -> Outcome:
        node, raft, api = command.node, command.raft, command.api
        if not (node and 0 < len(raft) <= ADDRESS_CHARS_MAX and 0 < len(api) <= URL_CHARS_MAX):
            return Refused(Reason.INVALID, "a member needs a name, an address and a URL")
        at = self.moved.get(node)
        if at is not None and (at.raft, at.api) == (raft, api):
            return Applied(resource=node)
        for other in self.moved.values():
            if other.node != node and other.raft == raft:
                return Refused(Reason.CONFLICT, f"{raft} is the address of {other.node}")
        if at is None and len(self.moved) >= MEMBERS_MAX:
            return Refused(Reason.QUOTA_EXCEEDED, f"{MEMBERS_MAX} members were moved already")
        return Applied(resource=node, created=True)

    def image(self) -> ClusterImage:
        """All of it as it is now."""
        return self._image(tuple(n.image() for n in self.namespaces.values()))

    def view(self) -> ClusterImage:
        """An image that is read in slices later, whatever is applied meanwhile."""
        return self._image(tuple(n.view() for n in self.namespaces.values()))

    def _image(self, namespaces: tuple[NamespaceImage, ...]) -> ClusterImage:
        return ClusterImage(
            cluster_id=self.cluster_id or "",
            next_epoch=self.next_epoch,
            next_revision=self.next_revision,
            once=tuple((key, digest, o) for key, (digest, o) in self._once.items()),
            namespaces=namespaces,
            moved=tuple(self.moved.values()),
            former=tuple(self.former.items()),
            former_id=self.former_id,
            format=self.format,
        )

    @classmethod
    def from_image(cls, image: ClusterImage) -> "ClusterState":
        """The state an image holds."""
        return cls.of(image, (NamespaceState.from_image(n) for n in image.namespaces))

    @classmethod
    def of(cls, image: ClusterImage, namespaces: Iterable[NamespaceState]) -> "ClusterState":
        """The state with these namespaces, and all else as an image holds it."""
        state = cls()
        state.cluster_id = image.cluster_id or None
        state.next_epoch = image.next_epoch
        state.next_revision = image.next_revision
        state._once = {key: (digest, outcome) for key, digest, outcome in image.once}
        state.namespaces = {n.info.name: n for n in namespaces}
        state.former = dict(image.former)
        state.moved = {member.node: member for member in image.moved}
        state.former_id = image.former_id
        state.format = image.format
        return state

    def check_invariants(self) -> list[str]:
        """What is wrong with the state; empty when nothing is."""
        wrong: list[str] = []
        for name, namespace in self.namespaces.items():
            wrong.extend(f"{name}: {what}" for what in namespace_faults(namespace))
            newest = max((s.epoch for s in namespace.shards.values()), default=0)
            if newest >= self.next_epoch:
                wrong.append(f"{name}: epoch {newest} was never handed out")
            if namespace.revision >= self.next_revision:
                wrong.append(f"{name}: revision {namespace.revision} was never handed out")
        wrong.extend(
            f"{member.node}: revision {member.revision} was never handed out"
            for member in self.moved.values()
            if member.revision >= self.next_revision
        )
        return wrong
