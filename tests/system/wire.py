"""A switch in user space that delays and loses frames between nodes, for kernels without netem.

`python wire.py OUTSIDE PORT ...` with the names of network interfaces; each line of stdin is a
JSON object of `delay_s`, `jitter_s` and `loss`. What comes from the first port or goes to it is
passed on at once. Ends with its stdin. Standard library only.
"""

import contextlib
import heapq
import json
import random
import select
import socket
import sys
import time

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_VNET_HDR = 15
"""Frames come and go with what the sender left to be done: sums, and cutting large segments."""
PACKET_IGNORE_OUTGOING = 23
HEADER_BYTES = 10
"""struct virtio_net_hdr, before each frame."""
FRAME_BYTES_MAX = 1 << 17
WAITING_MAX = 20_000
"""Frames under way; more are lost, as on any wire."""


def port(name: str) -> socket.socket:
    """Everything that arrives at an interface, and the way to send out of it."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    opened.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    opened.bind((name, 0))
    opened.setblocking(False)
    return opened


class Wire:
    """The ports, who is behind which, and the frames under way."""

    def __init__(self, names: list[str]) -> None:
        self.ports = [port(name) for name in names]
        self._outside = self.ports[0]
        self._behind: dict[bytes, socket.socket] = {}
        self._under_way: list[tuple[float, int, socket.socket, bytes]] = []
        self._count = 0
        self.delay_s = self.jitter_s = self.loss = 0.0

    def turn(self, ready: list[socket.socket]) -> float | None:
        """Take in what came, send what is due; seconds until the next frame is due."""
        for source in ready:
            for _ in range(64):  # then the others have their turn
                try:
                    data = source.recv(FRAME_BYTES_MAX)
                except BlockingIOError:
                    break
                self._route(source, data)
        now = time.monotonic()
        while self._under_way and self._under_way[0][0] <= now:
            _, _, target, data = heapq.heappop(self._under_way)
            _send(target, data)
        return max(0.0, self._under_way[0][0] - now) if self._under_way else None

    def _route(self, source: socket.socket, data: bytes) -> None:
        target = data[HEADER_BYTES : HEADER_BYTES + 6]
        self._behind[data[HEADER_BYTES + 6 : HEADER_BYTES + 12]] = source
        known = self._behind.get(target)
        for one in self.ports if known is None else [known]:
            if one is source:
                continue
            if self._outside in (one, source) or not self.delay_s + self.loss:
                _send(one, data)
            elif random.random() >= self.loss and len(self._under_way) < WAITING_MAX:
                takes_s = self.delay_s + random.uniform(-self.jitter_s, self.jitter_s)
                self._count += 1
                due = time.monotonic() + max(0.0, takes_s)
                heapq.heappush(self._under_way, (due, self._count, one, data))


def _send(target: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # its buffer is full: the frame is lost
        target.send(data)


def main(names: list[str]) -> None:
    """Until stdin ends."""
    wire = Wire(names)
    wait_s: float | None = None
    told = b""
    while True:
        ready, _, _ = select.select([*wire.ports, sys.stdin.buffer], [], [], wait_s)
        if sys.stdin.buffer in ready:
            ready.remove(sys.stdin.buffer)
            more = sys.stdin.buffer.raw.read(4096)  # type: ignore[attr-defined] # a FileIO
            if not more:
                return
            *lines, told = (told + more).split(b"\n")
            for line in lines:
                vars(wire).update(json.loads(line))
        wait_s = wire.turn(ready)


if __name__ == "__main__":
    main(sys.argv[1:])
