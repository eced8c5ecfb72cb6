"""The express lane: what a fleet asks all day, answered without a task, a request or a response.

aiohttp makes two tasks' turns, a request and a response of each call, which is most of what a
heartbeat or a look-up costs. Of the routes that say what their usual answer is (`Route.usual`) this
module takes the calls that are plain, and writes that answer itself. It decides what is plain, and
refuses nothing: whatever it does not answer with 200, the ordinary way (`serve`) looks at anew, so
there is one place for every check that can fail. It must not know any single route.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from aiohttp import HttpVersion11, hdrs
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from coordinator.api.asked import Asked, Told, Usual
from coordinator.api.bodies import Decode
from coordinator.api.call import Desk
from coordinator.api.encoding import JSON, MSGPACK, encoded
from coordinator.api.parameters import CONSISTENCY
from coordinator.api.problems import Refusal
from coordinator.api.request_ids import HEADER as ID_HEADER
from coordinator.api.request_ids import RequestIds
from coordinator.api.route import Leader, Route
from coordinator.api.serve import decoder_of
from coordinator.api.shelf import Shape
from coordinator.consensus import Confirmation, ConsensusError
from coordinator.leadership import Confirmed

log = logging.getLogger("coordinator.api")

SPECIAL: Final = (hdrs.ORIGIN, hdrs.EXPECT, hdrs.CONTENT_ENCODING)
"""Headers that ask for more: a page's, one that waits for a word before its body, a packed body."""
_PROVEN: Final = {"": False, "consistency=local": False, "consistency=linearizable": True}
"""The queries that are plain, and whether they want a quorum's word."""


class Talk(Protocol):
    """The connection that a request came over."""

    def answered(self, answer: bytes | None) -> None:
        """The answer of what waited; None: the ordinary way is to give it."""


class Lane:
    """One route."""

    def __init__(self, route: Route, usual: Usual) -> None:
        self.route = route
        self.usual = usual
        self.shape = Shape(route.path)
        self.decode: Decode | None = decoder_of(route)
        self.is_proven = route.leader is Leader.MUST
        """Whether its answer always rests on a quorum's word."""
        self.has_consistency = CONSISTENCY in route.parameters


class Waiting:
    """A request that waits for a quorum's word."""

    __slots__ = ("_answer", "_confirmation", "asked", "payload", "talk")

    def __init__(
        self, asked: Asked, payload: StreamReader, talk: Talk, answer: Callable[[], bytes | None]
    ) -> None:
        self.asked = asked
        self.payload = payload
        self.talk = talk
        self._answer = answer
        self._confirmation: Confirmation | None = None

    def wait(self, confirmation: Confirmation) -> None:
        """From now on."""
        self._confirmation = confirmation

    def forget(self) -> None:
        """Whoever asked is gone."""
        if self._confirmation is not None:
            self._confirmation.forget()

    def confirmed(self, confirmed: Confirmed | None) -> None:
        """The word came, or there is none. The body is decoded only now.

        The records of all who wait for the same word would push each other out of the processor's
        caches, and its first use would be as slow as to decode it.
        """
        if confirmed is None:
            self.talk.answered(None)
            return
        self.asked.confirmed = confirmed
        if self.asked.decode is not None:
            self.asked.payload = self.payload.read_nowait()
        self.talk.answered(self._answer())


