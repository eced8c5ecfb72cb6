"""Clients of the real cluster state, and the history of what each was told.

Decides what clients ask, whom, and how long they insist. A request that may have taken effect is
repeated only under its idempotency key. Must not know faults, nor what the answers should be.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from coordinator.codec import encode_entry
from coordinator.core import commands as c
from coordinator.core.shard import Cause
from coordinator.core.types import (
    Claim,
    ExecutorProfile,
    HandoffPolicy,
    NamespaceKind,
    Placement,
    Policy,
    TargetKind,
)
from tests.sim import registers
from tests.sim.cluster import SimCluster
from tests.sim.ledger import Violation
from tests.sim.linearizable import UNKNOWN, Operation, Undecided, explain
from tests.sim.machine import Books
from tests.sim.node import SimNode

SPACE: Final = "s"
OWNERS: Final = ("e1", "e2", "e3")
DRAINED: Final = ("d1", "d2")
PINNED: Final = ("0", "1")
MOVED: Final = ("2", "3")
CLIENTS: Final = 4
ANSWER_S: Final = 0.8
"""Without an answer for this long the client asks elsewhere, or gives up."""
PATIENCE_S: Final = 3.0
PAUSE_S: Final = (0.05, 0.4)
OPERATIONS_MAX: Final = 300
"""Of one key."""


@dataclass(slots=True)
class Call:
    """One operation on its way."""

    client: str
    register: str
    """Kind and key, as "pin:0"."""
    name: str
    argument: Any
    called_s: float
    ask: Callable[[SimNode, "Call", int], None]
    may_repeat: bool
    tries: int = 0
    refused: int = 0
    is_over: bool = False


class Clients:
    """Some clients, each with one operation at a time."""

    def __init__(self, cluster: SimCluster, seed: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.rng = random.Random(f"clients {seed}")
        self.history: dict[str, list[Operation]] = {}
        self._calls: list[Call] = []
        self._hint: str | None = None
        self._count = 0
        self._is_closed = False

    # The beginning: a cluster with executors and placed shards, made under keys.

    def start(self) -> None:
        """Makes the namespace, then lets the clients begin."""
        self._set_up(_founding())

    def _set_up(self, left: list[c.Command]) -> None:
        if not left:
            for number in range(CLIENTS):
                self.world.after(self.rng.uniform(*PAUSE_S), self._next, f"c{number}")
            return
        entry = c.Once(key=f"set-up {len(left)}", digest="", command=left[0])
        over: list[bool] = []

        def told(kind: str, _result: Any) -> None:
            if kind == "done" and not over:
                over.append(True)
                self._set_up(left[1:])

        def again() -> None:
            if not over and not self._is_closed:
                node = self._node()
                if node is not None:
                    node.submit(encode_entry(entry), told)
                self.world.after(0.3, again)

        again()

    # One operation after the other.

    def _next(self, client: str) -> None:
        if self._is_closed:
            return
        self._count += 1
        kind = self.rng.choice(("pin", "drain", "own"))
        call = {"pin": self._pin, "drain": self._drain, "own": self._own}[kind](client)
        if len(self.history.get(call.register, ())) < OPERATIONS_MAX:
            self._calls.append(call)
            self._try(call)

    def _write(
        self, client: str, register: str, name: str, argument: Any, command: c.Command
    ) -> Call:
        has_key = self.rng.random() < 0.7
        entry: c.Entry = command
        if has_key:
            entry = c.Once(key=f"key {self._count}", digest=name, command=command)
        payload = encode_entry(entry)

        def ask(node: SimNode, call: Call, attempt: int) -> None:
            node.submit(payload, partial(self._told, call, attempt, node.name))

        return Call(client, register, name, argument, self.world.now, ask, has_key)

    def _look_up(self, client: str, register: str, read: Callable[[Books], Any]) -> Call:
        def ask(node: SimNode, call: Call, attempt: int) -> None:
            node.look_up(read, partial(self._told, call, attempt, node.name))

        return Call(client, register, "read", None, self.world.now, ask, may_repeat=True)

    def _pin(self, client: str) -> Call:
        key = self.rng.choice(PINNED)
        register = f"pin:{key}"
        command: c.Command
        match self.rng.choices(("pin", "unpin", "read"), (4, 1, 4))[0]:
            case "pin":
                executor, note = self.rng.choice(OWNERS), f"note {self._count}"
                command = c.PinShard(namespace=SPACE, key=key, executor=executor, note=note)
                return self._write(client, register, "pin", (executor, note), command)
            case "unpin":
                command = c.UnpinShard(namespace=SPACE, key=key)
                return self._write(client, register, "unpin", None, command)
            case _:
                return self._look_up(client, register, partial(_read_pin, key))

    def _drain(self, client: str) -> Call:
        target = self.rng.choice(DRAINED)
        register = f"drain:{target}"
        command: c.Command
        match self.rng.choices(("drain", "undrain", "read"), (3, 2, 4))[0]:
            case "drain":
                name = f"drain-{self._count}"
                command = c.StartDrain(
                    namespace=SPACE,
                    id=name,
                    kind=TargetKind.EXECUTOR,
                    target=target,
                    reason="",
                    by=client,
                    at_ms=self._count,
                )
                return self._write(client, register, "drain", name, command)
            case "undrain":
                command = c.EndDrain(namespace=SPACE, kind=TargetKind.EXECUTOR, target=target)
                return self._write(client, register, "undrain", target, command)
            case _:
                return self._look_up(client, register, partial(_read_drain, target))

    def _own(self, client: str) -> Call:
        key = self.rng.choice(MOVED)
        register = f"own:{key}"
        command: c.Command
        seen = [o for o in self.history.get(register, ())[-8:] if o.name == "read"]
        match self.rng.choices(("move", "release", "read"), (3, 3 if seen else 0, 5))[0]:
            case "move":
                target = self.rng.choice(OWNERS)
                command = c.MoveShard(namespace=SPACE, key=key, target=target, at_ms=self._count)
                return self._write(client, register, "move", target, command)
            case "release":
                executor, _, epoch = seen[-1].result
                command = c.Acknowledge(
                    namespace=SPACE,
                    executor=executor,
                    incarnation=executor,
                    released=(Claim(key=key, epoch=epoch),),
                    prepared=(),
                    failed=(),
                    at_ms=self._count,
                )
                return self._write(client, register, "release", (executor, epoch), command)
            case _:
                return self._look_up(client, register, partial(_read_owner, key))

    # Asking until there is an answer.

    def _node(self) -> SimNode | None:
        """Whom to ask: whoever seems to lead, mostly."""
        nodes = self.cluster.nodes
        listening = [
            name for name in self.cluster.names if name in nodes and nodes[name].is_listening
        ]
        believing = [name for name in listening if nodes[name].replica.engine.is_leader]
        if self._hint in listening and self.rng.random() < 0.5:
            return nodes[self._hint]
        pool = believing if believing and self.rng.random() < 0.8 else listening
        return nodes[self.rng.choice(pool)] if pool else None

    def _try(self, call: Call) -> None:
        if call.is_over:
            return
        if self.world.now - call.called_s > PATIENCE_S or self._is_closed:
            self._give_up(call)
            return
        node = self._node()
        if node is None:
            self.world.after(0.1, self._try, call)
            return
        call.tries += 1
        self.world.after(ANSWER_S, self._unanswered, call, call.tries)
        call.ask(node, call, call.tries)

    def _told(self, call: Call, attempt: int, name: str, kind: str, result: Any) -> None:
        if call.is_over:
            return
        match kind:
            case "done":
                self._hint = name
                self._record(call, result)
            case "refused":
                self._hint = result
                call.refused += 1  # this attempt did nothing, and never will
                if attempt == call.tries:
                    self.world.after(self.rng.uniform(0.02, 0.2), self._try, call)
            case _ if attempt == call.tries:
                self._unanswered(call, attempt)

    def _unanswered(self, call: Call, attempt: int) -> None:
        if call.is_over or attempt != call.tries or call.refused == call.tries:
            return
        if call.may_repeat and self.rng.random() < 0.8:
            self._try(call)
        else:
            self._give_up(call)

    def _give_up(self, call: Call) -> None:
        # Whatever was refused each time did not happen: if it did, nothing explains what is seen.
        if call.refused < call.tries and call.name != "read":
            self._record(call, UNKNOWN)
        else:
            self._finish(call)

    def _record(self, call: Call, result: Any) -> None:
        returned_s = math.inf if result is UNKNOWN else self.world.now
        made = Operation(call.client, call.name, call.argument, call.called_s, result, returned_s)
        self.history.setdefault(call.register, []).append(made)
        self._finish(call)

    def _finish(self, call: Call) -> None:
        call.is_over = True
        self._calls.remove(call)
        self.world.after(self.rng.uniform(*PAUSE_S), self._next, call.client)

    # The end.

    @property
    def operations(self) -> int:
        """Recorded so far."""
        return sum(map(len, self.history.values()))

    def close(self) -> None:
        """No new operation; what waits may still be answered."""
        self._is_closed = True

    def judge(self, last: Books | None) -> None:
        """Each register's history must have an explanation, and the state at the end fit it."""
        for call in list(self._calls):
            self._give_up(call)
        for register, operations in sorted(self.history.items()):
            kind, key = register.split(":")
            history = operations
            if last is not None:
                now = self.world.now
                read = {"pin": _read_pin, "drain": _read_drain, "own": _read_owner}[kind]
                final = Operation("end", "read", None, now, read(key, last), now)
                history = [*operations, final]
            try:
                found = self._explain(kind, history)
            except Undecided as undecided:
                raise Violation(f"{register} is not decided: {undecided}") from undecided
            if found is not None:
                raise Violation(f"{register} is not linearizable: {found}")

    def _explain(self, kind: str, history: list[Operation]) -> str | None:
        match kind:
            case "pin":
                return explain(history, registers.pinned, registers.UNPINNED)
            case "drain":
                return explain(history, registers.drained, "")
            case _:
                first = registers.Owned(OWNERS[0], None, 0, is_told=False)
                return explain(history, registers.owned, first)


