"""A node's settings: one TOML file, overridden by the environment, checked as a whole.

Decides what may be configured and which configurations are safe to start with. Every wrong or
unknown key is reported in one go, with its path. It must not open sockets nor resolve names:
the same file gives the same verdict everywhere.
"""

import ipaddress
import re
import tomllib
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from coordinator.core.types import NamespaceKind, Policy
from coordinator.policy import PolicyFields, ShardCount, contradictions, merged
from coordinator.settings_tree import Faults, build, override

DEFAULT_API_PORT: Final = 7070
NODE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
NAMESPACE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_FILE_BYTES_MAX: Final = 1 << 20
"""No sensible file is larger; a wrong path to a log must not be parsed for minutes."""


class LogLevel(StrEnum):
    """The least severe event that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """Text for people, JSON lines for machines."""

    TEXT = "text"
    JSON = "json"


class NodeSettings(Struct, frozen=True, kw_only=True):
    """Who this node is, and who the members of its cluster are."""

    name: str = ""
    """Required; empty stands for absent, so that the rest can be checked as well."""
    peers: dict[str, str] = field(default_factory=dict)
    """Every member, this node included: name -> "host:port" of its Raft port."""
    raft_bind: str = ""
    """Where this node's Raft port listens, if that is not where peers find it."""


class ApiSettings(Struct, frozen=True, kw_only=True):
    """Where the HTTP API listens, and under which URL others reach it."""

    bind: str = f"127.0.0.1:{DEFAULT_API_PORT}"
    advertised_url: str = ""
    """By default `http://<bind>`, or `https`; to be given when the bind is a wildcard."""


class StorageSettings(Struct, frozen=True, kw_only=True):
    """Whether this node's state outlives its process."""

    dir: str = ""
    """Folder of the journal, this node's alone; empty keeps everything in memory."""


class SecuritySettings(Struct, frozen=True, kw_only=True):
    """What protects the ports."""

    peer_ca: str = ""
    """PEM file of whoever signs the certificates of members; with it the Raft port is TLS."""
    peer_certificate: str = ""
    """PEM file of this node's certificate, good for both ends of a connection."""
    peer_key: str = ""
    """PEM file of its private key, which only this node's user may read."""
    peer_names: dict[str, str] = field(default_factory=dict)
    """Member -> DNS name in its certificate, where that is not the member's own name."""
    tokens_file: str = ""
    """TOML file of who may ask what; empty lets everybody do everything."""
    api_certificate: str = ""
    """PEM file of what the API shows, with its chain; with it the API's port is TLS."""
    api_key: str = ""
    """PEM file of its private key, which only this node's user may read."""
    api_ca: str = ""
    """PEM file of whoever signs the APIs of members; empty asks the CAs of the machine."""
    api_client_ca: str = ""
    """PEM file of whoever signs certificates of clients, which `tokens_file` names."""
    insecure: bool = False
    """Listen beyond loopback although anybody who reaches the ports may do anything."""


class LogSettings(Struct, frozen=True, kw_only=True):
    """What is logged, and how. Logs go to stderr."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.TEXT


class LimitSettings(Struct, frozen=True, kw_only=True):
    """What one node spends on its callers at most."""

    connections: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    """Twice the waiters: each waiter is a connection, and others must still get in. One takes some
    40 KiB, or 65 with TLS; where all send at once what is refused, TLS takes 200."""
    connections_per_address: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Half of all: one machine gone wild leaves the rest to the others. A proxy is one address."""
    suspects_per_s: Annotated[float, Meta(gt=0, le=1_000_000)] = 100.0
    """New connections a second that are served of all addresses whose callers were refused 300
    times in a minute: to refuse so many more takes a node a twentieth of a core, and an honest
    fleet behind such an address comes in within seconds, the newest first."""
    watch_waiters: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000
    """Open long polls; measured: 8,000 of them see a change in under 0.5 s."""
    header_timeout_s: Annotated[float, Meta(gt=0, le=60)] = 5.0
    """A caller that has not finished its first header by then is cut off."""
    body_timeout_s: Annotated[float, Meta(gt=0, le=600)] = 10.0
    """16 MiB in ten seconds needs 13 Mbit/s; slower callers are cut off."""
    body_bytes: Annotated[int, Meta(ge=16 << 20, le=1 << 36)] = 128 << 20
    """Of bodies that arrive in pieces, all together, until they are answered: eight of the largest,
    or three thousand heartbeats of a thousand loads. Beyond, callers come back later (429)."""
    answer_timeout_s: Annotated[float, Meta(gt=0, le=600)] = 60.0
    """A caller that has not read its answer by then is cut off: the routing table of a million
    shards is 45 MB, which takes 6 Mbit/s."""
    answer_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 36)] = 256 << 20
    """Of large answers that are being read, each counted once however many read it: a few tables
    of a million shards, while changes make new ones. Beyond, callers come back later (429)."""
    shutdown_timeout_s: Annotated[float, Meta(gt=0, le=60)] = 3.0
    """How long a stopping node waits for requests in progress; long polls are released first."""