class Express:
    """The lanes of one node."""

    def __init__(self, desk: Desk, routes: Sequence[Route], request_ids: RequestIds) -> None:
        self._desk = desk
        self._request_ids = request_ids
        self._lanes: dict[tuple[str, int, str], Lane] = {}
        for route in routes:
            if route.usual is not None:
                segments = route.path.split("/")
                lane = Lane(route, route.usual)
                self._lanes[route.method, len(segments), segments[-1]] = lane
        self._signed: tuple[str | None, str | None] = (None, None)
        self._signature = ""

    def take(
        self, message: RawRequestMessage, payload: StreamReader, talk: Talk
    ) -> bytes | Waiting | None:
        """The answer; or what will tell `talk` of one; or None: it is none of these."""
        parts = message.path.partition("?")[0].split("/")
        lane = self._lanes.get((message.method, len(parts), parts[-1]))
        if lane is None:
            return None
        is_proven = self._is_proven(message, payload, lane)
        path = lane.shape.variables(parts)
        if is_proven is None or path is None or (is_proven and not self._desk.leader.is_leading):
            return None
        is_likely = lane.route.is_likely
        if is_likely is not None and not is_likely(self._desk, path):
            return None
        caller = self._desk.door.recognised(message.method, message.headers, path, lane.route)
        if caller is None:
            return None
        received_at = self._desk.clock.monotonic()
        asked = Asked(self._desk, path, message.headers, caller, received_at, lane.decode)
        if not is_proven:
            return self._answer(lane, asked)
        waiting = Waiting(asked, payload, talk, lambda: self._answer(lane, asked))
        try:
            waiting.wait(self._desk.leader.when_confirmed(waiting.confirmed, lane.route.patience_s))
        except ConsensusError:
            return None
        return waiting

    def _is_proven(
        self, message: RawRequestMessage, payload: StreamReader, lane: Lane
    ) -> bool | None:
        """Whether it wants a quorum's word; None of a request that is not plain."""
        if (
            message.version != HttpVersion11
            or message.should_close
            or message.upgrade
            or message.chunked
            or "%" in message.path
            or "#" in message.path
            or "/." in message.path
            or not payload.is_eof()  # not all of it came with its header
            or (payload is not EMPTY_PAYLOAD) is (lane.decode is None)
        ):
            return None
        headers = message.headers
        for special in SPECIAL:
            if special in headers:
                return None
        query = message.path.partition("?")[2]
        if query and not lane.has_consistency:
            return None
        wants_proof = _PROVEN.get(query)
        return None if wants_proof is None else wants_proof or lane.is_proven

    def _answer(self, lane: Lane, asked: Asked) -> bytes | None:
        """The usual answer as it goes over the wire, or None where it is not the usual one."""
        if len(asked.payload) > lane.route.body_bytes_max:
            return None
        try:
            told = lane.usual(asked)
            if told is None:
                return None
            answer = self._written(lane, asked, told)
        except (Refusal, ConsensusError):
            return None  # said by the ordinary way, in full
        except Exception:
            log.exception("express_failed route=%s", lane.route.path)
            return None
        meters = self._desk.replica.meters
        meters.answered[lane.route.path, 200] += 1
        meters.took(lane.route.path, meters.monotonic() - asked.received_at)
        return answer

    def _written(self, lane: Lane, asked: Asked, told: Told) -> bytes:
        as_msgpack = lane.route.has_msgpack and MSGPACK in asked.headers.get(hdrs.ACCEPT, "")
        body = encoded(told.record, as_msgpack=as_msgpack)
        freshness = "" if told.read is None else _lines(self._desk.freshness(told.read))
        header = (
            f"HTTP/1.1 200 OK\r\nContent-Type: {MSGPACK if as_msgpack else JSON}\r\n{freshness}"
            f"{ID_HEADER}: {self._request_ids.of(asked.headers)}\r\n{self._signs()}"
            f"Content-Length: {len(body)}\r\nDate: {rfc822_formatted_time()}\r\n"
            f"Server: {SERVER_SOFTWARE}\r\n\r\n"
        )
        return header.encode() + body

    def _signs(self) -> str:
        """What every answer to somebody who is known tells of the cluster."""
        told = (self._desk.replica.state.cluster_id, self._desk.leader_url)
        if told != self._signed:
            names = zip(("X-Cluster-Id", "X-Leader"), told, strict=True)
            self._signature = _lines({name: text for name, text in names if text is not None})
            self._signed = told
        return self._signature


def _lines(headers: Mapping[str, Any]) -> str:
    return "".join(f"{name}: {text}\r\n" for name, text in headers.items())
