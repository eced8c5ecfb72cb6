"""One request on its way through a handler, and what all handlers share.

Decides how names, keys, cursors and bodies are read and how answers are written. It must not know
what any route does.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from aiohttp import web
from multidict import CIMultiDict

from coordinator.api import query as read
from coordinator.api.bodies import Decode
from coordinator.api.cursor import Cursor, parse
from coordinator.api.door import Door
from coordinator.api.encoding import JSON, MSGPACK, encoded
from coordinator.api.forward import CALLER_HEADER, Forwarder
from coordinator.api.kept import KeptAnswers
from coordinator.api.origins import nodes_of
from coordinator.api.outgoing import Outgoing
from coordinator.api.problems import Refusal, invalid
from coordinator.api.rights import ANYBODY, Caller
from coordinator.api.tables import Tables
from coordinator.api.watch import Polls
from coordinator.clock import Clock
from coordinator.consensus import Status
from coordinator.core.namespace import NamespaceState
from coordinator.forecasts import Forecasts
from coordinator.leadership import Leadership
from coordinator.metrics import NodeMetrics
from coordinator.replica import Replica
from coordinator.settings import Settings

STATUS_AGE_S: Final = 0.05
"""How old the consensus status in a header may be: it is a figure of tenths of seconds."""

Body = TypeVar("Body")


@dataclass(slots=True)
class Desk:
    """What the handlers of one node share."""

    replica: Replica
    leader: Leadership
    settings: Settings
    clock: Clock
    polls: Polls
    forwarder: Forwarder
    metrics: NodeMetrics
    forecasts: Forecasts
    door: Door
    kept: KeptAnswers
    openapi: bytes
    """The document that describes this API."""
    outgoing: Outgoing
    tables: Tables = field(default_factory=Tables)
    _status: Status | None = None
    _status_at: float = 0.0

    @property
    def cluster_id(self) -> str:
        """The cluster's id; refuses while this node does not know it."""
        cluster_id = self.replica.state.cluster_id
        if cluster_id is None or self.recent_status().role == "quarantined":
            raise Refusal("recovering", "this node has not caught up since its start")
        return cluster_id

    @property
    def leader_url(self) -> str | None:
        """The API of the leader, as far as this node knows."""
        return self.replica.consensus.leader_api_url

    @property
    def signature(self) -> dict[str, str]:
        """The headers that tell everybody who is known of the cluster."""
        told = (self.replica.state.cluster_id, self.leader_url)
        names = zip(("X-Cluster-Id", "X-Leader"), told, strict=True)
        return {name: text for name, text in names if text is not None}

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins of this cluster's nodes, as browsers write them."""
        moved = {name: one.api for name, one in self.replica.state.moved.items()}
        return nodes_of(self.settings.api_url, self.recent_status(), moved)

    def recent_status(self) -> Status:
        """The consensus status, at most `STATUS_AGE_S` old: it is shown, not decided on."""
        now = self.clock.monotonic()
        if self._status is None or now - self._status_at > STATUS_AGE_S:
            self._status = self.replica.consensus.status()
            self._status_at = now
        return self._status

    def freshness(self, namespace: NamespaceState) -> dict[str, str]:
        """How fresh a local read is."""
        age_s = self.recent_status().leader_contact_age_s
        headers = {"X-Revision": str(namespace.revision)}
        if age_s is not None:
            headers["X-Leader-Contact-Seconds"] = f"{age_s:.3f}"
        return headers

    def cursor_of(self, namespace: NamespaceState) -> str:
        """The cursor of this node's present state."""
        return f"{self.cluster_id}:{namespace.revision}"


