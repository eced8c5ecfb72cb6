"""The door: who asks, whether they may, and how often.

Decides who a request is from: the bearer of a token, the holder of a certificate, or, on a node
that has no file of tokens, anybody. What roles may do is decided in `rights`, who is known in
`tokens`. It must not know what a route does. Nothing here writes a secret anywhere.
"""

import logging
import ssl
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from coordinator.api.addresses import network_of
from coordinator.api.problems import Refusal
from coordinator.api.rates import FAILURES_MAX, Failures, Rates
from coordinator.api.rights import ANYBODY, NOBODY, Caller, Need, Right, why_not
from coordinator.api.tokens import Credential, TokenBook
from coordinator.clock import Clock
from coordinator.settings import Settings, is_loopback

log = logging.getLogger("coordinator.api")

KNOWN: Final = web.RequestKey("known", bool)
SCHEME: Final = "bearer "
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="shard-coordinator"'}
LINES_PER_S: Final = 0.2
"""Of the log about those who are not let in, after a first one: a flood must not fill a disk."""
_LOG: Final = "log"
_HOSTS_MAX: Final = 64
"""Host headers remembered as good: a node has a handful of names."""
_CHANGES_NOTHING: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})


class TurnedAway(StrEnum):
    """Why a request ends at the door, as the metrics and the log name it."""

    NO_CREDENTIAL = "no_credential"
    UNKNOWN_CREDENTIAL = "unknown_credential"
    TOO_MANY_FAILURES = "too_many_failures"
    FORBIDDEN = "forbidden"
    RATE = "rate"
    FOREIGN_PAGE = "foreign_page"


