"""What an executor does with each shard: the one place where that is decided.

A passive machine. `step(event, now)` returns actions; `wake_at` says when it wants `TimePassed`.
It must not know clocks, loops, HTTP or callbacks, only that each start, stop or prepare it asked
for ends at some time.

The rules it keeps, in any order of events:
- One life per shard. A life has at most one callback under way, and its stop has ended before the
  next one of the same shard begins.
- Starts happen only while CONNECTED, only for an epoch in a set at or past the cursor of the
  heartbeat that granted or restored the lease, of the same cluster.
- An epoch that was acknowledged as released or as failed is never started again: the word may be
  heard late, and whoever hears it gives the shard to somebody else.
- Sets older than the one in force are dropped. Without a set in force, what runs goes on.
- What a set says of a shard whose release is overdue counts only when the set is as new as the
  answer that said so.
- A life that loses its permission while its start is under way is stopped as soon as that ended.
"""

from collections.abc import Collection
from typing import Final, assert_never

from client import lives
from client.lease import LeaseState
from client.lifecycle import (
    Acknowledge,
    Action,
    Adopt,
    AssignmentSet,
    CallbackEnded,
    Closed,
    Cursor,
    Duty,
    Event,
    Leaving,
    Lost,
    Outcome,
    Prepare,
    Renewed,
    Revoke,
    SetArrived,
    Start,
    Stop,
    Suspended,
    TimePassed,
)
from client.lives import LIVE, UNDER_WAY, Forgone, Life, Phase


