"""One member of PySyncObj as it is shipped, in its own process; the leader drives and reports.

`python -m bench.consensus.stock batching|no-batching NUMBER PORT PORT PORT`. Prints one JSON line
if it led, and ends when its stdin does. Must not import this project's consensus package: that one
replaces the library's codec for the whole process.
"""

import os
import sys
import threading
import time
from functools import partial
from typing import Any

import pysyncobj

from bench.consensus.measure import (
    IN_FLIGHT,
    LEADER_S,
    VALUE,
    WRITE_TIMEOUT_S,
    Counter,
    latencies_of,
    measured,
    report,
    report_failure,
)


class StockTable(pysyncobj.SyncObj):  # type: ignore[misc] # the library has no types
    """The same dictionary on PySyncObj as its manual shows it."""

    def __init__(self, own: str, others: list[str], *, batches: bool) -> None:
        super().__init__(own, others, pysyncobj.SyncObjConf(appendEntriesUseBatch=batches))
        self.rows: dict[str, Any] = {}

    @pysyncobj.replicated  # type: ignore[untyped-decorator]
    def put(self, key: str, value: dict[str, Any]) -> int:
        self.rows[key] = value
        return len(self.rows)


def run(number: int, addresses: list[str], *, batches: bool) -> None:
    others = [address for at, address in enumerate(addresses) if at != number]
    table = StockTable(addresses[number], others, batches=batches)
    ended = threading.Thread(target=sys.stdin.read, daemon=True)
    ended.start()
    end = time.perf_counter() + LEADER_S
    while not table.isReady() and time.perf_counter() < end:
        time.sleep(0.05)
    while ended.is_alive() and not table._isLeader() and time.perf_counter() < end:
        time.sleep(0.05)
        if table._getLeader() not in (None, table.selfNode):
            break
    if table._isLeader():
        try:
            drive(table)
        except RuntimeError as failure:  # on a busy machine it loses its lead now and then
            report_failure(failure)
    ended.join()
    table.destroy()


def drive(table: StockTable) -> None:
    def write(number: int) -> None:
        confirmed = threading.Event()
        errors: list[int] = []

        def done(_result: object, error: int) -> None:
            errors.append(error)
            confirmed.set()

        table.put(f"key{number}", VALUE, callback=done)
        if not confirmed.wait(WRITE_TIMEOUT_S) or errors != [pysyncobj.FAIL_REASON.SUCCESS]:
            raise RuntimeError(f"a write failed: {errors}")

    latencies = latencies_of(write)
    counter = Counter(time.perf_counter())
    failed: list[int] = []

    def confirmed(number: int, _result: object, error: int) -> None:
        # In the library's thread: the next write is asked for with no hand-over between threads,
        # the fastest way to drive it.
        if error != pysyncobj.FAIL_REASON.SUCCESS:
            failed.append(error)
        if counter.confirm(time.perf_counter()):
            put(number + IN_FLIGHT)

    def put(number: int) -> None:
        table.put(f"key{number}", VALUE, callback=partial(confirmed, number))

    for first in range(IN_FLIGHT):
        put(first)
    time.sleep(max(0.0, counter.end - time.perf_counter()) + 0.2)
    if failed:
        raise RuntimeError(f"{len(failed)} writes failed: {sorted(set(failed))}")
    report(measured(latencies, counter))


def main(argv: list[str]) -> None:
    mode, number, *ports = argv[1:]
    run(int(number), [f"127.0.0.1:{port}" for port in ports], batches=mode == "batching")
    sys.stdout.flush()
    # The library's thread is no daemon and ends when it likes; this process has said all it has.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv)