class NamespaceSettings(Struct, frozen=True, kw_only=True):
    """A namespace that the bootstrap creates when it is absent."""

    kind: NamespaceKind
    shard_count: ShardCount | None = None
    policy: PolicyFields = field(default_factory=PolicyFields)


class Settings(Struct, frozen=True, kw_only=True):
    """Everything a node is told."""

    node: NodeSettings = field(default_factory=NodeSettings)
    api: ApiSettings = field(default_factory=ApiSettings)
    storage: StorageSettings = field(default_factory=StorageSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    log: LogSettings = field(default_factory=LogSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    namespaces: dict[str, NamespaceSettings] = field(default_factory=dict)

    @property
    def api_address(self) -> tuple[str, int]:
        """Host and port that the API listens on."""
        return split_address(self.api.bind)

    @property
    def api_url(self) -> str:
        """The URL under which other nodes and clients reach this node's API."""
        scheme = "https" if self.security.api_certificate else "http"
        return self.api.advertised_url.rstrip("/") or f"{scheme}://{self.api.bind}"


class SettingsError(Exception):
    """The settings cannot be used; `errors` has every fault as "path: what is wrong"."""

    def __init__(self, errors: tuple[str, ...]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


def load_settings(path: str | Path, environ: Mapping[str, str]) -> Settings:
    """The settings of a file with the environment's overrides; raises `SettingsError`."""
    return parse_settings(_text_of(Path(path)), environ)


def parse_settings(text: str, environ: Mapping[str, str]) -> Settings:
    """The settings of a TOML text with the environment's overrides; raises `SettingsError`."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise SettingsError((f"is not TOML: {fault}",)) from None
    faults = Faults()
    override(tree, environ, faults)
    settings: Settings = build(Settings, tree, "", faults)
    for check in _CHECKS:
        check(settings, faults)
    if faults.found:
        raise SettingsError(tuple(faults.found))
    return settings


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[v6]:port"; raises `ValueError` with what is wrong."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{address!r}: write an IPv6 address in brackets: [::1]:7071")
    if not colon or not host or not re.fullmatch(r"[0-9]{1,5}", port):
        raise ValueError(f"{address!r} is not HOST:PORT")
    if not 1 <= int(port) <= 65535:
        raise ValueError(f"{address!r}: the port must be 1 to 65535")
    return host, int(port)


def url_fault(url: str) -> str | None:
    """What is wrong with the URL of a node's API; None when it can be used."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.path.rstrip("/") or parts.query or parts.fragment or parts.username:
        return f"{url!r} is not http(s)://HOST[:PORT]"
    return None


def is_loopback(host: str) -> bool:
    """Whether a host can only be reached from this machine. Names are not resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
        if len(data) > _FILE_BYTES_MAX:
            raise SettingsError((f"is larger than {_FILE_BYTES_MAX} bytes",))
        return data.decode("utf-8")
    except OSError as fault:
        raise SettingsError((f"cannot be read: {fault.strerror or fault}",)) from None
    except UnicodeDecodeError:
        raise SettingsError(("is not UTF-8",)) from None


def _check_node(settings: Settings, faults: Faults) -> None:
    node = settings.node
    if not node.name:
        faults.add("node.name", "is missing")
    elif not NODE_NAME.fullmatch(node.name):
        faults.add("node.name", f"{node.name!r} does not match {NODE_NAME.pattern}")
    elif not node.peers:
        faults.add("node.peers", "is missing")
    elif node.name not in node.peers:
        faults.add(f"node.peers.{node.name}", "is missing: this node is a member as well")
    if node.raft_bind:
        try:
            split_address(node.raft_bind)
        except ValueError as fault:
            faults.add("node.raft_bind", str(fault))
    seen: dict[tuple[str, int], str] = {}
    for name, address in node.peers.items():
        path = f"node.peers.{name}"
        if not NODE_NAME.fullmatch(name):
            faults.add(path, f"{name!r} does not match {NODE_NAME.pattern}")
        try:
            parts = split_address(address)
        except ValueError as fault:
            faults.add(path, str(fault))
            continue
        if parts in seen:
            faults.add(path, f"has the same address as node.peers.{seen[parts]}")
        seen[parts] = name


def _check_api(settings: Settings, faults: Faults) -> None:
    try:
        host, _ = split_address(settings.api.bind)
    except ValueError as fault:
        faults.add("api.bind", str(fault))
        return
    url = settings.api.advertised_url
    if not url:
        if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
            faults.add("api.advertised_url", f"is needed as api.bind is a wildcard ({host})")
        return
    if wrong := url_fault(url):
        faults.add("api.advertised_url", wrong)
    elif settings.security.api_certificate and not url.startswith("https://"):
        faults.add("api.advertised_url", "must be https://, as the port has a certificate")


def _check_exposure(settings: Settings, faults: Faults) -> None:
    """Off loopback anybody could drain and move: that must be asked for."""
    if settings.security.insecure:
        return
    own, node, security = {}, settings.node, settings.security
    lacking = [key for key in ("tokens_file", "api_certificate") if not getattr(security, key)]
    if lacking:
        named = " and ".join(f"security.{key}" for key in lacking)
        own["api.bind"] = (settings.api.bind, f"lacks {named}")
    if not settings.security.peer_ca:
        lack = "without security.peer_ca it has no TLS"
        if node.raft_bind:
            own["node.raft_bind"] = (node.raft_bind, lack)
        elif node.name in node.peers:
            own[f"node.peers.{node.name}"] = (node.peers[node.name], lack)
    for path, (address, lack) in own.items():
        try:
            host, _ = split_address(address)
        except ValueError:
            continue  # reported where it is checked
        if not is_loopback(host):
            faults.add(
                path,
                f"{host} is not loopback and {lack}, so strangers who reach the port or listen in"
                " could move shards; set security.insecure = true if only trusted machines can",
            )


def _check_certificates(settings: Settings, faults: Faults) -> None:
    """What goes together is whole, and no two members have one name."""
    security, peers = settings.security, settings.node.peers
    files = {
        "peer_ca": security.peer_ca,
        "peer_certificate": security.peer_certificate,
        "peer_key": security.peer_key,
    }
    given = [key for key, path in files.items() if path]
    for key in files:
        if given and key not in given:
            faults.add(f"security.{key}", f"is missing: it goes with security.{given[0]}")
    if bool(security.api_certificate) != bool(security.api_key):
        lacking = "api_key" if security.api_certificate else "api_certificate"
        given_key = "api_certificate" if security.api_certificate else "api_key"
        faults.add(f"security.{lacking}", f"is missing: it goes with security.{given_key}")
    for key in ("api_certificate", "tokens_file"):
        if security.api_client_ca and not getattr(security, key):
            faults.add(f"security.{key}", "is missing: it goes with security.api_client_ca")
    for member in security.peer_names:
        if member not in peers:
            faults.add(f"security.peer_names.{member}", "is not among node.peers")
    seen: dict[str, str] = {}
    for member in peers if given else ():
        name = security.peer_names.get(member, member).lower()
        if name in seen:
            faults.add(
                f"security.peer_names.{member}",
                f"{name!r} is the name of {seen[name]} as well, and case does not count",
            )
        seen[name] = member


def _check_namespaces(settings: Settings, faults: Faults) -> None:
    for name, namespace in settings.namespaces.items():
        path = f"namespaces.{name}"
        if not NAMESPACE_NAME.fullmatch(name):
            faults.add(path, f"{name!r} does not match {NAMESPACE_NAME.pattern}")
        if namespace.kind is NamespaceKind.FIXED and namespace.shard_count is None:
            faults.add(f"{path}.shard_count", "is missing: a fixed namespace needs it")
        if namespace.kind is NamespaceKind.OPEN and namespace.shard_count is not None:
            faults.add(f"{path}.shard_count", "an open namespace has no count")
        for at, message in contradictions(merged(Policy(), namespace.policy)):
            faults.add(f"{path}.policy.{at}", message)


_CHECKS: Final[tuple[Callable[[Settings, Faults], None], ...]] = (
    _check_node,
    _check_api,
    _check_exposure,
    _check_certificates,
    _check_namespaces,
)
