"""Words to the service manager: ready, reloading, stopping, still alive. systemd's protocol.

Decides where they go and in what form: a datagram of `KEY=value` lines to the socket that the
manager names in the environment. Must not know what the node is doing, and never fails it: a
manager that does not listen is no reason to stop.
"""

import logging
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

log = logging.getLogger("coordinator.process")

SOCKET_VARIABLE: Final = "NOTIFY_SOCKET"
WATCHDOG_VARIABLE: Final = "WATCHDOG_USEC"
WATCHDOG_PID_VARIABLE: Final = "WATCHDOG_PID"
STATUS_CHARACTERS_MAX: Final = 200
"""What `systemctl status` shows is one line."""


class Notifier:
    """Tells the service manager, if there is one; otherwise does nothing."""

    def __init__(self, environ: Mapping[str, str], pid: int | None = None) -> None:
        """Children that are started later must not speak for this process: it alone is meant."""
        self._address = _address(environ.get(SOCKET_VARIABLE, ""))
        self._socket: socket.socket | None = None
        self._has_failed = False
        self.watchdog_s = _watchdog_s(environ, os.getpid() if pid is None else pid)
        """The manager ends a process that was silent for so long; None: it does not watch."""

    @property
    def is_heard(self) -> bool:
        """Whether there is somebody to tell."""
        return self._address is not None

    def ready(self) -> None:
        """The ports are open and the node takes part."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """Settings are being read again; `ready` ends it."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """It has begun to end."""
        self._tell("STOPPING=1")

    def alive(self) -> None:
        """Feeds the watchdog."""
        self._tell("WATCHDOG=1")

    def status(self, text: str) -> None:
        """One line for people."""
        line = "".join(c if c.isprintable() else " " for c in text)
        self._tell(f"STATUS={line[:STATUS_CHARACTERS_MAX]}")

    def close(self) -> None:
        """Let go of the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _tell(self, text: str) -> None:
        if self._address is None:
            return
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            self._socket.sendto(text.encode(), self._address)
        except OSError as fault:
            if not self._has_failed:  # once: it is said many times a minute
                log.warning("manager_unheard why=%s", fault)
            self._has_failed = True
        else:
            self._has_failed = False


def _address(name: str) -> str | None:
    """A path, or a name without a file, which is written with an @ in front."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else None


def _watchdog_s(environ: Mapping[str, str], pid: int) -> float | None:
    """How long the manager waits, if it is this process that it watches."""
    text, meant = environ.get(WATCHDOG_VARIABLE, ""), environ.get(WATCHDOG_PID_VARIABLE, "")
    if meant not in ("", str(pid)) or not (text.isascii() and text.isdigit()):
        return None
    return int(text) / 1e6 or None