@dataclass(slots=True)
class Call(Generic[Body]):
    """A request whose route is known and whose body is read."""

    desk: Desk
    request: web.Request
    path: Mapping[str, str]
    """The variables of the path."""
    body: Body
    payload: bytes
    is_msgpack: bool = False
    """Whether the caller wants msgpack where the route offers it."""
    caller: Caller = ANYBODY
    """Who asks."""
    decode: Decode | None = None

    # -- what was asked ------------------------------------------------------------------

    def late_body(self) -> Body:
        """The record of a body that is read late."""
        if self.decode is None:
            raise TypeError("this route has no body")
        record: Body = self.decode(self.request.headers, self.payload)
        return record

    @property
    def query(self) -> Any:
        """The query parameters; unknown names were refused before."""
        return self.request.query

    @property
    def namespace_name(self) -> str:
        """The namespace in the path, well formed."""
        return read.namespace_name(self.path["namespace"])

    @property
    def namespace(self) -> NamespaceState:
        """The namespace in the path as this node knows it."""
        return self.namespace_of(self.path["namespace"])

    def namespace_of(self, name: str) -> NamespaceState:
        """A namespace as this node knows it, or a refusal."""
        found = self.desk.replica.state.namespaces.get(name)
        if found is not None:
            return found
        read.namespace_name(name)
        _ = self.desk.cluster_id
        raise Refusal("namespace_not_found", f"no namespace {name!r}")

    def placed(self, namespace: NamespaceState) -> NamespaceState:
        """The same namespace, or a refusal while executors may know more of it than its table.

        Whoever reads an empty table in that time would stop, or send calls astray, for nothing.
        """
        window = namespace.info.window
        if window is not None:
            raise Refusal(
                "recovering",
                f"executors of {namespace.info.name!r} are heard for what they hold from before",
                retry_after_s=min(1.0, window.lease_s / 4),
            )
        return namespace

    @property
    def executor(self) -> str:
        """The executor in the path."""
        return read.executor_id(self.path["executor"])

    @property
    def host(self) -> str:
        """The host in the path."""
        return read.executor_id(self.path["host"], "host")

    @property
    def key(self) -> str:
        """The shard key in the path, behind /v1/namespaces/NAMESPACE/shards/."""
        raw_path = self.request.rel_url.raw_path
        if "%" in raw_path:
            return read.shard_key(read.raw_segment(raw_path, 4))
        return read.shard_key(self.path["key"])

    @property
    def cursor(self) -> Cursor | None:
        """The cursor the caller has seen."""
        text = self.query.get("after")
        if not text:
            return None
        cursor = parse(text)
        if cursor is None:
            raise invalid("after", "is no cursor that was ever given out")
        return cursor

    @property
    def wait_s(self) -> float:
        """How long the caller waits for news."""
        return read.wait_s(self.query)

    @property
    def by(self) -> str:
        """Who gives an order: the label of a token or certificate; without logins, an address."""
        if self.caller.label:
            return self.caller.label
        request = self.request
        told = request.headers.get(CALLER_HEADER)
        if told is not None:
            try:
                return str(ipaddress.ip_address(told))
            except ValueError:
                pass  # not written by a node
        return request.remote or "unknown"

    # -- what is answered ----------------------------------------------------------------

    def answer(
        self, record: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> web.Response:
        """A record as JSON, or msgpack where the caller asked for it and the route offers it."""
        told: CIMultiDict[str] = CIMultiDict(headers or ())  # aiohttp takes this without a copy
        told["Content-Type"] = MSGPACK if self.is_msgpack else JSON
        return self.answer_bytes(encoded(record, as_msgpack=self.is_msgpack), status, told)

    def answer_bytes(self, body: bytes, status: int, headers: Mapping[str, str]) -> web.Response:
        """A body that is encoded already, however large and however slowly it is read."""
        return self.desk.outgoing.answer(self.request, body, status, headers)

    def answer_read(self, record: object, namespace: NamespaceState) -> web.Response:
        """The same for a local read: it says how fresh it is."""
        return self.answer(record, headers=self.freshness(namespace))

    def freshness(self, namespace: NamespaceState) -> dict[str, str]:
        """How fresh a local read is."""
        return self.desk.freshness(namespace)

    def cursor_of(self, namespace: NamespaceState) -> str:
        """The cursor of this node's present state."""
        return self.desk.cursor_of(namespace)


def timestamp(at_ms: int) -> str:
    """RFC 3339 in UTC of wall milliseconds."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
