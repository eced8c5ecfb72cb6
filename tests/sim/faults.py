"""What goes wrong in a run: a script drawn from the seed alone, and how each line is carried out.

Decides the mix of faults, and which of them may happen now. The script does not depend on what
the run does, so a line can be left out and the rest stays what it was.
"""

import random
from dataclasses import dataclass
from typing import Final

from tests.sim.cluster import SimCluster
from tests.sim.disk import Fault

SPANS_S: Final = (0.2, 0.6, 1.5, 3.0)
SEVERE_S: Final = (2.0, 4.0, 8.0)

# Kind -> how often, on clusters without and with disks.
COMMON: Final = {
    "sever": 8,
    "block_pair": 4,
    "block_one_way": 3,
    "isolate": 4,
    "lose_one_way": 2,
    "pause": 4,
    "pause_long": 1,
    "hand_over": 2,
    "compact": 2,
}
MEMORY: Final = {"crash": 6}
DISKS: Final = {
    "crash": 3,
    "crash_all": 2,
    "power_cut": 4,
    "disk_breaks": 1,
    "disk_full": 1,
    "replace": 2,
}


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a script."""

    number: int
    at_s: float
    kind: str
    names: tuple[str, ...]
    span_s: float
    """How long it lasts, or until the node comes back."""
    share: float
    """Of messages that are lost; whether a commit that is cut off is kept."""

    def __str__(self) -> str:
        what = f"{self.kind} {' '.join(self.names)}"
        return f"{self.number:3}  {self.at_s:7.3f} s  {what:24} for {self.span_s:.2f} s"


def draw(
    seed: int, names: list[str], *, has_disks: bool, every_s: tuple[float, float], end_s: float
) -> tuple[Event, ...]:
    """The whole script of a seed."""
    rng = random.Random(f"faults {seed}")
    weights = COMMON | (DISKS if has_disks else MEMORY)
    events: list[Event] = []
    at_s = rng.uniform(0.0, 1.0)
    while at_s < end_s:
        kind = rng.choices([*weights], [*weights.values()])[0]
        one, other = rng.sample(names, 2)
        pair = kind in ("sever", "block_pair", "block_one_way", "lose_one_way")
        spans = SEVERE_S if kind == "pause_long" else SPANS_S
        events.append(
            Event(
                number=len(events),
                at_s=at_s,
                kind=kind,
                names=() if kind == "crash_all" else (one, other) if pair else (one,),
                span_s=rng.choice(spans) * rng.uniform(0.5, 1.0),
                share=rng.random(),
            )
        )
        at_s += rng.uniform(*every_s)
    return tuple(events)


class Injector:
    """Carries the lines of a script out. What would break a promise of the product is skipped:

    a second loss of memory while a first is not made good (`is_reckless` leaves one that
    remembers), and a standstill of more than one node at once.
    """

    def __init__(self, cluster: SimCluster, *, is_reckless: bool, has_crashes: bool) -> None:
        self.cluster = cluster
        self.is_reckless = is_reckless
        self.has_crashes = has_crashes
        self.crashes = 0
        self.losses = 0
        self.partitions = 0
        self.is_over = False

    def carry_out(self, event: Event) -> None:
        """One line, if it may happen now."""
        if not self.is_over:
            getattr(self, f"_{event.kind}")(event)

    def end(self) -> None:
        """Everything is whole again, and everyone is back."""
        self.is_over = True
        cluster, network = self.cluster, self.cluster.network
        for sender, receiver in sorted(network.blocked):
            network.unblock(sender, receiver)
        network.losses.clear()
        # A snapshot in which every seventh part comes twice is refused each time: it is safe, and
        # never there. What TCP does not do must end for a node to be caught up.
        network.stray_ratio = 0.0
        for disk in cluster.disks.values():
            disk.is_full, disk.fault = False, None
        for name in cluster.names:
            cluster.resume(name)
            cluster.boot(name)

    # Of the network.

    def _sever(self, event: Event) -> None:
        self.cluster.network.sever(*event.names)

    def _block(self, pairs: list[tuple[str, str]], span_s: float) -> None:
        self.partitions += 1
        network = self.cluster.network
        for sender, receiver in pairs:
            network.block(sender, receiver)
            self.cluster.world.after(span_s, network.unblock, sender, receiver)

    def _block_pair(self, event: Event) -> None:
        one, other = event.names
        self._block([(one, other), (other, one)], event.span_s)

    def _block_one_way(self, event: Event) -> None:
        one, other = event.names
        self._block([(one, other)], event.span_s)

    def _isolate(self, event: Event) -> None:
        (alone,) = event.names
        others = [name for name in self.cluster.names if name != alone]
        self._block([(alone, o) for o in others] + [(o, alone) for o in others], event.span_s)

    def _lose_one_way(self, event: Event) -> None:
        one, other = event.names
        network = self.cluster.network
        network.lose(one, other, event.share * 0.5)
        self.cluster.world.after(event.span_s, network.lose, one, other, 0.0)

    # Of processes.

    def _pause(self, event: Event) -> None:
        nodes = self.cluster.nodes
        running = [
            name for name in self.cluster.names if name in nodes and nodes[name].is_listening
        ]
        if len(running) == len(self.cluster.names):
            (name,) = event.names
            self.cluster.pause(name)
            self.cluster.world.after(event.span_s, self.cluster.resume, name)

    _pause_long = _pause

    def _hand_over(self, event: Event) -> None:
        for node in self.cluster.nodes.values():
            if node.is_listening:
                node.hand_over(event.names[0])

    def _compact(self, event: Event) -> None:
        node = self.cluster.nodes.get(event.names[0])
        if node is not None and node.is_listening:
            node.compact()

    def _may_forget(self, name: str) -> bool:
        """One failure at a time: a node that is not caught up yet is still failing.

        The reckless leave one that remembers, or everything were forgotten and nothing could be
        checked. The very first failure may come at any moment, also while the cluster is founded.
        """
        nodes = self.cluster.nodes
        if not self.has_crashes or name not in nodes or len(nodes) < len(self.cluster.names):
            return False
        if self.losses == 0 and self.crashes == 0 and not self.cluster.ledger.acknowledged:
            return True
        others = [node for node in nodes.values() if node.name != name]
        needed = any if self.is_reckless else all
        return needed(other.remembers for other in others) and (
            self.is_reckless or nodes[name].is_admitted
        )

    def _crash(self, event: Event) -> None:
        (name,) = event.names
        if not self.cluster.disks:
            self._forget(event)
        elif name in self.cluster.nodes:
            self._down(name, event.span_s / 2)

    def _down(self, name: str, span_s: float) -> None:
        self.crashes += 1
        self.cluster.kill(name)
        self.cluster.world.after(span_s, self.cluster.boot, name)

    def _forget(self, event: Event) -> None:
        (name,) = event.names
        if self._may_forget(name):
            self.losses += 1
            if name in self.cluster.disks:
                self.cluster.disks[name].wipe()
            self._down(name, event.span_s / 2)

    _replace = _forget

    # Of disks.

    def _crash_all(self, event: Event) -> None:
        for name in self.cluster.names:
            if name in self.cluster.nodes:
                self._down(name, event.span_s / 2)

    def _power_cut(self, event: Event) -> None:
        (name,) = event.names
        if name in self.cluster.nodes:
            self.crashes += 1
            fault = Fault.CUT_BEFORE if event.share < 0.5 else Fault.CUT_AFTER
            self.cluster.disks[name].arm(fault)

    def _disk_breaks(self, event: Event) -> None:
        (name,) = event.names
        if name in self.cluster.nodes:
            self.crashes += 1
            self.cluster.breaks_disk(name)
            self.cluster.disks[name].arm(Fault.BROKEN, keeps=event.share < 0.5)

    def _disk_full(self, event: Event) -> None:
        disk = self.cluster.disks[event.names[0]]
        disk.is_full = True
        self.cluster.world.after(event.span_s, setattr, disk, "is_full", False)