class Door:
    """Lets requests in. `book` may be exchanged at any time; None lets everybody in."""

    def __init__(self, settings: Settings, clock: Clock, book: TokenBook | None = None) -> None:
        self._clock = clock
        self._book = book
        self._failures = Failures()
        self._rates = Rates()
        self._lines = Rates()
        self._hosts: set[str] = set()
        self._own_host = urlsplit(settings.api_url).hostname or ""
        # A page that gives its own name the address of this machine reaches what is bound to
        # loopback, with its own name as Host. Elsewhere, names are the network's affair.
        self._checks_hosts = is_loopback(settings.api_address[0])
        self._counted: Counter[str] = Counter()

    @property
    def book(self) -> TokenBook | None:
        """Everybody who is known; None while nobody has to be."""
        return self._book

    def count_into(self, counted: Counter[str]) -> None:
        """Count there from now on; what has not happened yet is zero, or its rate would miss it."""
        counted.update(dict.fromkeys(TurnedAway, 0))
        self._counted = counted

    def exchange(self, book: TokenBook) -> None:
        """Know these from now on, and nobody else."""
        self._book = book
        self._rates.keep(book.labels)

    def admit(self, request: web.Request, path: Mapping[str, str], need: Need) -> Caller:
        """Who asks; refuses who is not known, and who may not."""
        if need.right is Right.OPEN:
            return NOBODY
        if request.method not in _CHANGES_NOTHING:
            self._check_origin(request)
        if self._book is None:
            if self._checks_hosts:
                self._check_host(request)
            return ANYBODY
        found = self._found(request, self._book)
        request[KNOWN] = True
        if found.requests_per_s is not None:
            self._check_rate(found.caller.label, found.requests_per_s)
        self._check(found.caller, path, need)
        return found.caller

    def recognised(
        self, method: str, headers: Mapping[str, str], path: Mapping[str, str], need: Need
    ) -> Caller | None:
        """Who asks, if that takes no second look: None for whoever is to go through `admit`.

        So are all who would be refused, who have a rate, who are known by a certificate, and
        pages. Nothing is counted, and nothing is told.
        """
        if method not in _CHANGES_NOTHING and hdrs.ORIGIN in headers:
            return None
        if self._book is None:
            if self._checks_hosts and headers.get(hdrs.HOST) not in self._hosts:
                return None
            return ANYBODY
        header = headers.get(hdrs.AUTHORIZATION, "")
        if header[: len(SCHEME)].lower() != SCHEME:
            return None
        found = self._book.bearer(header[len(SCHEME) :].strip(), self._clock.wall_ms())
        if found is None or found.requests_per_s is not None:
            return None
        return None if self._fault(found.caller, path, need) else found.caller

    def readmit(
        self, request: web.Request, path: Mapping[str, str], need: Need, admitted: Caller
    ) -> None:
        """Refuse who would not be admitted any more: asked before an answer that took long."""
        if self._book is None or need.right is Right.OPEN:
            return
        caller = self._found(request, self._book).caller
        if caller is not admitted:
            self._check(caller, path, need)

    def knows(self, request: web.Request) -> bool:
        """Whether the caller was recognised: strangers learn nothing of the cluster, not its id."""
        return self._book is None or KNOWN in request

    def is_certified(self, request: web.Request) -> bool:
        """Whether it is a certificate by which the caller is known."""
        return self._book is not None and hdrs.AUTHORIZATION not in request.headers

    # -- who --------------------------------------------------------------------------------

    def _found(self, request: web.Request, book: TokenBook) -> Credential:
        now_ms = self._clock.wall_ms()
        header = request.headers.get(hdrs.AUTHORIZATION)
        if header is None:
            names = certified_names(request, now_ms)
            found = None if names is None else book.named(names, now_ms)
            why = TurnedAway.UNKNOWN_CREDENTIAL if names else TurnedAway.NO_CREDENTIAL
        else:
            is_bearer = header[: len(SCHEME)].lower() == SCHEME
            found = book.bearer(header[len(SCHEME) :].strip(), now_ms) if is_bearer else None
            why = TurnedAway.UNKNOWN_CREDENTIAL
        if found is None:
            raise self._unknown(request, why)
        return found

    def _unknown(self, request: web.Request, why: TurnedAway) -> Refusal:
        """No detail: neither what was wrong with it, nor what would have been right.

        Who is known is let in from any address, however often that address failed: nobody can
        keep an honest fleet out by failing in its place.
        """
        if KNOWN in request:  # until now
            del request[KNOWN]
        now, address = self._clock.monotonic(), request.remote or "unknown"
        network = network_of(address)
        failures = self._failures.count(network, now)
        if failures <= FAILURES_MAX:
            self._tell(why, address, failures)
            return Refusal("unauthenticated", headers=CHALLENGE)
        self._tell(TurnedAway.TOO_MANY_FAILURES, address, failures)
        return Refusal(
            "rate_limited",
            "too many requests from this address that did not say who asks",
            retry_after_s=self._failures.wait_s(network, now),
            is_last=True,
        )

    # -- whether ----------------------------------------------------------------------------

    def _check(self, caller: Caller, path: Mapping[str, str], need: Need) -> None:
        fault = self._fault(caller, path, need)
        if fault is not None:
            self._tell(TurnedAway.FORBIDDEN, caller.label, 1)
            raise Refusal("forbidden", fault)

    def _fault(self, caller: Caller, path: Mapping[str, str], need: Need) -> str | None:
        return why_not(
            caller,
            need.right,
            namespace=path.get("namespace"),
            executor=path.get("executor"),
            is_narrowed=need.is_narrowed,
        )

    def _check_rate(self, label: str, per_s: float) -> None:
        wait_s = self._rates.take(label, per_s, self._clock.monotonic())
        if wait_s > 0.0:
            self._counted[TurnedAway.RATE] += 1
            raise Refusal(
                "rate_limited", f"the token is good for {per_s:g} requests/s", retry_after_s=wait_s
            )

    def check_birth(self, request: web.Request) -> None:
        """A page of another site cannot make anything by a question, either.

        A browser asks such questions without an `Origin` (pictures, links), and says from where.
        """
        if request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
            self._tell(TurnedAway.FOREIGN_PAGE, request.remote or "unknown", 1)
            raise Refusal("forbidden", "pages of other sites may not change anything here")
        self._check_origin(request)

    def _check_origin(self, request: web.Request) -> None:
        """A page of another site cannot give orders in the name of who looks at it."""
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is None:  # no browser, or none that would let a page do this
            return
        host = request.headers.get(hdrs.HOST, "")
        if origin not in {f"http://{host}", f"https://{host}"}:
            self._tell(TurnedAway.FOREIGN_PAGE, request.remote or "unknown", 1)
            raise Refusal("forbidden", "pages of other sites may not change anything here")

    def _check_host(self, request: web.Request) -> None:
        host = request.headers.get(hdrs.HOST)
        if host is None or host in self._hosts:
            return
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            name = ""
        if name != self._own_host and not is_loopback(name):
            self._tell(TurnedAway.FOREIGN_PAGE, request.remote or "unknown", 1)
            raise Refusal("forbidden", "this node is asked by loopback addresses, or its own name")
        if len(self._hosts) < _HOSTS_MAX:
            self._hosts.add(host)

    def _tell(self, why: TurnedAway, who: str, failures: int) -> None:
        self._counted[why] += 1
        if self._lines.take(_LOG, LINES_PER_S, self._clock.monotonic()) == 0.0:
            log.warning("turned_away why=%s who=%s failures=%d", why, who, failures)


def certified_names(request: web.Request, now_ms: int) -> frozenset[str] | None:
    """The DNS names in the caller's certificate; None without one, or once it has run out.

    The handshake proved that it is the caller's and that our CA signed it.
    """
    certificate = request.get_extra_info("peercert")
    if not certificate:
        return None
    if ssl.cert_time_to_seconds(certificate["notAfter"]) * 1000 <= now_ms:
        return None  # a connection may outlive what it was let in by
    alternatives = certificate.get("subjectAltName", ())
    return frozenset(name.lower() for kind, name in alternatives if kind == "DNS")
