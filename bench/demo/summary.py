"""The verdict on a run of the demo: figures before and after, and whether anything was lost.

Decides what counts as success. Pure: the notes that executors and routers took are its input.
"""

from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from bench.demo import ledger, why
from bench.demo.ledger import Tenure
from bench.demo.lookups import Lookup, Verdict, judge
from bench.demo.scene import Balance
from bench.demo.story import Findings
from client.views import ShardView

DIGITS: Final = 4


class Summary(msgspec.Struct, kw_only=True):
    """The last line of `--json`."""

    ok: bool = False
    spread_before: float | None = None
    """Under hash placement, just before the balancer was switched on."""
    spread_after: float | None = None
    """Just before the drain."""
    best_possible: float | None = None
    """The lowest spread that any placement of the loads of that moment can have."""
    spread_hash: float | None = None
    """What hash placement would give for the loads of that moment."""
    moves: int = 0
    """For balance: from the moment the balancer was switched on until the drain."""
    moves_before_drain: int = 0
    """The same, under a name that says so."""
    moves_after_leader_loss: int = 0
    """From the kill of the leader to the kill of the executor: what its successor saw fit."""
    moves_total: int = 0
    """Of the whole run: balance, drain and crash."""
    moves_explained: int = 0
    """Of those: for how many `shardctl shard inspect` has a sentence."""
    example_shard: str = ""
    example_why: str = ""
    """One of these sentences."""
    lookups: int = 0
    lost_lookups: int = 0
    misdirected_lookups: int = 0
    excused_lookups: int = 0
    """Within the lease of the executor that was killed."""
    overlaps: int = 0
    epoch_faults: int = 0
    drains_started: int = 0
    drains_completed: int = 0
    drain_s: float | None = None
    failover_s: float | None = None
    rejoin_s: float | None = None
    crash_recovery_s: float | None = None
    """From the kill until the last of the executor's shards ran again elsewhere."""
    settle_s: float | None = None
    hottest_before: float | None = None
    hottest_after: float | None = None
    executors: int = 0
    shards: int = 0
    seconds: float = 0.0
    faults: list[str] = []
    """What went wrong, in sentences; empty when `ok`."""


def summarise(
    findings: Findings, tenures: list[Tenure], lookups: list[Lookup], seconds: float
) -> Summary:
    """The verdict; `faults` says why when it is not good."""
    overlaps, faults = ledger.overlaps(tenures), ledger.epoch_faults(tenures)
    by_key = ledger.by_key(tenures)
    told = judge(lookups, by_key, findings.crashes, findings.outages)
    before, after = findings.before, findings.after
    moved = why.moves_of(tenures, 0.0, findings.asked_at or float("inf"))
    # A run that did not get so far has asked nothing, and says why it did not.
    dark = [] if findings.asked_at is None else why.unexplained(moved, findings.inspected)
    example = _example(findings)
    balancing = ledger.moves(tenures, findings.balancing_from, findings.drain_from or float("inf"))
    summary = Summary(
        spread_before=_short(before.spread if before else None),
        spread_after=_short(after.spread if after else None),
        best_possible=_short(after.best_possible if after else None),
        spread_hash=_short(after.static_hash if after else None),
        hottest_before=_short(_heat(before)),
        hottest_after=_short(_heat(after)),
        moves=balancing,
        moves_before_drain=balancing,
        moves_after_leader_loss=sum(
            ledger.moves(tenures, outage.since, crash.at)
            for outage, crash in zip(findings.outages, findings.crashes, strict=False)
        ),
        moves_total=len(moved),
        moves_explained=0 if findings.asked_at is None else len(moved) - len(dark),
        example_shard="" if example is None else example.key,
        example_why="" if example is None else example.why_here,
        lookups=told.lookups,
        lost_lookups=told.lost,
        misdirected_lookups=told.misdirected,
        excused_lookups=told.excused,
        overlaps=len(overlaps),
        epoch_faults=len(faults),
        drains_started=findings.drains_started,
        drains_completed=findings.drains_completed,
        drain_s=_short(findings.drain_s),
        failover_s=_short(findings.failover_s),
        rejoin_s=_short(findings.rejoin_s),
        crash_recovery_s=_short(_recovery_s(tenures, findings)),
        settle_s=_short(findings.settle_s),
        executors=len({tenure.executor for tenure in tenures}),
        shards=len(by_key),
        seconds=round(seconds, 1),
    )
    summary.faults = [
        *_faults(summary, told),
        *(_overlap(one) for one in overlaps[:3]),
        *([f"{len(dark)} of {len(moved)} moves are not explained"] if dark else []),
        *(f"nothing says why {one.key} went from {one.source} to {one.target}" for one in dark[:3]),
    ]
    summary.ok = not summary.faults
    return summary


