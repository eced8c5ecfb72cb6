"""The routing table that a router keeps.

Decides what an answer changes in it, which answers are dropped, and whom the table names where it
has no row and a fallback fleet was given. Pure; it must not know HTTP, clocks or waiting. Answers
come on one thread; owners may be asked for on any.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from client.hashing import hashed
from client.lifecycle import Cursor
from client.protocol import RoutedExecutor, RoutingAnswer

_UNKNOWN: Final = RoutedExecutor()


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns a shard, and where calls for it go."""

    key: str
    executor: str
    epoch: int
    address: str = ""
    host: str = ""
    zone: str = ""
    moving_to: str | None = None  # the executor that gets the shard next
    moving_to_address: str = ""


class RoutingTable:
    """Shard -> owner at one cursor. The cursor never goes back within a cluster."""

    def __init__(self, fallback_fleet: Mapping[str, str] | None = None) -> None:
        """`fallback_fleet` maps executors to their addresses: all that this reader may name."""
        if fallback_fleet is not None and not fallback_fleet:
            raise ValueError("a fallback fleet has at least one executor")
        self._fleet: Final = None if fallback_fleet is None else dict(fallback_fleet)
        self._fleet_names: Final = sorted(fallback_fleet or ())
        self.cursor: Cursor | None = None
        self._executors: dict[str, RoutedExecutor] = {}
        self._owners: dict[str, tuple[str, int]] = {}
        self._moving: dict[str, str] = {}
        self._parked: set[str] = set()
        self._built: dict[str, Owner] = {}  # answers that were given since the last change
        # Held while a change is taken in and while an owner is built from it: one built from what
        # was there before must not be kept after.
        self._changing: Final = threading.Lock()

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, key: str) -> Owner | None:
        """The owner of a shard, or None when the table knows none.

        With a fallback fleet, a shard without a row, or with a row that names somebody outside
        the fleet, is where static hashing puts it, under epoch 0; a parked one is nowhere.
        """
        found = self._built.get(key)
        return self._build(key) if found is None else found

    def is_parked(self, key: str) -> bool:
        """Whether nobody may run the shard until an operator says so."""
        return key in self._parked

    def owners(self) -> dict[str, Owner]:
        """Every shard that has an owner, in a mapping of its own."""
        # A copy first, made in one step: answers may be taken in meanwhile, on another thread.
        return {key: owner for key in list(self._owners) if (owner := self.owner(key)) is not None}

    def apply(self, answer: RoutingAnswer) -> bool:
        """Take an answer in; False when it is older than the table, or no continuation of it."""
        cursor = Cursor.parse(answer.cursor)
        is_same_cluster = self.cursor is not None and self.cursor.cluster_id == cursor.cluster_id
        if is_same_cluster and self.cursor is not None and cursor.revision < self.cursor.revision:
            return False
        if answer.kind != "snapshot" and not is_same_cluster:
            return False  # a delta of another cluster says nothing about this table
        with self._changing:
            if answer.kind == "snapshot":
                self._replace(answer)
            else:
                self._merge(answer)
            self.cursor = cursor
        return True

    def _replace(self, answer: RoutingAnswer) -> None:
        self._executors = dict(answer.executors)
        self._owners = dict(answer.owners)
        self._moving = dict(answer.moving)
        self._parked = set(answer.parked)
        self._built = {}

    def _merge(self, answer: RoutingAnswer) -> None:
        if any(self._executors.get(name) != row for name, row in answer.executors.items()):
            self._executors |= answer.executors
            self._built = {}
        for key, row in answer.owners.items():
            self._owners[key] = row
            self._parked.discard(key)
            self._moving.pop(key, None)  # unless the answer says so, just below
            self._built.pop(key, None)
        for key, target in answer.moving.items():
            self._moving[key] = target
            self._built.pop(key, None)
        for key in answer.parked:
            self._forget(key)
            self._parked.add(key)
        for key in answer.removed:
            self._forget(key)

    def _forget(self, key: str) -> None:
        self._owners.pop(key, None)
        self._moving.pop(key, None)
        self._parked.discard(key)
        self._built.pop(key, None)

    def _build(self, key: str) -> Owner | None:
        with self._changing:
            row = self._owners.get(key)
            if self._fleet is not None and (row is None or row[0] not in self._fleet):
                return self._fallback(key, self._fleet)
            if row is None:
                return None
            executor, epoch = row
            place = self._executors.get(executor, _UNKNOWN)
            moving_to = self._moving.get(key)
            owner = self._built[key] = Owner(
                key=key,
                executor=executor,
                epoch=epoch,
                address=place.address,
                host=place.host,
                zone=place.zone,
                moving_to=moving_to,
                moving_to_address=self._executors.get(moving_to or "", _UNKNOWN).address,
            )
            return owner

    def _fallback(self, key: str, fleet: Mapping[str, str]) -> Owner | None:
        # Not kept: there may be any number of keys without a row.
        if key in self._parked:
            return None
        executor = hashed(key, self._fleet_names)
        return Owner(key=key, executor=executor, epoch=0, address=fleet[executor])

    def snapshot(self) -> RoutingAnswer | None:
        """The whole table, as a node would answer it; None before the first answer."""
        with self._changing:
            if self.cursor is None:
                return None
            return RoutingAnswer(
                kind="snapshot",
                cursor=str(self.cursor),
                executors=dict(self._executors),
                owners=dict(self._owners),
                moving=dict(self._moving),
                parked=sorted(self._parked),
            )

    def prune(self) -> None:
        """Forget executors that own nothing and get nothing; snapshots leave them out anyway."""
        named = {executor for executor, _ in self._owners.values()} | set(self._moving.values())
        self._executors = {name: row for name, row in self._executors.items() if name in named}