def _founding() -> list[c.Command]:
    policy = Policy(handoff=HandoffPolicy(warmup=False))
    return [
        c.Bootstrap(cluster_id="sim", epoch_base=1),
        c.CreateNamespace(
            namespace=SPACE, kind=NamespaceKind.FIXED, shard_count=4, policy=policy, at_ms=1
        ),
        c.CloseWindow(namespace=SPACE, created_revision=1, at_ms=1),
        *[
            c.JoinExecutor(
                namespace=SPACE,
                executor=name,
                incarnation=name,
                profile=ExecutorProfile(host=name),
                at_ms=1,
            )
            for name in (*OWNERS, *DRAINED)
        ],
        c.AssignShards(
            namespace=SPACE,
            placements=tuple(Placement(key=key, executor=OWNERS[0]) for key in (*PINNED, *MOVED)),
            cause=Cause.PLACED,
            at_ms=1,
        ),
    ]


def _read_pin(key: str, books: Books) -> registers.Pinned:
    shard = books.registry.state.namespaces[SPACE].shards[key]
    return registers.Pinned(shard.pin, shard.pin_note)


def _read_drain(target: str, books: Books) -> str:
    drain = books.registry.state.namespaces[SPACE].drains.get((TargetKind.EXECUTOR, target))
    return "" if drain is None else drain.id


def _read_owner(key: str, books: Books) -> tuple[str, str | None, int]:
    shard = books.registry.state.namespaces[SPACE].shards[key]
    return shard.executor or "", shard.target, shard.epoch
