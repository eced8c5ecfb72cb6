"""Nodes in network namespaces of their own, and what can be done to the wires between them.

Decides how the network is built, cut, slowed and taken away again. Must not know what is tested.

```
   root ── sc<pid> ──┐ hub: a bridge, or `wire` where delays are wanted and the kernel has none
                     ├── eth0 of n1    10.213.x.1
                     ├── eth0 of n2    10.213.x.2
                     └── eth0 of n3    10.213.x.3
```

Each namespace lives as long as a process in it, which ends with the test's own process, so the
kernel takes all of it away even after a SIGKILL. Callers in the root namespace reach every node
whatever is cut between nodes.
"""

import asyncio
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.cluster import Nodes
from bench.processes import Processes

TOOLS = {"ip": "iproute2", "iptables": "iptables", "unshare": "util-linux", "nsenter": "util-linux"}
"""And the Debian package that has it."""
WIRE = Path(__file__).with_name("wire.py")
HOLD_LOOK_S = 0.01
HOLD_LOOKS = 2_000
SUBNETS = 200


@functools.cache
def lack() -> str | None:
    """Why namespaces cannot be used here, tried in earnest; None when they can."""
    for tool, package in TOOLS.items():
        if _find(tool) is None:
            return f"{tool} is not installed (Debian: {package})"
    tried = (
        f"{_find('ip')} link add name sca type veth peer name scb"
        f" && {_find('iptables')} -I INPUT -s 10.213.0.1 -j DROP"
    )
    done = subprocess.run(
        [_tool("unshare"), "--net", "sh", "-c", tried],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    if done.returncode:
        return f"network namespaces are not permitted here: {done.stderr.strip()[:200]}"
    return None


@functools.cache
def has_netem() -> bool:
    """Whether this kernel can delay packets itself; `wire` does it otherwise."""
    tc = _find("tc")
    tried = (
        f"{_find('ip')} link add name sca type veth peer name scb"
        f" && {tc} qdisc add dev sca root netem delay 1ms"
    )
    command = [_tool("unshare"), "--net", "sh", "-c", tried]
    return (
        tc is not None and not subprocess.run(command, capture_output=True, check=False).returncode
    )


def _find(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _tool(tool: str) -> str:
    found = _find(tool)
    if found is None:
        raise FileNotFoundError(tool)
    return found


class Network:
    """Namespaces by name on one switch. `open`, then cut and heal; `close` takes all away."""

    def __init__(self, processes: Processes, names: Sequence[str], *, is_slow: bool = False):
        """`is_slow` makes delays possible, at the price of a slower switch where it is ours."""
        self._processes = processes
        self.names = list(names)
        self._is_wired = is_slow and not has_netem()
        self._wire: asyncio.subprocess.Process | None = None
        self._pids: dict[str, int] = {}
        self._outside = f"sc{os.getpid()}"
        self._subnet = 0

    def address(self, name: str) -> str:
        """A node's address."""
        return f"10.213.{self._subnet}.{self.names.index(name) + 1}"

    async def open(self) -> None:
        """Make the namespaces and plug them in."""
        self._subnet = _free_subnet()
        for name in ("hub", *self.names):
            self._pids[name] = await self._hold(name)
        hub = self._pids["hub"]
        ports = ["outside", *(f"to-{name}" for name in self.names)]
        _run("ip", "link", "add", "name", self._outside, "type", "veth",
             "peer", "name", "outside", "netns", str(hub))  # fmt: skip
        _run("ip", "addr", "add", f"10.213.{self._subnet}.254/24", "dev", self._outside)
        _run("ip", "link", "set", self._outside, "up")
        for name in self.names:
            self._in("hub", "ip", "link", "add", "name", f"to-{name}", "type", "veth",
                     "peer", "name", "eth0", "netns", str(self._pids[name]))  # fmt: skip
            self._in(name, "ip", "link", "set", "lo", "up")
            self._in(name, "ip", "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            self._in(name, "ip", "link", "set", "eth0", "up")
        if not self._is_wired:
            self._in("hub", "ip", "link", "add", "name", "switch", "type", "bridge")
            self._in("hub", "ip", "link", "set", "switch", "up")
        for port in ports:
            if not self._is_wired:
                self._in("hub", "ip", "link", "set", port, "master", "switch")
            self._in("hub", "ip", "link", "set", port, "up")
        if self._is_wired:
            argv = [*self.within("hub"), sys.executable, str(WIRE), *ports]
            self._wire = await self._processes.start("wire", argv)

    async def _hold(self, name: str) -> int:
        """A namespace that lives as long as the process in it."""
        argv = [_tool("unshare"), "--net", _tool("sleep"), "infinity"]
        process = await self._processes.start(f"namespace-{name}", argv)
        for _ in range(HOLD_LOOKS):
            if _namespace_of(str(process.pid)) != _namespace_of("self"):
                return process.pid
            await asyncio.sleep(HOLD_LOOK_S)
        raise TimeoutError(f"no namespace for {name}")

    async def close(self) -> None:
        """Take everything away now; the kernel would do it with the last process."""
        with contextlib.suppress(RuntimeError):  # it was never made
            _run("ip", "link", "del", self._outside)
        for name in [one for one in self._processes.running if one.startswith("namespace-")]:
            await self._processes.kill(name)

    def within(self, name: str) -> list[str]:
        """What goes before a command to run it in a namespace; the process keeps its id."""
        return [_tool("nsenter"), f"--net=/proc/{self._pids[name]}/ns/net"]

    def _in(self, name: str, tool: str, *args: str) -> None:
        _check([*self.within(name), _tool(tool), *args])

    # -- faults -----------------------------------------------------------------------------

    def cut_one_way(self, source: str, target: str) -> None:
        """What `source` sends no longer comes to `target`."""
        self._in(target, "iptables", "-A", "INPUT", "-s", self.address(source), "-j", "DROP")

    def cut(self, one: str, *others: str) -> None:
        """Nothing comes through between `one` and each of the others, either way."""
        for other in others:
            self.cut_one_way(one, other)
            self.cut_one_way(other, one)

    def heal(self) -> None:
        """Everything that was cut comes through again."""
        for name in self.names:
            self._in(name, "iptables", "-F", "INPUT")

    def slow(self, delay_s: float, jitter_s: float, loss: float) -> None:
        """Each packet between nodes takes `delay_s` ± `jitter_s` or is lost; they may overtake."""
        if self._is_wired:
            self._tell(delay_s=delay_s, jitter_s=jitter_s, loss=loss)
            return
        netem = ["netem", "delay", f"{delay_s * 1e3:g}ms", f"{jitter_s * 1e3:g}ms"]
        netem += ["loss", f"{loss * 100:g}%"]
        for name in self.names:
            self._in(name, "tc", "qdisc", "replace", "dev", "eth0", "root", *netem)

    def calm(self) -> None:
        """No delay and no loss any more."""
        if self._is_wired:
            self._tell(delay_s=0.0, jitter_s=0.0, loss=0.0)
            return
        for name in self.names:
            self._in(name, "tc", "qdisc", "del", "dev", "eth0", "root")

    def _tell(self, **what: float) -> None:
        if self._wire is None or self._wire.stdin is None:
            raise RuntimeError("the network was not opened as a slow one")
        self._wire.stdin.write(json.dumps(what).encode() + b"\n")


class NamespacedNodes(Nodes):
    """Three nodes, each in its own namespace. Plaintext: nobody else is on this network."""

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        network: Network,
        names: Sequence[str] | None = None,
    ) -> None:
        """The nodes are all of the network, or these of it."""
        names = network.names if names is None else names
        super().__init__(folder, processes, len(names))
        self._network = network
        self.raft = {name: f"{network.address(name)}:7071" for name in names}
        self.api = {name: f"http://{network.address(name)}:7070" for name in names}

    def config(self, name: str) -> Path:
        path = super().config(name)
        path.write_text(path.read_text() + "[security]\ninsecure = true\n")
        return path

    async def start(self, name: str) -> None:
        argv = [*self._network.within(name), sys.executable, *self.program]
        argv += ["--config", str(self.config(name))]
        foreign = [key for key in os.environ if key.startswith("SHARD_COORDINATOR__")]
        await self._processes.start(name, argv, without=foreign)


def _namespace_of(process: str) -> Path:
    return Path(f"/proc/{process}/ns/net").readlink()


def _free_subnet() -> int:
    taken = _run("ip", "-4", "addr")
    first = os.getpid() % SUBNETS
    for number in range(SUBNETS):
        subnet = (first + number) % SUBNETS
        if f"10.213.{subnet}." not in taken:
            return subnet
    raise RuntimeError("every subnet below 10.213 is taken")


def _run(tool: str, *args: str) -> str:
    return _check([_tool(tool), *args])


def _check(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=10)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
