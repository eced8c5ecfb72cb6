"""Programs that a bench or a system test starts, and that never outlive it.

Decides how they are started, killed and waited for. Must not know what they do.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

TETHER: Final = Path(__file__).with_name("tether.py")
STOP_S: Final = 5.0
"""A node waits up to 3 s for requests in progress; after that it is killed."""
LINE_BYTES_MAX: Final = 1 << 20
"""One line of a program's report; longer ones are a fault."""


class Processes:
    """The programs of one run by name; all are gone when the context ends."""

    def __init__(self, log_dir: Path | None = None) -> None:
        self.running: dict[str, asyncio.subprocess.Process] = {}
        self._log_dir = log_dir

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What matters was asked before; an end in order would only take time.
        await self.kill_all()

    async def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        without: Collection[str] = (),
        has_output: bool = False,
    ) -> asyncio.subprocess.Process:
        """Start a program; stdout is a pipe if wanted, stderr goes to a file of its own.

        Its environment is ours `without` these variables.
        """
        if name in self.running:
            raise RuntimeError(f"{name} runs already")
        log = self._log(name)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-S",  # the tether itself needs no packages; what it becomes has them
                str(TETHER),
                str(os.getpid()),
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE if has_output else asyncio.subprocess.DEVNULL,
                stderr=log,
                env={key: value for key, value in os.environ.items() if key not in without},
                limit=LINE_BYTES_MAX,
                # Ctrl-C is for the starter alone, who then stops the others in order.
                start_new_session=True,
            )
        finally:
            if log is not None:
                os.close(log)
        self.running[name] = process
        return process

    def _log(self, name: str) -> int | None:
        if self._log_dir is None:
            return None
        path = self._log_dir / f"{name}.log"
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def kill(self, name: str) -> None:
        """As a crash does it: SIGKILL, no warning."""
        await self._end(name, signal.SIGKILL)

    async def terminate(self, name: str) -> int:
        """As a deploy does it: SIGTERM; the exit status."""
        return await self._end(name, signal.SIGTERM)

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal and wait for nothing."""
        self.running[name].send_signal(number)

    async def finish(self, name: str, timeout_s: float) -> int:
        """End a program that ends with its stdin; the exit status."""
        process = self.running[name]
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(timeout_s):
                return await process.wait()
        finally:
            await self._end(name, signal.SIGKILL)

    async def _end(self, name: str, number: signal.Signals) -> int:
        process = self.running.pop(name)
        if process.returncode is None:
            process.send_signal(number)
        try:
            async with asyncio.timeout(STOP_S):
                status = await process.wait()
        except TimeoutError:
            process.kill()
            status = await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        return status

    async def kill_all(self) -> None:
        """End everything outright."""
        await asyncio.gather(*[self.kill(name) for name in list(self.running)])


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()