class Reconciler:
    """The shards of one executor name, across its incarnations in this process."""

    def __init__(self, *, has_prepare: bool) -> None:
        self._has_prepare: Final = has_prepare
        self._lease = LeaseState.SUSPENDED
        self._floor: Cursor | None = None  # of the heartbeat that granted or restored the lease
        self._set: AssignmentSet | None = None  # in force
        # Shards whose release is overdue, with the revision of the last answer that said so.
        self._withheld: dict[str, int] = {}
        self._patience_s = lives.HUNG_STOP_S
        self._is_leaving = False
        self._stops_all = False
        self._lives: dict[str, Life] = {}
        self._forgone: Final = Forgone()

    # ------------------------------------------------------------------------ what is seen

    @property
    def cursor(self) -> Cursor | None:
        """The cursor of the set in force; None asks for a whole set at once."""
        return None if self._set is None else self._set.cursor

    @property
    def assigned(self) -> AssignmentSet | None:
        """The set in force."""
        return self._set

    @property
    def floor(self) -> Cursor | None:
        """Sets below this are not obeyed; None while no lease is held."""
        return self._floor

    @property
    def is_empty(self) -> bool:
        """Whether no life goes on here and nothing is assigned."""
        return self._set is not None and not self._set.duties and not self.live_count

    @property
    def live_count(self) -> int:
        """How many shards are prepared, run or have a callback under way."""
        return sum(life.phase in LIVE for life in self._lives.values())

    def running(self) -> dict[str, int]:
        """The shards of this incarnation that were started and have not ended stopping."""
        # Plain callbacks ask from threads of theirs: hence the copy, made in one step.
        lives = list(self._lives.values())
        return {one.key: one.epoch for one in lives if one.is_running and not one.is_orphan}

    def held(self) -> dict[str, int]:
        """The shards that a heartbeat reports, with their epochs; see `Life.is_held`."""
        return {key: life.epoch for key, life in self._lives.items() if life.is_held}

    def last_held(self) -> dict[str, int]:
        """The shards that were given up for want of a lease, until a set says what to hold."""
        return self._forgone.last_held(self.held())

    def withheld(self, cursor: Cursor, overdue: Collection[str]) -> list[str]:
        """Of the shards whose release is overdue at a cursor, those that were not granted since."""
        return [key for key in overdue if self._set is None or not self._set.runs(key, cursor)]

    def wake_at(self) -> float | None:
        """When time alone changes something: a failed start is tried again, patience ends."""
        if self._set is None:
            return None
        waiting = (
            life.retry_at
            for life in self._lives.values()
            if (life.phase is Phase.RESTING and self._may_begin(life.key, life.epoch))
            or (life.phase is Phase.PREPARED and life.key not in self._set.duties)
            or self._epoch_awaiting(life) is not None
        )
        return min(waiting, default=None)

    def is_wanted(self, key: str) -> bool:
        """Whether a start or prepare that has not begun yet is still to happen."""
        life = self._lives.get(key)
        is_connected = self._lease is LeaseState.CONNECTED
        if life is None or life.is_orphan or life.is_revoked or not is_connected:
            return False
        duty = self._duty(key)
        wanted: Duty = "prepare" if life.phase is Phase.PREPARING else "run"
        return duty is not None and duty[1] == wanted and not self._is_leaving

    # ------------------------------------------------------------------------- the one door

    def step(self, event: Event, now: float) -> list[Action]:
        """What is to be done after this event, in order."""
        match event:
            case Renewed():
                return self._renewed(event, now)
            case Suspended():
                if self._lease is LeaseState.CONNECTED:
                    self._lease = LeaseState.SUSPENDED
                return []
            case Lost():
                return self._without_lease(now)
            case Closed():
                return self._without_lease(now, is_closed=True)
            case SetArrived(assigned):
                return self._set_arrived(assigned, now)
            case CallbackEnded(key, was_begun=False):
                return self._given_up(key, now)
            case CallbackEnded(key, error):
                return self._callback_ended(key, error, now)
            case Leaving(stops_all):
                self._is_leaving = True
                self._stops_all = self._stops_all or stops_all
                return self._converge_all(now)
            case TimePassed():
                return self._converge_all(now)
            case _:
                assert_never(event)

    # ------------------------------------------------------------------------------- events

    def _renewed(self, event: Renewed, now: float) -> list[Action]:
        cursor, before = event.cursor, (self._lease, self._floor, self._withheld.keys())
        if self._floor is None or self._floor.cluster_id != cursor.cluster_id:
            self._floor = cursor
            self._set = None
            self._withheld = {}
        self._lease = LeaseState.SUSPENDED if event.is_late else LeaseState.CONNECTED
        overdue = self.withheld(cursor, event.overdue)
        self._withheld = self._withheld | dict.fromkeys(overdue, cursor.revision)
        self._patience_s = max(lives.HUNG_STOP_S, event.ttl_s)
        for life in filter(None, map(self._lives.get, overdue)):
            life.was_withheld = True
        is_same = before == (self._lease, self._floor, self._withheld.keys())
        return [] if is_same else self._converge_all(now)

    def _without_lease(self, now: float, *, is_closed: bool = False) -> list[Action]:
        self._forgone.lose(self._lives.values())
        for life in self._lives.values():
            life.is_orphan |= is_closed
            life.was_cut = True
        self._lease = LeaseState.LOST
        self._floor = None
        self._set = None
        self._withheld = {}
        return self._converge_all(now)

    def _set_arrived(self, assigned: AssignmentSet, now: float) -> list[Action]:
        bound = self._floor if self._set is None else self._set.cursor
        if bound is None or bound.cluster_id != assigned.cursor.cluster_id:
            return []
        if assigned.cursor.revision < bound.revision:
            return []
        self._set = assigned
        told_at = assigned.cursor.revision
        self._withheld = {key: at for key, at in self._withheld.items() if at > told_at}
        self._forgone.settle()
        return self._converge_all(now, is_new_set=True)

    def _given_up(self, key: str, now: float) -> list[Action]:
        life = self._lives.get(key)
        if life is None or life.phase not in {Phase.STARTING, Phase.PREPARING}:
            raise LookupError(f"no start of shard {key!r} is waiting")
        if life.was_prepared:
            life.phase, life.is_revoked = Phase.PREPARED, False
        else:
            del self._lives[key]
        return self._converge(key, now)

    def _callback_ended(self, key: str, error: str | None, now: float) -> list[Action]:
        life = self._lives.get(key)
        if life is None or life.phase not in UNDER_WAY:
            raise LookupError(f"no callback of shard {key!r} is under way")
        actions: list[Action] = []
        is_over = life.phase is Phase.STOPPING
        match life.phase:
            case Phase.STARTING if error is None:
                life.phase, life.was_started = Phase.RUNNING, True
            case Phase.STARTING:
                actions += [] if life.fail(error or "", now) else self._ack_failed(life)
            case Phase.PREPARING if error is None:
                life.phase, life.was_prepared = Phase.PREPARED, True
                if self._duty(key) == (life.epoch, "prepare"):
                    actions.append(Acknowledge(Outcome.PREPARED, key, life.epoch))
            case Phase.PREPARING:
                life.give_up(error or "")
                actions += self._ack_failed(life)
            case _:  # a stop that raised has ended too: it had its chance to clean up
                actions += self._stopped(life)
        # What the set has said meanwhile of a shard that was stopping is answered now.
        return actions + self._converge(key, now, is_new_set=is_over)

    def _ack_failed(self, life: Life) -> list[Action]:
        if life.is_orphan or self._set is None:
            return []
        self._forgone.release(life.key, life.epoch)
        return [Acknowledge(Outcome.FAILED, life.key, life.epoch, life.error)]

    def _stopped(self, life: Life) -> list[Action]:
        del self._lives[life.key]
        duty = self._duty(life.key)
        is_owed = self._set is None or duty == (life.epoch, "run")
        is_owed = is_owed and life.key not in self._withheld
        # Stopped for want of a lease or to leave: the epoch may run again. Only warmed up: there is
        # no epoch of ours to release.
        if life.is_orphan or is_owed or not life.was_started:
            return []
        self._forgone.release(life.key, life.epoch)
        if duty is not None and duty[1] == "release":
            return []  # acknowledged under the epoch that is asked for
        return [Acknowledge(Outcome.RELEASED, life.key, life.epoch)]

    # ---------------------------------------------------------------------------- one shard

    def _converge_all(self, now: float, *, is_new_set: bool = False) -> list[Action]:
        keys = dict.fromkeys(self._lives)
        if self._set is not None:
            keys |= dict.fromkeys(self._set.duties)
        return [
            action for key in keys for action in self._converge(key, now, is_new_set=is_new_set)
        ]

    def _converge(self, key: str, now: float, *, is_new_set: bool = False) -> list[Action]:
        life = self._lives.get(key)
        if life is None:
            return self._begin(key, is_new_set=is_new_set)
        match life.phase:
            case Phase.PREPARING | Phase.STOPPING:
                return self._wait_for_end(life, now)
            case Phase.STARTING:
                return self._revoke(life) if self._is_barred(life) else self._adopt(life)
            case Phase.RUNNING:
                return self._stop(life) if self._must_stop(life) else self._adopt(life)
            case Phase.PREPARED:
                return self._go_on_prepared(life, now)
            case Phase.RESTING | Phase.FAILED:
                return self._go_on_failed(life, now, is_new_set=is_new_set)
            case _:
                assert_never(life.phase)

    def _begin(self, key: str, *, is_new_set: bool) -> list[Action]:
        match self._duty(key):
            case (epoch, "release"):
                self._forgone.release(key, epoch)
                return [Acknowledge(Outcome.RELEASED, key, epoch)] if is_new_set else []
            case (epoch, "run") if self._may_begin(key, epoch):
                self._lives[key] = Life(key, epoch, Phase.STARTING)
                return [Start(key, epoch)]
            case (epoch, "prepare") if not self._has_prepare:
                return [Acknowledge(Outcome.PREPARED, key, epoch)] if is_new_set else []
            case (epoch, "prepare") if self._may_begin(key, None):
                self._lives[key] = Life(key, epoch, Phase.PREPARING)
                return [Prepare(key, epoch)]
            case _:
                return []

    def _adopt(self, life: Life) -> list[Action]:
        match self._duty(life.key):
            case (epoch, "run") if epoch > life.epoch and not life.is_revoked:
                life.epoch = epoch
                return [Adopt(life.key, epoch)]
            case _:
                return []

    def _is_barred(self, life: Life) -> bool:
        """Whether somebody else may come to own the shard whatever its callback does."""
        is_lost = self._lease is LeaseState.LOST or life.is_orphan
        return is_lost or life.key in self._withheld

    def _revoke(self, life: Life) -> list[Action]:
        if life.is_revoked:
            return []
        life.is_revoked = True
        return [Revoke(life.key, life.epoch)]

    def _must_stop(self, life: Life) -> bool:
        if self._is_barred(life) or life.is_revoked or self._stops_all:
            return True
        if self._set is None:
            return False
        duty = self._duty(life.key)
        return duty is None or duty[1] != "run" or duty[0] < life.epoch

    def _stop(self, life: Life) -> list[Action]:
        life.phase = Phase.STOPPING
        return [Stop(life.key, life.epoch)]

    def _wait_for_end(self, life: Life, now: float) -> list[Action]:
        """It brings us back here; a stop that hangs keeps no assignment from others."""
        epoch = self._epoch_awaiting(life)
        if epoch is None or not life.has_hung(epoch, now, self._patience_s):
            return []
        self._forgone.release(life.key, epoch)  # it is not to start when the stop does end
        return [Acknowledge(Outcome.FAILED, life.key, epoch, lives.HUNG_STOP)]

    def _go_on_prepared(self, life: Life, now: float) -> list[Action]:
        is_over = self._lease is LeaseState.LOST or self._is_leaving or life.is_orphan
        duty = self._duty(life.key)
        match duty:
            case _ if is_over:
                return self._stop(life)
            case (epoch, "run"):
                if not self._may_begin(life.key, epoch):
                    return []
                life.phase, life.epoch = Phase.STARTING, epoch
                return [Start(life.key, epoch)]
            case (epoch, "prepare"):
                life.retry_at = 0.0
                if epoch == life.epoch:
                    return []
                life.epoch = epoch  # another handoff of the same shard: it is warm already
                return [Acknowledge(Outcome.PREPARED, life.key, epoch)]
            case None:
                return self._linger(life, now)
            case _:
                return self._stop(life)

    def _linger(self, life: Life, now: float) -> list[Action]:
        if self._set is None:
            return []
        if life.retry_at == 0.0:
            life.retry_at = now + lives.PREPARED_LINGER_S
        return [] if now < life.retry_at else self._stop(life)

    def _go_on_failed(self, life: Life, now: float, *, is_new_set: bool) -> list[Action]:
        duty = self._duty(life.key)
        is_same = duty is not None and duty[0] == life.epoch and duty[1] != "release"
        # One that failed for good stays so when the lease is won again, and is reported once more.
        is_over = self._lease is LeaseState.LOST and life.phase is Phase.RESTING
        if life.is_orphan or is_over or (self._set is not None and not is_same):
            del self._lives[life.key]
            return self._begin(life.key, is_new_set=is_new_set)
        if life.phase is Phase.FAILED:
            return self._ack_failed(life) if is_new_set else []
        if now < life.retry_at or not is_same or not self._may_begin(life.key, life.epoch):
            return []
        life.phase, life.is_revoked = Phase.STARTING, False
        return [Start(life.key, life.epoch)]

    # -------------------------------------------------------------------------------- rules

    def _duty(self, key: str) -> tuple[int, Duty] | None:
        return None if self._set is None else self._set.duties.get(key)

    def _epoch_awaiting(self, life: Life) -> int | None:
        """An assignment that only waits for the end of this stop."""
        epoch, duty = self._duty(life.key) or (0, None)
        is_due = duty == "run" and life.is_past(epoch) and self._may_begin(life.key, epoch)
        return epoch if is_due else None

    def _may_begin(self, key: str, epoch: int | None) -> bool:
        if self._lease is not LeaseState.CONNECTED or self._is_leaving:
            return False
        if epoch is None:  # a warm-up owns nothing yet
            return True
        return key not in self._withheld and self._forgone.may_start(key, epoch)
