"""Answers that a test decides, for code that does not need a coordinator to be tested.

Decides nothing itself. Works without an event loop.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Final, NoReturn, Self

from client import errors
from client.clock import lease_now_s
from client.lease import Lease
from client.protocol import RoutedExecutor, RoutingAnswer
from client.router import LOOKUP_TIMEOUT_S, Router
from client.shard import Shard, Tenure
from client.table import Owner
from client.transport import TransportFailed

_FOR_EVER_S: Final = 1e9


class FrozenRouter(Router):
    """A router that knows what it was told, for ever; entering it is possible and not needed."""

    def __init__(
        self,
        placement: Mapping[str, str],
        *,
        addresses: Mapping[str, str] | None = None,
        namespace: str = "test",
    ) -> None:
        super().__init__(["http://frozen.test"], namespace=namespace, transport=_Nowhere())
        self._addresses: Final = dict(addresses or {})
        self._placement: Final[dict[str, tuple[str, int]]] = {}
        self._stopped: Final[set[str]] = set()
        self._told = 0
        for key, executor in placement.items():
            self._placement[key] = (executor, len(self._placement) + 1)
        self._tell()

    def move(self, key: str, to: str) -> Owner:
        """The shard belongs to somebody else from now on, under a higher epoch."""
        self._stopped.discard(key)
        self._placement[key] = (to, self._told + len(self._placement) + 1)
        self._tell()
        return self._known(key)

    def park(self, key: str) -> None:
        """Nobody may run the shard from now on."""
        self._placement.pop(key, None)
        self._stopped.add(key)
        self._tell()

    def drop(self, key: str) -> None:
        """The shard has no owner from now on."""
        self._placement.pop(key, None)
        self._tell()

    async def lookup(self, key: str, *, timeout_s: float = LOOKUP_TIMEOUT_S) -> Owner:
        """The owner; raises `ShardParked` or `Unassigned` at once."""
        del timeout_s
        return self._known(key)

    async def misdirected(self, key: str, epoch: int) -> Owner | None:
        """The owner as before: nothing changes by itself."""
        del epoch
        return self.owner(key)

    @property
    def is_stale(self) -> bool:
        """Never: there is nothing that it could be behind of."""
        return False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is open."""

    def _known(self, key: str) -> Owner:
        if self.is_parked(key):
            raise errors.ShardParked(f"{key!r} is parked", reason="shard_parked", status=409)
        if (owner := self.owner(key)) is None:
            raise errors.Unassigned(f"{key!r} has no owner", reason="shard_unassigned", status=503)
        return owner

    def _tell(self) -> None:
        self._told += 1
        executors = {executor for executor, _ in self._placement.values()}
        self._table.apply(
            RoutingAnswer(
                kind="snapshot",
                cursor=f"frozen:{self._told}",
                executors={
                    name: RoutedExecutor(address=self._addresses.get(name, ""))
                    for name in sorted(executors)
                },
                owners=dict(self._placement),
                parked=sorted(self._stopped),
            )
        )
        self._is_ready.set()
        if self._on_change is not None:
            self._on_change()


def freeze(
    placement: Mapping[str, str],
    *,
    addresses: Mapping[str, str] | None = None,
    namespace: str = "test",
) -> FrozenRouter:
    """A router for a fixed placement: shard -> executor, and executor -> address if that matters.

    router = freeze({"orders": "e1"}, addresses={"e1": "10.0.0.1:80"})
    """
    return FrozenRouter(placement, addresses=addresses, namespace=namespace)


class LoneShard(Shard):
    """A shard that is owned until the test says otherwise: `await on_start(LoneShard("jobs"))`."""

    __slots__ = ()

    def __init__(self, key: str, *, namespace: str = "test", epoch: int = 1) -> None:
        now, lease = lease_now_s(), Lease()
        lease.renew(now, _FOR_EVER_S, _FOR_EVER_S)
        tenure = Tenure(key, epoch, lease, now)
        tenure.is_granted = True
        super().__init__(namespace, tenure, lease_now_s)

    def lose(self) -> None:
        """It may be acted on no more, as when its lease is over or its stop has begun."""
        self._tenure.is_granted = False

    def adopt(self, epoch: int) -> None:
        """It goes on under a higher epoch, without stop and start."""
        if epoch <= self.epoch:
            raise ValueError(f"an epoch only grows: {epoch} after {self.epoch}")
        self._tenure.epoch = epoch


class _Nowhere:
    async def request(self, method: str, url: str, **_: object) -> NoReturn:
        raise TransportFailed(f"{method} {url}: a frozen router asks nobody", was_sent=False)

    async def close(self) -> None:
        pass
