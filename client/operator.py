"""What operators do, one typed method per request.

Decides defaults and how to wait for a drain. What requests look like is in `calls`, how they reach
a node in `connection`.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Final, Literal, Self, TypeVar, Unpack

from client import calls, errors, views
from client.call import Call
from client.clock import lease_now_s
from client.connection import Access, Connection
from client.operator_balance import BalanceVerbs
from client.operator_news import NewsVerbs
from client.transport import Transport

T = TypeVar("T")

TIMEOUT_S: Final = 10.0  # an election takes one or two seconds; operators do not wait much longer
PAGE_LIMIT: Final = 1_000  # a page of shards stays well under a megabyte
WAIT_TIMEOUT_S: Final = 300.0  # a drain moves a host's shards at the namespace's pace: minutes
_POLL_S: Final = 0.5  # progress of a drain is for people; faster would only load the leader


class Operator(BalanceVerbs, NewsVerbs):
    """Reads and changes what the coordinator decides; also an async context manager."""

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        timeout_s: float = TIMEOUT_S,
        transport: Transport | None = None,
        rng: random.Random | None = None,
        monotonic: Callable[[], float] = lease_now_s,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        **access: Unpack[Access],
    ) -> None:
        self.connection: Final = Connection(
            endpoints, transport=transport, rng=rng, monotonic=monotonic, sleep=sleep, **access
        )
        self._timeout_s: Final = timeout_s
        self._rng: Final = rng or random.Random()
        self._monotonic: Final = monotonic
        self._sleep: Final = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release every connection."""
        await self.connection.close()

    async def _send(self, call: Call[T], timeout_s: float | None = None) -> T:
        return await self.connection.send(call, timeout_s=timeout_s or self._timeout_s)

    # -------------------------------------------------------------------------- namespaces

    async def create_namespace(
        self,
        namespace: str,
        *,
        kind: Literal["fixed", "open"] = "open",
        shard_count: int | None = None,
        policy: Mapping[str, object] | None = None,
    ) -> views.NamespaceView:
        """Make a namespace, or find it already so; raises `Conflict` when it differs."""
        return await self._send(calls.create_namespace(namespace, kind, shard_count, policy))

    async def namespaces(self) -> list[views.NamespaceView]:
        """Every namespace."""
        return (await self._send(calls.namespaces())).namespaces

    async def namespace(self, namespace: str) -> views.NamespaceView:
        """One namespace with its policy."""
        return await self._send(calls.namespace(namespace))

    async def change_policy(
        self,
        namespace: str,
        policy: Mapping[str, object],
        *,
        if_match: str = "",
        reason: str = "",
    ) -> views.NamespaceView:
        """Change the named parts of a policy: `{"balancer": {"mode": "off"}}`."""
        return await self._send(calls.change_policy(namespace, policy, if_match, reason))

    async def delete_namespace(self, namespace: str, *, force: bool = False) -> None:
        """Delete a namespace with its shards; refused while executors live unless `force`."""
        await self._send(calls.delete_namespace(namespace, force=force))

    # --------------------------------------------------------------------------- executors

    async def executors(
        self, namespace: str, *, host: str | None = None, status: str | None = None
    ) -> list[views.ExecutorView]:
        """The executors of a namespace."""
        call = calls.executors(namespace, host=host, status=status)
        return (await self._send(call)).executors

    async def executor(self, namespace: str, executor: str) -> views.ExecutorView:
        """One executor."""
        return await self._send(calls.executor(namespace, executor))

    async def drain_executor(
        self,
        namespace: str,
        executor: str,
        *,
        reason: str,
        force: bool = False,
        expires_in_s: float | None = None,
    ) -> views.DrainView:
        """Move everything away by handoff and place nothing.

        Refused (`Conflict`, reason `would_overload`) where the others have no room, unless `force`.
        """
        return await self._send(
            calls.drain_executor(
                namespace, executor, reason, force=force, expires_in_s=expires_in_s
            )
        )

    async def undrain_executor(
        self, namespace: str, executor: str, *, reason: str = ""
    ) -> views.ExecutorView:
        """End a drain; the executor is given shards again."""
        return await self._send(calls.executor_verb(namespace, executor, "undrain", reason))

    async def cordon_executor(
        self,
        namespace: str,
        executor: str,
        *,
        reason: str = "",
        expires_in_s: float | None = None,
    ) -> views.ExecutorView:
        """Place nothing; what is there stays."""
        return await self._send(
            calls.executor_verb(namespace, executor, "cordon", reason, expires_in_s=expires_in_s)
        )

    async def uncordon_executor(
        self, namespace: str, executor: str, *, reason: str = ""
    ) -> views.ExecutorView:
        """Place shards again."""
        return await self._send(calls.executor_verb(namespace, executor, "uncordon", reason))

    async def evict_executor(
        self,
        namespace: str,
        executor: str,
        *,
        reason: str,
        force: bool = False,
        incarnation: str | None = None,
    ) -> views.ExecutorView:
        """Close an incarnation; with `force` its shards move before its lease has run out.

        One that has restarted meanwhile is spared (`Conflict`) if the `incarnation` is named.
        """
        return await self._send(
            calls.evict_executor(namespace, executor, reason, force=force, incarnation=incarnation)
        )

    # ------------------------------------------------------------------------------- hosts

    async def drain_host(
        self,
        namespace: str,
        host: str,
        *,
        reason: str,
        force: bool = False,
        expires_in_s: float | None = None,
    ) -> views.DrainView:
        """Drain every executor on a host, present and future; refused as `drain_executor` is."""
        return await self._send(
            calls.drain_host(namespace, host, reason, force=force, expires_in_s=expires_in_s)
        )

    async def undrain_host(self, namespace: str, host: str, *, reason: str = "") -> views.HostView:
        """End the drain of a host."""
        return await self._send(calls.host_verb(namespace, host, "undrain", reason))

    async def cordon_host(
        self, namespace: str, host: str, *, reason: str = "", expires_in_s: float | None = None
    ) -> views.HostView:
        """Place nothing on a host."""
        return await self._send(
            calls.host_verb(namespace, host, "cordon", reason, expires_in_s=expires_in_s)
        )

    async def uncordon_host(self, namespace: str, host: str, *, reason: str = "") -> views.HostView:
        """Place shards on a host again."""
        return await self._send(calls.host_verb(namespace, host, "uncordon", reason))

    # ------------------------------------------------------------------------------ drains

    async def drains(self, namespace: str) -> list[views.DrainView]:
        """The drains of a namespace."""
        return (await self._send(calls.drains(namespace))).drains

    async def drain(self, namespace: str, drain_id: str) -> views.DrainView:
        """One drain with its progress."""
        return await self._send(calls.drain(namespace, drain_id))

    async def wait_drained(
        self,
        namespace: str,
        drain_id: str,
        *,
        timeout_s: float = WAIT_TIMEOUT_S,
        on_progress: Callable[[views.DrainView], object] | None = None,
    ) -> views.DrainView:
        """Follow a drain until every shard was acknowledged away.

        Lives through elections. The drain goes on when this ends early; `TimedOut` says how far
        it had come.
        """
        deadline = self._monotonic() + timeout_s
        seen: views.DrainView | None = None
        while (left_s := deadline - self._monotonic()) > 0.0:
            call = calls.drain(namespace, drain_id)
            try:
                view = await self.connection.send(call, timeout_s=min(left_s, self._timeout_s))
            except errors.Unavailable:
                await self._sleep(min(_POLL_S, left_s))
                continue
            if view != seen and on_progress is not None:
                on_progress(view)
            seen = view
            if view.state == "drained":
                return view
            await self._sleep(min(_POLL_S, left_s))
        left = "unknown" if seen is None else f"{seen.shards_left} shards left, {seen.state}"
        raise errors.TimedOut(f"drain {drain_id} was not done within {timeout_s:g} s: {left}")

    # ------------------------------------------------------------------------------ shards

    async def shards(
        self,
        namespace: str,
        *,
        executor: str | None = None,
        state: str | None = None,
        sort: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[views.ShardView]:
        """Shards page by page, at most `limit` of them if it is given."""
        page: str | None = None
        left = limit
        while left is None or left > 0:
            size = PAGE_LIMIT if left is None else min(PAGE_LIMIT, left)
            answer = await self._send(
                calls.shards(
                    namespace, executor=executor, state=state, sort=sort, limit=size, page=page
                )
            )
            for view in answer.shards[:size]:
                yield view
            page = answer.next_page
            if page is None or not answer.shards:
                return
            left = None if left is None else left - len(answer.shards)

    async def shard(self, namespace: str, key: str, *, at: str | None = None) -> views.ShardView:
        """One shard: where it is and why; never makes one.

        With a time in RFC 3339 its `then` says who owned it at that time.
        """
        return await self._send(calls.shard(namespace, key, at))

    async def drain_shard(self, namespace: str, key: str, *, reason: str) -> views.ShardView:
        """Park a shard: nobody runs it."""
        return await self._send(calls.shard_verb(namespace, key, "drain", {"reason": reason}))

    async def undrain_shard(self, namespace: str, key: str, *, reason: str = "") -> views.ShardView:
        """Let a parked shard run again."""
        return await self._send(calls.shard_verb(namespace, key, "undrain", {"reason": reason}))

    async def pin_shard(
        self,
        namespace: str,
        key: str,
        executor: str,
        *,
        reason: str,
        expires_in_s: float | None = None,
    ) -> views.ShardView:
        """Keep a shard on an executor; the balancer never moves it."""
        body = {"executor": executor, "reason": reason, "expires_in_s": expires_in_s}
        return await self._send(calls.shard_verb(namespace, key, "pin", body))

    async def unpin_shard(self, namespace: str, key: str, *, reason: str = "") -> views.ShardView:
        """Let the balancer move a shard again."""
        return await self._send(calls.shard_verb(namespace, key, "unpin", {"reason": reason}))

    async def move_shard(
        self, namespace: str, key: str, to: str, *, reason: str
    ) -> views.ShardView:
        """Move a shard now, by handoff."""
        body = {"to": to, "reason": reason}
        return await self._send(calls.shard_verb(namespace, key, "move", body))

    async def declare_shards(self, namespace: str, keys: Sequence[str]) -> views.DeclareAnswer:
        """Shards of an open namespace exist from now on."""
        return await self._send(calls.declare_shards(namespace, keys))

    async def retire_shard(self, namespace: str, key: str) -> None:
        """A shard of an open namespace is no longer needed."""
        await self._send(calls.retire_shard(namespace, key))

    # ----------------------------------------------------------------------------- cluster

    async def cluster(self) -> views.ClusterView:
        """Nodes, roles, term and storage."""
        return await self._send(calls.cluster())

    async def transfer_leadership(self, to: str | None = None) -> views.ClusterView:
        """Hand the leadership to another node."""
        return await self._send(calls.transfer_leadership(to))

    async def move_member(
        self, node: str, *, api: str, raft: str | None = None
    ) -> views.ClusterView:
        """Tell where the next process of a stopped node is, before it is started."""
        return await self._send(calls.move_member(node, api, raft))
