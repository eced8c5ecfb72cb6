"""The copy of the replicated state on this node, and the way to change it.

It joins the pure state to consensus: bytes in, outcomes out, waiters woken. It decides nothing.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import count

from coordinator.codec import (
    FORMATS,
    SLICE_RECORDS,
    Formats,
    MalformedError,
    NotReadableYetError,
    UnknownFormatError,
    encode_snapshot,
    read_snapshot,
)
from coordinator.consensus import ConsensusNode, UnknownEntry
from coordinator.core.commands import (
    Applied,
    DeleteNamespace,
    Entry,
    MoveMember,
    Once,
    Outcome,
    Reason,
    Refused,
)
from coordinator.core.state import ClusterState
from coordinator.discard import Discard
from coordinator.garbage import PER_CONNECTION, PER_SHARD, Aside
from coordinator.meters import Meters
from coordinator.watches import Watches

log = logging.getLogger("coordinator.replica")

DISCARD_EVERY_S = 0.005
"""A tenth of the loop at most goes into freeing what a namespace of a million shards was."""


class StateMachine:
    """The state as consensus sees it: entries and snapshots are bytes."""

    def __init__(self, formats: Formats = FORMATS) -> None:
        self.formats = formats
        self.state = ClusterState()
        self.on_cluster_id: Callable[[str], None] = lambda _cluster_id: None
        self.on_moved: Callable[[str, str, int], None] = lambda _member, _address, _revision: None
        self.on_format: Callable[[int], None] = lambda _format: None
        self.connections: Callable[[], int] = int
        """Open ones, which live long in memory beside the state; none until something listens."""
        self.discarded = Discard()
        self.aside = Aside(self.held)

    def apply(self, index: int, payload: bytes) -> Outcome:
        """Carry out one entry.

        Bytes that are no entry change nothing, on every node alike. An entry that others read and
        this version does not raises UnknownEntry: this node must end.
        """
        try:
            version, entry = self.formats.decode(payload)
        except MalformedError as error:
            log.warning("entry_refused index=%d why=%s", index, error)
            return Refused(Reason.INVALID, str(error))
        except UnknownFormatError as error:
            raise UnknownEntry(f"{error}: start this node with a newer version") from error
        if version > self.state.format:
            self.state.format = version
            self.on_format(version)
        command = entry.command if isinstance(entry, Once) else entry
        if isinstance(command, DeleteNamespace):
            former = self.state.namespaces.get(command.namespace)
            outcome = self.state.apply(entry)
            if former is not None and command.namespace not in self.state.namespaces:
                self.discarded.put([former])
            return outcome
        had_cluster_id = self.state.cluster_id
        outcome = self.state.apply(entry)
        if isinstance(outcome, Applied):
            self.aside.wrote(max(1, outcome.count))
        if self.state.cluster_id is not None and had_cluster_id != self.state.cluster_id:
            self.on_cluster_id(self.state.cluster_id)
        if isinstance(command, MoveMember):
            self.tell()
        return outcome

    def held(self) -> int:
        """How many objects live long at least: the collector takes no more for garbage."""
        shards = sum(len(namespace.shards) for namespace in self.state.namespaces.values())
        return PER_SHARD * shards + PER_CONNECTION * self.connections()

    def parts(self) -> Iterator[bytes]:
        """The state of this moment as bytes, the same on every node at the same index."""
        return encode_snapshot(self.state.view())

    def prepare(self, parts: Iterator[bytes]) -> Generator[None, None, Callable[[], None]]:
        """Read a snapshot in slices; raises and changes nothing if it is not a readable one."""
        reading = read_snapshot(parts, self.formats.newest)
        for slices in count():
            try:
                with self.aside.bulk(slices * SLICE_RECORDS):
                    next(reading)
            except StopIteration as done:
                state: ClusterState = done.value
                break
            except MalformedError:
                raise
            except UnknownFormatError as error:
                raise UnknownEntry(f"{error}: start this node with a newer version") from error
            yield
        return partial(self._replace, state)

    def _replace(self, state: ClusterState) -> None:
        former, self.state = self.state, state
        self.discarded.put(former.namespaces.values())
        if state.cluster_id is not None:
            self.on_cluster_id(state.cluster_id)
        self.tell()

    def tell(self) -> None:
        """Say which format was used, and where the members are that were moved."""
        self.on_format(self.state.format)
        for member in self.state.moved.values():
            self.on_moved(member.node, member.raft, member.revision)

    def digest(self) -> str:
        """A short hash of the state, for comparing nodes; takes as long as a snapshot."""
        found = hashlib.blake2s(digest_size=8)
        for part in self.parts():
            found.update(part)
        return found.hexdigest()


class Replica:
    """The applied state with what it takes to change it and to wait for its changes."""

    def __init__(
        self,
        machine: StateMachine,
        consensus: ConsensusNode,
        watches: Watches,
        meters: Meters | None = None,
    ) -> None:
        self.meters = meters or Meters()
        self._machine = machine
        self.consensus = consensus
        self.watches = watches
        self._listeners: list[Callable[[], None]] = []
        self._is_discarding = False
        machine.on_cluster_id = consensus.set_cluster_id
        if machine.state.cluster_id is not None:  # a journal brought it along
            consensus.set_cluster_id(machine.state.cluster_id)
        machine.on_moved = consensus.set_address
        machine.on_format = consensus.set_format
        machine.tell()
        consensus.on_applied = self._applied

    @property
    def state(self) -> ClusterState:
        """The applied state. Read it without an `await` in between; never write to it."""
        return self._machine.state

    async def digest(self) -> str:
        """A short hash of the state as it is at this call, made in slices."""
        found = hashlib.blake2s(digest_size=8)
        for part in self._machine.parts():
            found.update(part)
            await asyncio.sleep(0)
        return found.hexdigest()

    async def execute(self, entry: Entry, *, timeout_s: float = 5.0) -> Outcome:
        """Commit one command on the leader and give its outcome.

        Raises the errors of `coordinator.consensus`: NotLeader, Overloaded and TooLarge say that
        nothing happened, OutcomeUnknown that it may have.
        """
        try:
            payload = self._encode(entry)
        except NotReadableYetError as error:
            return Refused(Reason.CONFLICT, str(error))
        began = self.meters.monotonic()
        try:
            outcome = await self.consensus.propose(payload, timeout_s=timeout_s)
        finally:
            self.meters.commits.observe(self.meters.monotonic() - began)
        if isinstance(outcome, Outcome):
            return outcome
        raise TypeError(f"apply gave {outcome!r}")

    def _encode(self, entry: Entry) -> bytes:
        return self._machine.formats.encode(entry, self.consensus.format_for_all)

    def check(self, entry: Entry) -> Outcome:
        """What `execute` would answer now; changes nothing."""
        try:
            self._encode(entry)
        except NotReadableYetError as error:
            return Refused(Reason.CONFLICT, str(error))
        return self.state.check(entry)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each batch of applied entries."""
        self._listeners.append(listener)

    def _discard(self) -> None:
        self._machine.discarded.work()
        if self._machine.discarded:
            asyncio.get_running_loop().call_later(DISCARD_EVERY_S, self._discard)
        else:
            self._is_discarding = False

    def _applied(self, _index: int) -> None:
        if self._machine.discarded and not self._is_discarding:
            self._is_discarding = True
            self._discard()
        self.watches.wake(self.state)
        for listener in self._listeners:
            listener()