def _example(findings: Findings) -> ShardView | None:
    """A shard that was moved for balance, or any: the one with the most to tell."""
    told = sorted(findings.inspected.values(), key=lambda view: (view.why != "balance", view.key))
    return next(iter(told), None)


def _heat(balance: Balance | None) -> float | None:
    """Hottest over mean: 1.3 says that the hottest executor has 30 % more than its share."""
    return None if balance is None or not balance.mean else balance.hottest / balance.mean


def _recovery_s(tenures: list[Tenure], findings: Findings) -> float | None:
    times = [
        seconds
        for crash in findings.crashes
        for seconds in ledger.orphaned_s(tenures, crash.executor, crash.at).values()
    ]
    return max(times, default=None)


def _faults(summary: Summary, told: Verdict) -> list[str]:
    found = []
    if not summary.lookups:
        found.append("no look-up was made")
    if summary.lost_lookups:
        found.append(f"{summary.lost_lookups} look-ups found no owner")
    if summary.misdirected_lookups:
        found.append(f"{summary.misdirected_lookups} look-ups named an executor without the shard")
    found += told.examples
    if summary.overlaps:
        found.append(f"{summary.overlaps} times two executors ran a shard with valid leases")
    if summary.epoch_faults:
        found.append(f"{summary.epoch_faults} times an epoch did not rise")
    if not summary.drains_started or summary.drains_completed < summary.drains_started:
        found.append(f"{summary.drains_completed} of {summary.drains_started} drains completed")
    if summary.failover_s is None:
        found.append("the loss of the leader was not survived")
    if summary.crash_recovery_s is None or summary.crash_recovery_s == float("inf"):
        found.append("the killed executor's shards were not all run again")
    return found


def _overlap(one: ledger.Overlap) -> str:
    return (
        f"{one.earlier.key}: {one.earlier.executor} (epoch {one.earlier.epoch_last}) was valid"
        f" {one.seconds:.3f} s into {one.later.executor} (epoch {one.later.epoch_first})"
    )


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)


def show(summary: Summary, console: Console) -> None:
    """Before → after, for people."""
    table = Table(title="Before → after", title_justify="left", show_edge=False, pad_edge=False)
    for column in ("", "hashing", "balanced", "best possible"):
        table.add_column(column, justify="left" if not column else "right")
    table.add_row(
        "spread of load",
        _figure(summary.spread_before),
        _figure(summary.spread_after),
        _figure(summary.best_possible),
    )
    table.add_row(
        "hottest ÷ mean", _figure(summary.hottest_before), _figure(summary.hottest_after), ""
    )
    console.print(table)
    console.print(
        f"\n{summary.moves_before_drain} of {summary.shards} shards were moved for it."
        f" The host was drained in {_figure(summary.drain_s)} s, writes worked"
        f" {_figure(summary.failover_s)} s after the leader was killed, and all shards of the"
        f" killed executor ran again after {_figure(summary.crash_recovery_s)} s.\n"
        f"{summary.lookups:,} look-ups: {summary.lost_lookups} lost,"
        f" {summary.misdirected_lookups} misdirected, {summary.excused_lookups} within the killed"
        f" executor's lease. {summary.overlaps} overlaps of ownership.\n"
        f"`shardctl shard inspect` explained {summary.moves_explained} of {summary.moves_total}"
        f" moves: {summary.example_shard} is where it is because {summary.example_why}.",
        highlight=False,
        markup=False,
    )
    for fault in summary.faults:
        console.print(f"FAULT: {fault}", style="red", markup=False, highlight=False)


def _figure(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}"
