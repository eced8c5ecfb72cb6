"""Who may be at the other end of a link: the hello both sides say first, and its check.

Decides whether a hello is admitted. Must not know sockets. A name is a claim until peers have
certificates; so a plaintext port stays on loopback.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator.consensus.codec import Malformed, pack, unpack

MAGIC: Final = "shard-coordinator-raft"
FORMAT: Final = 1
"""Of messages and entries; a node refuses peers of another format."""
TEXT_MAX: Final = 512


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a hello is not admitted."""

    reason: str


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
        }
    )


def encode_refusal(refusal: Refusal) -> bytes:
    """The refusal as one frame's body; only said to whoever spoke this protocol."""
    return pack({"magic": MAGIC, "format": FORMAT, "refused": refusal.reason})


def decode_hello(data: bytes | memoryview) -> Hello | Refusal:
    """What the other side said; raises Malformed when it does not speak this protocol."""
    said: Any = unpack(data)
    if type(said) is not dict or said.get("magic") != MAGIC:
        raise Malformed("not a hello")
    if "refused" in said:
        return Refusal(str(said["refused"])[:TEXT_MAX])
    if said.get("format") != FORMAT:
        return Refusal(f"format {said.get('format')!r} is spoken there, {FORMAT} here"[:TEXT_MAX])
    fields = (said.get("name"), said.get("to"), said.get("api_url"))
    cluster_id = said.get("cluster_id")
    if not all(type(field) is str and len(field) <= TEXT_MAX for field in fields):
        raise Malformed("a hello without its fields")
    if cluster_id is not None and (type(cluster_id) is not str or len(cluster_id) > TEXT_MAX):
        raise Malformed("a cluster id is a string")
    return Hello(str(fields[0]), str(fields[1]), cluster_id, str(fields[2]))


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
            "restart the node that shall give up its state, and it joins the other cluster"
        )
    return None


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
