"""A router's table beside the server's own state: gaps, restarts, nodes that lag, new clusters."""

import random

import msgspec

from client.protocol import RoutingAnswer
from client.table import RoutingTable
from coordinator.api.tables import Tables
from coordinator.codec import decode_snapshot, encode_snapshot
from coordinator.core.routing import changes_after
from coordinator.core.state import ClusterState
from tests.core.builders import space
from tests.core.test_properties import begun, walk

SEEDS = 25
STEPS = 150
RING_NAMES = 12
"""So few that a reader who was away for a moment has missed something for good."""


class Server:
    """What nodes of one cluster after the other answer, from the real state and its encoding."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._clusters = 0
        self.lost: list[bytes] = []
        self.forget()

    def forget(self) -> None:
        """All nodes lose their memory: another cluster, whose revisions begin anew."""
        self._clusters += 1
        self._take(begun())
        self.behind, self.answers = self._copy(), []
        self._history = walk(self._seed * 1000 + self._clusters, self.state, STEPS)

    def restart(self) -> None:
        """A node that has the state from a snapshot knows no changes."""
        self._take(self._copy())
        self._history = walk(self._seed, self.state, STEPS)

    def change(self) -> None:
        """Any command, or one that is refused."""
        command = next(self._history, None)
        if command is not None:
            self.state.apply(command)

    def lag(self) -> None:
        """One node falls behind from here on."""
        self.behind = self._copy()

    async def answer(self, cursor: str | None, *, is_behind: bool = False) -> bytes:
        """The body that a node answers a reader at this cursor with."""
        cluster_id, _, revision = (cursor or "").partition(":")
        own = f"c{self._clusters}"
        namespace = space(self.behind if is_behind else self.state)
        after = int(revision) if cluster_id == own else None
        table = await Tables().encoded(namespace, own, after, as_msgpack=False, as_gzip=False)
        self.answers.append(table.body)
        return table.body

    def sees(self) -> object:
        """The whole table, as the state has it."""
        now = space(self.state)
        found = changes_after(now, None)
        owners = {
            key: (executor, epoch, found.moving.get(key), now.executors[executor].profile.address)
            for key, (executor, epoch) in found.owners.items()
        }
        return owners, sorted(found.parked)

    def _copy(self) -> ClusterState:
        return decode_snapshot([*encode_snapshot(self.state.image())])

    def _take(self, state: ClusterState) -> None:
        self.state = state
        space(state).ring._names_max = RING_NAMES


def seen_by(table: RoutingTable) -> object:
    whole = table.snapshot()
    assert whole is not None
    owners = {
        key: (one.executor, one.epoch, one.moving_to, one.address)
        for key, one in table.owners().items()
    }
    return owners, whole.parked


def taken(table: RoutingTable, body: bytes) -> bool:
    return table.apply(msgspec.json.decode(body, type=RoutingAnswer))


async def test_a_routers_table_is_the_servers_whatever_came_in_between() -> None:
    kinds = {"snapshot": 0, "delta": 0}
    for seed in range(SEEDS):
        rng = random.Random(seed)
        server, table = Server(seed), RoutingTable()
        for _ in range(STEPS):
            match rng.choices(
                ("change", "read", "late", "lag", "behind", "restart", "forget"),
                (60, 25, 5, 3, 5, 1, 1),
            )[0]:
                case "change":
                    server.change()
                case "read":
                    cursor = None if table.cursor is None else str(table.cursor)
                    body = await server.answer(cursor)
                    kinds[msgspec.json.decode(body, type=RoutingAnswer).kind] += 1
                    assert taken(table, body)
                    assert seen_by(table) == server.sees()
                    table.prune()
                    assert seen_by(table) == server.sees()
                case "late" if server.answers:
                    before = table.cursor
                    taken(table, rng.choice(server.answers))
                    assert before is None or not _has_gone_back(before, table)
                case "lag":
                    server.lag()
                case "behind":
                    before = table.cursor
                    await server.answer(None if before is None else str(before), is_behind=True)
                    taken(table, server.answers[-1])
                    assert before is None or not _has_gone_back(before, table)
                case "restart":
                    server.restart()
                case "forget":
                    server.forget()
        cursor = None if table.cursor is None else str(table.cursor)
        assert taken(table, await server.answer(cursor))
        assert seen_by(table) == server.sees()
    assert kinds["delta"] > SEEDS
    assert kinds["snapshot"] > 2 * SEEDS  # gaps, restarts and clusters, not only the first of each


def _has_gone_back(before, table: RoutingTable) -> bool:
    now = table.cursor
    assert now is not None
    return now.cluster_id == before.cluster_id and now.revision < before.revision
