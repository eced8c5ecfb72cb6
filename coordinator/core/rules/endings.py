"""What becomes of the shards of a process that can act no more, so many of them at a time.

Decides where each goes: where it is wanted, where its open handoff leads, to the successor, or to
nobody for now. One command does `AT_ONCE` of them; what is left is noted with the executor's record
(`Ending`) and goes on with further commands. Must not know how it is known that the process ended.
"""

from collections.abc import Mapping
from dataclasses import replace
from heapq import nsmallest

from coordinator.core.draft import Draft
from coordinator.core.namespace import NamespaceState
from coordinator.core.rules.handoffs import complete, keep
from coordinator.core.rules.poisoned import Crash
from coordinator.core.shard import Cause, Shard, ShardState
from coordinator.core.types import CloseCause, Ending, Executor

AT_ONCE = 250
"""Shards that one command passes on, in 7 ms on every node that has a million, where each record
lies in memory that was not looked at for long: 50,000 at once were an election. With twice as many
one turn in a hundred took 30 ms while a tenth of a million was lost."""


def next_keys(namespace: NamespaceState, executor: str, after: str = "") -> tuple[list[str], bool]:
    """The shards whose turn it is, by key, and whether they are the last ones.

    The leader finds homes for just these.
    """
    left = [key for key in namespace.owned(executor) if key > after]
    is_all = len(left) <= AT_ONCE
    return (sorted(left) if is_all else nsmallest(AT_ONCE, left)), is_all


def vacate(
    draft: Draft,
    record: Executor,
    ending: Ending,
    wanted: Mapping[str, str],
    *,
    is_whole: bool = False,
) -> list[Shard]:
    """Take an executor off the record: what leads to it stays, what it owned goes on.

    Of the shards that turn vacant the records as they were are given back. With `is_whole` all of
    them go at once, however many there are.
    """
    base = draft.base
    keys, is_all = next_keys(base, record.id)
    if is_whole:
        keys, is_all = sorted(base.owned(record.id)), True
    draft.executors[record.id] = (
        None if is_all else replace(record, predecessor=None, evicted=True, ending=ending)
    )
    for key in sorted(base.incoming(record.id)):
        keep(draft, base.shards[key], ending.at_ms, why="the target is gone")
    cause = Cause.LEAVING if ending.cause is CloseCause.LEFT else Cause.LOST
    crash = Crash.of(record.id, ending)
    homeless: list[Shard] = []
    for key in keys:
        shard = base.shards[key]
        if crash is not None:
            shard = crash.struck(shard)
        is_withheld = crash is not None and crash.withholds(shard)
        may_go_on = shard.fate is None and not is_withheld
        homes = (wanted.get(key), shard.target) if may_go_on else ()
        home = next((one for one in homes if one is not None and draft.is_open(one)), None)
        if home is None:
            draft.free(shard, cause)
            homeless.append(shard)
        else:
            draft.grant(shard, home, cause, ending.at_ms)
    return homeless


def pass_over(draft: Draft, record: Executor, holder: str, ending: Ending) -> int:
    """New epochs for what a dead incarnation owned; its open handoffs away go through.

    `record` is the successor. It is shown nothing before it has all: how many there were this time.
    """
    base = draft.base
    keys, is_all = next_keys(base, record.id, ending.after)
    draft.executors[record.id] = (
        replace(record, predecessor=None, ending=None)
        if is_all
        else replace(record, predecessor=holder, ending=replace(ending, after=keys[-1]))
    )
    crash = Crash.of(record.id, ending)
    for key in keys:
        shard = base.shards[key]
        if crash is not None:
            shard = crash.struck(shard)
        if crash is not None and crash.withholds(shard):
            draft.free(shard, Cause.LOST)
        elif shard.state is ShardState.RELEASING:
            complete(draft, shard, ending.at_ms)
        else:
            draft.grant(shard, record.id, Cause.RESTART, ending.at_ms)
    return len(keys)


def carry_on(draft: Draft, record: Executor, ending: Ending, wanted: Mapping[str, str]) -> None:
    """The next shards of an end that was too large for one command."""
    if record.predecessor is None:
        vacate(draft, record, ending, wanted)
    elif record.evicted:
        # It never ran what was passed over to it: all of that goes as well.
        vacate(draft, record, replace(ending, after=""), wanted)
    else:
        pass_over(draft, record, record.predecessor, ending)
