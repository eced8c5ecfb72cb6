"""How many connections the process can hold at all: the system counts files, not intentions.

Decides what is kept back for links, journal and requests that are handed on. Without it strangers
who open connections would take what a node needs to speak with its peers.
"""

import logging
import resource
from typing import Final

log = logging.getLogger("coordinator.process")

RESERVED: Final = 2_304
"""2,048 for requests that are handed to the leader, the rest for links, journal, logs and the
listening sockets."""


def raise_limit(connections: int) -> None:
    """Let this process have as many files as so many connections take, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVED
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def room_for(connections: int) -> int:
    """How many of these connections there may be."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    # Where little is allowed, connections and all else share it.
    room = min(connections, max(soft - RESERVED, soft // 2))
    if room < connections:
        log.warning("connections_bounded connections=%d files=%d", room, soft)
    return room
