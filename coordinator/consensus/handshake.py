"""Who may be at the other end of a link: the hello both sides say first, and its check.

Decides whether a hello is admitted. Must not know sockets. A name is a claim that a certificate
has to bear out; so a plaintext port stays on loopback. Fields that are not known are passed over:
a later version may say more.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from coordinator.consensus.addresses import Moved, decode_moved
from coordinator.consensus.codec import Malformed, pack, unpack

MAGIC: Final = "shard-coordinator-raft"
FORMAT: Final = 1
"""Of hello and messages; a node refuses peers of another one. Entries have formats of their own."""
TEXT_MAX: Final = 512
FORMAT_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Hello:
    """What a node says of itself when a link begins."""

    name: str
    """Who speaks."""
    to: str
    """Who is meant: a wrong address is noticed."""
    cluster_id: str | None
    """None while it is not known; then the configured name is enough."""
    api_url: str
    address: str = ""
    """Where the speaker is to be found; of two processes of one name it tells which this is."""
    moved: Moved = field(default_factory=dict)
    """What the speaker knows of members that were moved."""
    formats: tuple[int, int] = (1, 1)
    """Formats of entries that the speaker reads, from and to."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a hello is not admitted."""

    reason: str
    is_foreign: bool = False
    """The two belong to different clusters."""


def encode_hello(hello: Hello) -> bytes:
    """The hello as one frame's body."""
    return pack(
        {
            "magic": MAGIC,
            "format": FORMAT,
            "name": hello.name,
            "to": hello.to,
            "cluster_id": hello.cluster_id,
            "api_url": hello.api_url,
            "address": hello.address,
            "moved": dict(hello.moved),
            "formats": hello.formats,
        }
    )


def encode_refusal(refusal: Refusal) -> bytes:
    """The refusal as one frame's body; only said to whoever spoke this protocol."""
    said = {"refused": refusal.reason, "foreign": refusal.is_foreign}
    return pack({"magic": MAGIC, "format": FORMAT, **said})


def decode_hello(data: bytes | memoryview) -> Hello | Refusal:
    """What the other side said; raises Malformed when it does not speak this protocol."""
    said: Any = unpack(data)
    if type(said) is not dict or said.get("magic") != MAGIC:
        raise Malformed("not a hello")
    if "refused" in said:
        return Refusal(str(said["refused"])[:TEXT_MAX], said.get("foreign") is True)
    if said.get("format") != FORMAT:
        return Refusal(f"format {said.get('format')!r} is spoken there, {FORMAT} here"[:TEXT_MAX])
    fields = (said.get("name"), said.get("to"), said.get("api_url"), said.get("address"))
    cluster_id = said.get("cluster_id")
    if not all(type(field) is str and len(field) <= TEXT_MAX for field in fields):
        raise Malformed("a hello without its fields")
    if not all(str(field).isprintable() for field in fields):  # they go into headers and logs
        raise Malformed("a hello with control characters")
    if cluster_id is not None and (type(cluster_id) is not str or len(cluster_id) > TEXT_MAX):
        raise Malformed("a cluster id is a string")
    name, to, api_url, address = map(str, fields)
    moved = decode_moved(said.get("moved"))
    return Hello(name, to, cluster_id, api_url, address, moved, _decode_formats(said))


def _decode_formats(said: Mapping[str, Any]) -> tuple[int, int]:
    formats = said.get("formats")
    if type(formats) is not tuple or tuple(map(type, formats)) != (int, int):
        raise Malformed("formats are two numbers")
    oldest, newest = formats
    if not 0 < oldest <= newest <= FORMAT_MAX:
        raise Malformed("formats go from an older to a newer one")
    return oldest, newest


def check_hello(
    hello: Hello, *, own_name: str, members: Mapping[str, str], cluster_id: str | None
) -> Refusal | None:
    """None when the speaker is admitted."""
    if hello.to != own_name:
        return Refusal(f"this is {own_name}, not {hello.to}")
    if hello.name == own_name or hello.name not in members:
        return Refusal(f"{hello.name} is not a configured peer of {own_name}")
    if None not in (hello.cluster_id, cluster_id) and hello.cluster_id != cluster_id:
        return Refusal(
            f"{hello.name} belongs to cluster {hello.cluster_id}, {own_name} to {cluster_id}: "
            "restart the node that shall give up its state, without its journal if it has one, and "
            "it joins the other cluster",
            is_foreign=True,
        )
    return None


def check_formats(hello: Hello, in_force: int) -> Refusal | None:
    """None when the speaker reads the newest format of entries that was used."""
    oldest, newest = hello.formats
    if oldest <= in_force <= newest or not in_force:
        return None
    return Refusal(
        f"{hello.name} reads formats {oldest} to {newest}, and this cluster uses {in_force}: "
        f"{hello.name} needs {'an older' if oldest > in_force else 'a newer'} version"
    )


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port"; raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """True for addresses that only this machine reaches."""
    return host == "localhost" or _is_loopback_ip(host)


def _is_loopback_ip(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
