"""What a namespace must be like, from what was asked of it and what was answered.

It knows the promises, not the implementation: who may own what, which answers are due, and that
epochs only grow. Where the coordinator is free to choose (who gets a shard) it takes note.
"""

from dataclasses import dataclass, field


@dataclass
class Life:
    """One incarnation, as its own process sees it."""

    incarnation: str
    sequence: int = 1
    held: dict[str, int] = field(default_factory=dict)
    term: int = 0


@dataclass
class Table:
    """A routing table as a reader keeps it: a snapshot, then deltas."""

    cursor: str = ""
    owners: dict[str, tuple[str, int]] = field(default_factory=dict)
    moving: dict[str, str] = field(default_factory=dict)
    parked: frozenset[str] = frozenset()

    @property
    def revision(self) -> int:
        return int(self.cursor.rpartition(":")[2] or 0)

    def after(self, told: dict[str, object]) -> "Table":
        """The table that an answer makes of this one."""
        owners: dict[str, tuple[str, int]] = {
            key: (owner, epoch) for key, (owner, epoch) in told["owners"].items()
        }
        cursor, moving = str(told["cursor"]), dict(told["moving"])
        parked = frozenset(told["parked"])
        if told["kind"] == "snapshot":
            return Table(cursor, owners, moving, parked)
        named = owners.keys() | parked | set(told["removed"])
        left = {key: at for key, at in self.owners.items() if key not in named}
        still = {key: to for key, to in self.moving.items() if key not in named}
        return Table(cursor, left | owners, still | moving, (self.parked - named) | parked)


@dataclass
class Model:
    """What has been ordered and promised so far."""

    alive: dict[str, Life] = field(default_factory=dict)
    over: dict[tuple[str, str], str] = field(default_factory=dict)
    """Incarnations that ended, with the cause that they are told."""
    cordoned: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    retired: set[str] = field(default_factory=set)
    """Ordered away; gone as soon as their owners have stopped them."""
    parked: set[str] = field(default_factory=set)
    pins: dict[str, str] = field(default_factory=dict)
    epochs: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The last owner and epoch seen of each key, over its whole life."""

    @property
    def open(self) -> set[str]:
        """Executors that may be given shards."""
        return set(self.alive) - self.cordoned - self.drained

    def end(self, name: str, cause: str) -> None:
        self.over[name, self.alive.pop(name).incarnation] = cause

    def look(self, table: Table) -> None:
        """Hold a table against every promise, and take note of its epochs."""
        for key, (owner, epoch) in table.owners.items():
            assert key in self.keys, f"{key!r} was never declared"
            assert owner in self.alive, f"{key!r} belongs to {owner}, who is gone"
            before = self.epochs.get(key)
            if before is not None:
                assert epoch >= before[1], f"the epoch of {key!r} fell from {before[1]} to {epoch}"
                if owner != before[0]:
                    assert epoch > before[1], f"{key!r} changed hands under one epoch {epoch}"
            self.epochs[key] = (owner, epoch)
        told = [epoch for _, epoch in table.owners.values()]
        assert len(told) == len(set(told)), "one epoch was given twice"
        assert table.parked <= self.parked, "a key is parked that nobody parked"
        assert not table.parked & table.owners.keys()
        for key, target in table.moving.items():
            assert target in self.alive
            assert table.owners[key][0] != target
