"""Waiting until an order has come true: drains, undrains, moves and pins.

Decides when each is through and what is said meanwhile. The work is the leader's: it goes on when
nobody waits any more, and whoever stops waiting is told so.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import click

from client import errors, views
from client.cli import faults
from client.cli.progress import Show, progress
from client.cli.session import Session, note
from client.cli.times import DURATION
from client.operator import WAIT_TIMEOUT_S

F = TypeVar("F", bound=Callable[..., Any])

POLL_S: Final = 0.5  # progress is for people; faster would only load the leader


def wait_options(function: F) -> F:
    """`--wait` and `--timeout` of orders that take a while."""
    flag = click.option("--wait", "waits", is_flag=True, help="Until it is through.")
    return flag(timeout_option(function))


def timeout_option(function: F) -> F:
    """`--timeout` of commands that wait."""
    return click.option(
        "--timeout",
        "timeout_s",
        type=DURATION,
        default=WAIT_TIMEOUT_S,
        show_default=True,
        metavar="DURATION",
        help="How long to wait; the work goes on afterwards.",
    )(function)


async def drained(session: Session, drain_id: str, timeout_s: float) -> int:
    """Until every shard was acknowledged away from a drain's target."""

    async def look(show: Show) -> bool:
        view = await session.operator.drain(session.namespace, drain_id)
        reasons = sorted({shard.reason for shard in view.blocked})
        why = f" ({', '.join(reasons)})" if reasons else ""
        total = view.shards_moved + view.shards_left
        show(view.state + why, view.shards_moved, total)
        return view.state == "drained"

    hint = f"follow it with `shardctl drain wait {drain_id}`"
    return await _until(f"drain {drain_id}", look, timeout_s, hint)


async def undrained(session: Session, target: str, *, is_host: bool, timeout_s: float) -> int:
    """Until nothing is handed away from a target any more, and it may be given shards."""
    most = 0

    async def look(show: Show) -> bool:
        nonlocal most
        executors = await _executors(session, target, is_host=is_host)
        releasing = sum(one.releasing for one in executors)
        most = max(most, releasing)
        closed = [one.executor for one in executors if one.status != "active"]
        why = f" ({', '.join(closed)} still {executors[0].status})" if closed else ""
        show("settling" + why if releasing or closed else "active", most - releasing, most)
        return not releasing and not closed

    hint = f"follow it with `shardctl executor list{f' --hostname {target}' if is_host else ''}`"
    return await _until(f"undrain of {target}", look, timeout_s, hint)


async def _executors(session: Session, target: str, *, is_host: bool) -> list[views.ExecutorView]:
    if is_host:
        return await session.operator.executors(session.namespace, host=target)
    return [await session.operator.executor(session.namespace, target)]


async def arrived(session: Session, key: str, to: str, *, is_pin: bool, timeout_s: float) -> int:
    """Until a shard runs where it was sent; a conflict when it was given back to its owner."""

    async def look(show: Show) -> bool:
        view = await session.operator.shard(session.namespace, key)
        # A move has arrived also where something sends the shard on at once, as the balancer may.
        is_there = view.executor == to and (view.state == "owned" or not is_pin)
        show(f"{view.state} on {view.executor or 'nobody'}", int(is_there), 1)
        # A pin is brought home by the leader as soon as it can; a move is tried once.
        if not (is_there or view.next == to or (is_pin and view.pinned == to)):
            where = f"{view.state} on {view.executor}" if view.executor else view.state
            raise errors.Conflict(f"{key} did not get to {to}: it is {where}", reason="conflict")
        return is_there

    hint = f"follow it with `shardctl shard show {key}`"
    return await _until(f"{key} to {to}", look, timeout_s, hint)


async def parked(session: Session, key: str, timeout_s: float) -> int:
    """Until nobody runs a shard any more; a conflict when somebody lets it run again."""

    async def look(show: Show) -> bool:
        view = await session.operator.shard(session.namespace, key)
        is_parked = view.state == "parked"
        show(view.state, int(is_parked), 1)
        if view.parked is None:
            raise errors.Conflict(f"{key} is to run again", reason="conflict")
        return is_parked

    return await _until(key, look, timeout_s, f"follow it with `shardctl shard show {key}`")


async def _until(
    name: str,
    look: Callable[[Show], Awaitable[bool]],
    timeout_s: float,
    hint: str,
) -> int:
    """Look again and again; gives the exit status. Lives through elections."""
    ends_at = asyncio.get_running_loop().time() + timeout_s
    state = "not seen yet"

    try:
        with progress(name) as shown:

            def show(what: str, done: int, total: int) -> None:
                nonlocal state
                state = f"{what}, {done} of {total} moved"
                shown(what, done, total)

            while True:
                try:
                    if await look(show):
                        return faults.DONE
                except errors.Unavailable as error:
                    state = f"no answer: {error.reason or error.detail}"
                left_s = ends_at - asyncio.get_running_loop().time()
                if left_s <= 0.0:
                    break
                await asyncio.sleep(min(POLL_S, left_s))
    except errors.ShardCoordinatorError:
        raise
    except BaseException:
        note(f"{name} goes on; {hint}")
        raise
    note(f"shardctl: {name} is not through within {timeout_s:g} s — {state}; it goes on — {hint}")
    return faults.WAIT_TIMED_OUT
