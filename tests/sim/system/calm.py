"""What a system comes to once nothing goes wrong any more.

Decides what is still missing to a settled system. Must not know what went wrong before.
"""

from collections.abc import Iterable, Mapping

from coordinator.core.namespace import NamespaceState
from coordinator.node import Node
from tests.sim.system.alarms import false_alarm
from tests.sim.system.nodes import NodePlace
from tests.sim.system.programs import (
    NAMESPACE,
    ExecutorProgram,
    OperatorProgram,
    RouterProgram,
)
from tests.sim.system.witness import Witness


class Calm:
    """Looks at everything from outside of time."""

    def __init__(
        self,
        nodes: Mapping[str, NodePlace],
        executors: Mapping[str, ExecutorProgram],
        routers: Mapping[str, RouterProgram],
        operator: OperatorProgram,
        witness: Witness,
    ) -> None:
        self._nodes = nodes
        self._executors = executors
        self._routers = routers
        self._operator = operator
        self._witness = witness

    def leader(self) -> Node | None:
        """The one node that leads; None while there is none, or two think so."""
        leaders = [p.node for p in self._nodes.values() if p.node and p.node.leader.is_leading]
        return leaders[0] if len(leaders) == 1 else None

    def highest_term(self) -> int:
        """Of all nodes that are up."""
        nodes = [place.node for place in self._nodes.values() if place.node]
        return max((node.consensus.status().term for node in nodes), default=0)

    def namespace(self) -> NamespaceState | None:
        """As the leader has it."""
        leader = self.leader()
        return None if leader is None else leader.replica.state.namespaces.get(NAMESPACE)

    def lacks(self) -> str | None:
        """What is missing to a settled system; None if nothing is."""
        if not self._operator.is_undone:
            return "the operator is not through"
        if self.leader() is None:
            return "there is not one leader"
        if not all(place.is_admitted for place in self._nodes.values()):
            return "a node is not admitted"
        if (namespace := self.namespace()) is None:
            return "there is no namespace"
        return self._lacks_owners(namespace) or self._lacks_agreement(namespace)

    def _lacks_owners(self, namespace: NamespaceState) -> str | None:
        if set(namespace.executors) != set(self._executors):
            return f"executors {sorted(namespace.executors)}"
        acting = self._witness.acting()
        for key, shard in sorted(namespace.shards.items()):
            if key in namespace.in_flight:
                return f"the handoff of {key} is open: {shard}"
            if shard.executor is None:
                return f"{key} has no owner: {shard}"
            if acting.get(key) != (shard.executor, shard.epoch):
                return f"{key} runs as {acting.get(key)}, not as {shard}"
        return None

    def _lacks_agreement(self, namespace: NamespaceState) -> str | None:
        applied = {
            place.node.consensus.status().applied_index
            for place in self._nodes.values()
            if place.node
        }
        if len(applied) != 1:
            return f"nodes are at {sorted(applied)}"
        owners = {key: (s.executor, s.epoch) for key, s in namespace.shards.items()}
        for program in self._routers.values():
            router = program.router
            table = (
                {}
                if router is None
                else {k: (o.executor, o.epoch) for k, o in router.owners().items()}
            )
            if table != owners:
                return f"the table of {program.name} is another one"
        return None

    def judge(self, faults: Iterable[str]) -> None:
        """At the end: all nodes hold one state, and no alarm was raised without a cause."""
        digests = {
            place.node.replica._machine.digest() for place in self._nodes.values() if place.node
        }
        if len(digests) != 1:
            self._witness.fail("the states differ at one index")
        namespace = self.namespace()
        alarm = namespace and false_alarm(namespace, faults)
        if alarm:
            self._witness.fail(alarm)
