"""What goes wrong, and what operators want meanwhile: a script drawn from the seed alone.

Decides the mix, and how each line is carried out. The script does not depend on what the run does,
so a line can be left out and the rest stays what it was.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.sim.disk import Fault
from tests.sim.faults import Event
from tests.sim.system.nodes import NodePlace, transfer
from tests.sim.system.orders import ORDERS, order_of
from tests.sim.system.programs import ExecutorProgram, Mood, OperatorProgram, Program
from tests.sim.system.wires import Wires
from tests.sim.world import World

SPANS_S: Final = (0.2, 0.6, 1.5, 3.0)
LEASES: Final = (0.3, 0.8, 1.5, 3.0)
"""How long executors are paused or cut off, in leases."""

# Kind -> how often. The names say what a line is about: node, executor, program or order.
WIRES: Final = {
    "sever": 4,
    "block_pair": 3,
    "block_one_way": 4,
    "isolate_node": 4,
    "isolate_executor": 5,
    "lose_one_way": 2,
    "slow_one_way": 4,
    "swallow_answers": 4,
}
NODES: Final = {"pause_node": 4, "transfer": 3, "compact": 1, "restart_node": 2}
MEMORY: Final = {"forget": 4, "lose_all": 1}
DISKS: Final = {"crash": 3, "crash_all": 2, "power_cut": 3, "disk_breaks": 1, "disk_full": 1}
PROGRAMS: Final = {
    "pause_executor": 5,
    "suspend_executor": 2,
    "crash_executor": 6,
    "leave_executor": 3,
    "deploy_executor": 3,
    "twin_executor": 2,
    "hang": 4,
    "fail": 3,
    "slow": 3,
    "block": 3,
    "crash_router": 1,
}


def draw(
    seed: int,
    nodes: list[str],
    executors: list[str],
    *,
    has_disks: bool,
    lease_s: float,
    every_s: tuple[float, float],
    between_s: tuple[float, float],
) -> tuple[Event, ...]:
    """The whole script of a seed."""
    rng = random.Random(f"system faults {seed}")
    weights = WIRES | NODES | (DISKS if has_disks else MEMORY) | PROGRAMS | ORDERS
    events: list[Event] = []
    at_s, end_s = between_s
    at_s += rng.uniform(0.0, 1.0)
    while at_s < end_s:
        kind = rng.choices([*weights], [*weights.values()])[0]
        node, other = rng.sample(nodes, 2)
        executor, to = rng.sample(executors, 2)
        # The other end of a wire: another node as often as an executor.
        far = rng.choice([other, executor])
        near_names = (node, far) if rng.random() < 0.5 else (far, node)
        about_executor = kind in PROGRAMS or kind in ORDERS or kind == "isolate_executor"
        span_s = rng.choice(LEASES) * lease_s if about_executor else rng.choice(SPANS_S)
        if kind in WIRES and not kind.startswith("isolate"):
            names: tuple[str, ...] = near_names
        elif about_executor:
            names = (executor, to)
        else:
            names = (node,)
        events.append(
            Event(
                number=len(events),
                at_s=at_s,
                kind=kind,
                names=names,
                span_s=span_s * rng.uniform(0.5, 1.2),
                share=rng.random(),
            )
        )
        at_s += rng.uniform(*every_s)
    return tuple(events)


@dataclass(slots=True)
class Cast:
    """Who can be harmed."""

    world: World
    wires: Wires
    nodes: dict[str, NodePlace]
    executors: dict[str, ExecutorProgram]
    routers: dict[str, Program]
    operator: OperatorProgram
    keys: list[str]
    lease_s: float
    remembers_orders: bool
    """Nodes have disks; without, a longer lease by order is lost with all of them, and is waited
    for no longer: the product says so."""


class Injector:
    """Carries the lines of a script out. What would break a promise of the product is skipped:

    a second node that loses its memory while a first one's loss is not made good.
    """

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.crashes = 0
        self.partitions = 0
        self.is_over = False

    def carry_out(self, event: Event) -> None:
        """One line, if it may happen now."""
        if self.is_over:
            return
        if event.kind in ORDERS:
            cast = self.cast
            cast.operator.order(
                order_of(event, cast.keys, cast.lease_s, may_lengthen=cast.remembers_orders)
            )
        else:
            getattr(self, f"_{event.kind}")(event)

    def end(self) -> None:
        """Everything is whole again, and everyone is back."""
        self.is_over = True
        cast = self.cast
        cast.wires.heal()
        for place in cast.nodes.values():
            if place.disk is not None:
                place.disk.is_full, place.disk.fault = False, None
            place.resume()
            place.boot()
        for program in cast.executors.values():
            program.mood = Mood()
            for process in list(program.alive):
                process.resume()
            program.ensure()

    def _later(self, span_s: float, call: Callable[[], object]) -> None:
        def unless_over() -> None:
            if not self.is_over:
                call()

        self.cast.world.after(span_s, unless_over)

    # Of wires.

    def _sever(self, event: Event) -> None:
        self.cast.wires.sever_between(*event.names)

    def _cut(self, pairs: list[tuple[str, str]], span_s: float) -> None:
        self.partitions += 1
        wires = self.cast.wires
        for here, there in pairs:
            wires.block(here, there)
            self._later(span_s, lambda here=here, there=there: wires.unblock(here, there))

    def _block_pair(self, event: Event) -> None:
        one, other = event.names
        self._cut([(one, other), (other, one)], event.span_s)

    def _block_one_way(self, event: Event) -> None:
        one, other = event.names
        self._cut([(one, other)], event.span_s)

    def _isolate(self, alone: str, span_s: float) -> None:
        others = [name for name in self.cast.nodes if name != alone]
        self._cut([(alone, one) for one in others] + [(one, alone) for one in others], span_s)

    def _isolate_node(self, event: Event) -> None:
        """From the other nodes only: its clients still reach it."""
        self._isolate(event.names[0], event.span_s)

    def _isolate_executor(self, event: Event) -> None:
        self._isolate(event.names[0], event.span_s)

    def _lose_one_way(self, event: Event) -> None:
        pair = (event.names[0], event.names[1])
        losses = self.cast.wires.losses
        losses[pair] = event.share * 0.5
        self._later(event.span_s, lambda: losses.pop(pair, None))

    def _slow_one_way(self, event: Event) -> None:
        pair = (event.names[0], event.names[1])
        slow = self.cast.wires.slow
        slow[pair] = event.share * self.cast.lease_s
        self._later(event.span_s, lambda: slow.pop(pair, None))

    def _swallow_answers(self, event: Event) -> None:
        pair = (event.names[0], event.names[1])
        swallowed = self.cast.wires.swallowed
        swallowed.add(pair)
        self._later(event.span_s / 2, lambda: swallowed.discard(pair))

    # Of nodes.

    def _pause_node(self, event: Event) -> None:
        place = self.cast.nodes[event.names[0]]
        process = place.process
        if process is not None and not process.is_paused:
            process.pause()
            self._later(event.span_s, process.resume)

    def _transfer(self, event: Event) -> None:
        for place in self.cast.nodes.values():
            place.order(lambda node: transfer(node, event.names[0]))

    def _compact(self, event: Event) -> None:
        place = self.cast.nodes[event.names[0]]
        place.order(lambda node: node.consensus._replica.engine.forceLogCompaction())

    def _may_forget(self, name: str) -> bool:
        """One failure at a time: a node that is not caught up yet is still failing."""
        places = self.cast.nodes.values()
        return self.cast.nodes[name].is_up and all(
            place.remembers and not place.is_leaving for place in places
        )

    def _down(self, name: str, span_s: float) -> None:
        place = self.cast.nodes[name]
        if place.is_up:
            self.crashes += 1
            place.kill()
            self._later(span_s / 2, place.boot)

    def _forget(self, event: Event) -> None:
        if self._may_forget(event.names[0]):
            self._down(event.names[0], event.span_s)

    def _lose_all(self, event: Event) -> None:
        """Total loss: what nobody remembers, executors say."""
        if all(place.is_up and place.is_admitted for place in self.cast.nodes.values()):
            for name in self.cast.nodes:
                self._down(name, event.span_s)

    def _crash(self, event: Event) -> None:
        self._down(event.names[0], event.span_s)

    def _crash_all(self, event: Event) -> None:
        for name in self.cast.nodes:
            self._down(name, event.span_s)

    def _restart_node(self, event: Event) -> None:
        place = self.cast.nodes[event.names[0]]
        if place.process is None or (place.disk is None and not self._may_forget(place.name)):
            return
        place.stop()
        self.crashes += 1
        # Also when the calm has begun meanwhile: it went down in good order, and comes back.
        place.process.gone.append(lambda: self.cast.world.after(event.span_s / 2, place.boot))

    def _power_cut(self, event: Event) -> None:
        disk = self.cast.nodes[event.names[0]].disk
        if disk is not None and self.cast.nodes[event.names[0]].is_up:
            self.crashes += 1
            disk.arm(Fault.CUT_BEFORE if event.share < 0.5 else Fault.CUT_AFTER)

    def _disk_breaks(self, event: Event) -> None:
        place = self.cast.nodes[event.names[0]]
        if place.disk is not None and place.is_up:
            self.crashes += 1
            place.has_broken_disk = True
            place.disk.arm(Fault.BROKEN, keeps=event.share < 0.5)

    def _disk_full(self, event: Event) -> None:
        disk = self.cast.nodes[event.names[0]].disk
        if disk is not None:
            disk.is_full = True
            self._later(event.span_s, lambda: setattr(disk, "is_full", False))

    # Of programs.

    def _pause_executor(self, event: Event) -> None:
        for process in self.cast.executors[event.names[0]].alive[-1:]:
            process.pause()
            self._later(event.span_s, process.resume)

    def _suspend_executor(self, event: Event) -> None:
        """Its machine sleeps: timers stand still, the clock of leases does not."""
        for process in self.cast.executors[event.names[0]].alive[-1:]:
            process.suspend()
            self._later(event.span_s, process.resume)

    def _crash_executor(self, event: Event) -> None:
        self.crashes += 1
        self.cast.executors[event.names[0]].crash()

    def _leave_executor(self, event: Event) -> None:
        self.cast.executors[event.names[0]].leave()

    def _deploy_executor(self, event: Event) -> None:
        """It ends, to come back soon with the next version."""
        program = self.cast.executors[event.names[0]]
        program.version = "2"
        program.leave(back_within_s=event.span_s)

    def _twin_executor(self, event: Event) -> None:
        """Two live processes under one name, as a supervisor that lost count makes them."""
        program = self.cast.executors[event.names[0]]
        if len(program.alive) < 2:
            program.boot()

    def _in_mood(self, event: Event, mood: Mood) -> None:
        program = self.cast.executors[event.names[0]]
        program.mood = mood
        self._later(event.span_s, lambda: setattr(program, "mood", Mood()))

    def _hang(self, event: Event) -> None:
        hang_s = (0.5 + 6.0 * event.share) * self.cast.lease_s
        self._in_mood(event, Mood(hangs=0.7, hang_s=hang_s))

    def _fail(self, event: Event) -> None:
        self._in_mood(event, Mood(fails=0.3 + 0.7 * event.share))

    def _slow(self, event: Event) -> None:
        self._in_mood(event, Mood(slow_s=event.share * self.cast.lease_s))

    def _block(self, event: Event) -> None:
        block_s = (0.2 + 2.5 * event.share) * self.cast.lease_s
        self._in_mood(event, Mood(blocks=0.5, block_s=block_s))

    def _crash_router(self, event: Event) -> None:
        del event
        for router in self.cast.routers.values():
            router.crash()
