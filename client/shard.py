"""The handle of one shard, as user code holds it.

Decides what `may_act` answers and how load is measured between two reports. It must not know HTTP,
callbacks or the coordinator. Everything here may be used from any thread.
"""

import math
import threading
from collections.abc import Callable
from typing import Final

from client.errors import LeaseLost
from client.lease import Lease

# The largest load a node takes; far above any unit that makes sense.
LOAD_MAX: Final = 1e12


class LoadMeter:
    """Mean load between two acknowledged reports.

    Counted load (`add`) is a sum over time, a gauge (`set`) is weighted by how long it stood; both
    are kept as one growing total, so a report that is lost costs nothing: the next one covers the
    longer time.
    """

    def __init__(self, now: float) -> None:
        self._lock = threading.Lock()
        self._total = 0.0
        self._gauge = 0.0
        self._gauge_at = now
        self._is_used = False
        self._acked_total = 0.0
        self._acked_at = now
        self._sent: tuple[float, float] | None = None  # total and time of the report under way

    def add(self, amount: float) -> None:
        """Count some load."""
        with self._lock:
            self._total += amount
            self._is_used = True

    def set(self, level: float, now: float) -> None:
        """The load stands at this level from now on."""
        with self._lock:
            if not self._is_used:
                self._acked_at = now  # the mean begins with the first level that is known
            self._settle(now)
            self._gauge = level
            self._is_used = True

    def report(self, now: float, window_min_s: float) -> float | None:
        """The mean since the last acknowledged report; None when there is nothing to say yet."""
        with self._lock:
            self._settle(now)
            window_s = now - self._acked_at
            if not self._is_used or window_s < window_min_s or window_s <= 0.0:
                self._sent = None
                return None
            self._sent = (self._total, now)
            mean = (self._total - self._acked_total) / window_s
            return min(max(0.0, mean), LOAD_MAX)

    def acknowledge(self) -> None:
        """The last report has arrived."""
        with self._lock:
            if self._sent is not None:
                self._acked_total, self._acked_at = self._sent
                self._sent = None

    def survive_fork(self) -> None:
        """Called in the child: whoever held the lock in the parent will never free this copy."""
        self._lock = threading.Lock()

    def _settle(self, now: float) -> None:
        self._total += self._gauge * max(0.0, now - self._gauge_at)
        self._gauge_at = now


class Tenure:
    """What the executor knows of one life of a shard; the executor alone changes it."""

    __slots__ = (
        "ends_at",
        "epoch",
        "handle",
        "is_granted",
        "is_started",
        "key",
        "lease",
        "meter",
        "was_prepared",
    )

    def __init__(self, key: str, epoch: int, lease: Lease, now: float) -> None:
        self.key: Final = key
        self.epoch = epoch
        self.lease = lease  # of the incarnation under which the shard was started
        self.is_granted = False  # from the start of the shard to the beginning of its stop
        self.is_started = False  # its start has ended well
        self.ends_at = math.inf  # earlier than the lease when a release of the shard is overdue
        self.was_prepared = False
        self.meter = LoadMeter(now)
        self.handle: Shard | None = None


class Shard:
    """A shard that this executor was given.

    The same handle goes to `on_prepare`, `on_start` and `on_stop` of one life of the shard.
    """

    __slots__ = ("_clock", "_namespace", "_tenure")

    def __init__(self, namespace: str, tenure: Tenure, clock: Callable[[], float]) -> None:
        self._namespace: Final = namespace
        self._tenure: Final = tenure
        self._clock: Final = clock

    def __repr__(self) -> str:
        return f"<Shard {self._namespace}/{self.key} epoch={self.epoch}>"

    @property
    def namespace(self) -> str:
        """The namespace of the shard."""
        return self._namespace

    @property
    def key(self) -> str:
        """The shard's name within its namespace."""
        return self._tenure.key

    @property
    def epoch(self) -> int:
        """The fencing token: give it to every store that can refuse lower ones.

        It can rise while the shard runs, never fall; read it for each write.
        """
        return self._tenure.epoch

    @property
    def lease_left_s(self) -> float:
        """Seconds for which nobody else can be given this shard: the time to flush while it stops.

        Not a permission to go on: that is `may_act`.
        """
        tenure = self._tenure
        return max(0.0, min(tenure.lease.act_until, tenure.ends_at) - self._clock())

    def may_act(self) -> bool:
        """Whether this executor owns the shard right now.

        Local and cheap: ask before each act. False from the moment a stop begins and from the end
        of the lease on, whatever callbacks do.
        """
        tenure = self._tenure
        if not tenure.is_granted:
            return False
        now = self._clock()
        return now < tenure.ends_at and tenure.lease.may_act(now)

    def require_owned(self) -> None:
        """Raise `LeaseLost` unless `may_act()`."""
        if not self.may_act():
            raise LeaseLost(f"{self!r} may not be acted on: its lease is over or it is released")

    def add_load(self, amount: float = 1.0) -> None:
        """Count load; reported as the mean per second since the last report.

        Count what was offered, also what you turned away.
        """
        self._tenure.meter.add(_checked(amount))

    def set_load(self, level: float) -> None:
        """Set the load, in the unit of the executor's `capacity`; it stands until set again."""
        self._tenure.meter.set(_checked(level), self._clock())


def _checked(load: float) -> float:
    if not 0.0 <= load <= LOAD_MAX:
        raise ValueError(f"a load is between 0 and {LOAD_MAX:g}, not {load!r}")
    return float(load)
