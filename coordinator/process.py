"""A node as a process: signals, the service manager, settings that are read again.

Decides what a signal means and which settings need no restart. SIGTERM and SIGINT end the node
after it has handed over the lead; SIGHUP reads settings and certificates again. A settings file
that cannot be used changes nothing.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from coordinator.descriptors import raise_limit
from coordinator.logs import REPEATS, set_up_logs
from coordinator.node import Node, StartError
from coordinator.notify import Notifier
from coordinator.pulse import Pulse
from coordinator.settings import Settings, SettingsError

log = logging.getLogger("coordinator.process")

RELOADED: Final = frozenset({"log"})
"""Sections that a reload puts into effect. Certificates are files: they are read again anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a node is started."""

    settings: Settings
    load: Callable[[], Settings]
    """Reads the settings once more; raises SettingsError."""
    bootstrap: bool = False
    former_id: str | None = None


async def run(start: Start) -> int:
    """A node's life; gives the exit status."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    notifier = Notifier(os.environ)
    raise_limit(start.settings.limits.connections)
    try:
        node = Node(start.settings, bootstrap=start.bootstrap, former_id=start.former_id)
        set_up_logs(start.settings.log.level, start.settings.log.format, partial(_in, node))
        node.replica.meters.log_lines = REPEATS.lines
        node.aside.spare_the_loop()
        await node.start()
    except StartError as error:
        sys.stderr.write(f"shard-coordinator: {error}\n")
        return 1
    reloading = Reloading(node, start, notifier)
    loop.add_signal_handler(signal.SIGHUP, reloading.reload)
    replica, name = node.replica, start.settings.node.name
    pulse = Pulse(replica.meters, notifier, replica.consensus.status, name)
    pulse.start()
    notifier.ready()
    told = loop.create_task(stopping.wait())
    failed = node.fatal
    if failed is None:  # start() has made it
        raise AssertionError
    await asyncio.wait((told, failed), return_when=asyncio.FIRST_COMPLETED)
    notifier.stopping()
    if not failed.done():
        await node.hand_over()
    told.cancel()
    await pulse.stop()
    await node.stop()
    notifier.close()
    return 1 if failed.done() else 0


def _in(node: Node) -> dict[str, str | int]:
    """What every line of the log happens in."""
    term = node.replica.consensus.status().term
    revision = node.replica.state.next_revision - 1
    return {"node": node.settings.node.name, "term": term, "revision": revision}


class Reloading:
    """Reads the settings again and puts into effect what can be."""

    def __init__(self, node: Node, start: Start, notifier: Notifier) -> None:
        self._node = node
        self._start = start
        self._notifier = notifier

    def reload(self) -> None:
        """What SIGHUP does. What needs a restart is named in the log and left as it is."""
        self._notifier.reloading()
        settings, faults = self._read()
        for fault in faults:
            log.error("reload_refused fault=%r", fault)
        if settings is not None:
            self._take(settings)
        self._node.reload()
        self._notifier.ready()

    def _read(self) -> tuple[Settings | None, tuple[str, ...]]:
        try:
            return self._start.load(), ()
        except SettingsError as error:
            return None, error.errors

    def _take(self, settings: Settings) -> None:
        waiting = changed(self._start.settings, settings) - RELOADED
        set_up_logs(settings.log.level, settings.log.format, partial(_in, self._node))
        log.info("reloaded log_level=%s", settings.log.level)
        if waiting:
            log.warning("reload_needs_restart sections=%s", ",".join(sorted(waiting)))


def changed(before: Settings, after: Settings) -> set[str]:
    """The sections in which two settings differ."""
    return {
        field.name
        for field in msgspec.structs.fields(Settings)
        if getattr(before, field.name) != getattr(after, field.name)
    }
