"""Whatever happens in whatever order, the life cycle's rules hold."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from client.lifecycle import (
    Acknowledge,
    Adopt,
    AssignmentSet,
    CallbackEnded,
    Closed,
    Cursor,
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
from client.reconcile import Reconciler

KEYS = ("a", "b", "c")
DUTIES = ("run", "prepare", "release", "run")


class Lives(RuleBasedStateMachine):
    """A model of the callbacks beside the machine, told only what the machine asks for."""

    def __init__(self):
        super().__init__()
        self.machine = Reconciler(has_prepare=True)
        self.now = 0.0
        self.revision = 1
        self.epoch = 10
        self.clusters = 1
        self.is_connected = False
        self.is_leaving = False
        self.floor: Cursor | None = None
        self.sent: list[AssignmentSet] = []
        self.state: dict[str, str] = {}  # key -> preparing, warm, starting, running, stopping
        self.epochs: dict[str, int] = {}
        self.started: set[str] = set()  # started with success and not ended stopping
        self.orphans: set[str] = set()  # live, but of a closed incarnation
        self.acked: dict[str, int] = {}  # highest epoch acknowledged as released
        self.revoked: set[str] = set()  # starting, but without permission
        self.cut: set[str] = set()  # live when the lease was lost
        self.listed: dict[str, Cursor] = {}  # the last answer that called a release overdue

    # ---------------------------------------------------------------------------- the model

    def feed(self, event):
        for action in self.machine.step(event, self.now):
            match action:
                case Prepare(key, epoch):
                    assert key not in self.state
                    assert self.is_connected
                    self.state[key], self.epochs[key] = "preparing", epoch
                case Start(key, epoch):
                    assert self.state.get(key) in (None, "warm")
                    assert self.is_connected
                    assert not self.is_leaving
                    assert epoch > self.acked.get(key, -1)
                    # Only a set of the right cluster, at or past the floor, says so.
                    assert self.floor is not None
                    assert any(
                        known.duties.get(key) == (epoch, "run")
                        and known.cursor.cluster_id == self.floor.cluster_id
                        and known.cursor.revision >= self.floor.revision
                        and known.cursor.revision >= self.bar(key)
                        for known in self.sent
                    )
                    self.state[key], self.epochs[key] = "starting", epoch
                case Revoke(key, epoch):
                    assert self.state[key] == "starting"
                    assert key not in self.revoked
                    self.revoked.add(key)
                case Adopt(key, epoch):
                    assert self.state[key] in ("starting", "running")
                    assert key not in self.revoked
                    assert epoch > self.epochs[key]
                    self.epochs[key] = epoch
                case Stop(key, epoch):
                    assert self.state[key] in ("warm", "running")
                    self.state[key] = "stopping"
                case Acknowledge(Outcome.RELEASED, key, epoch):
                    # What is acknowledged as released does not run here under that epoch.
                    is_running = self.state.get(key) in ("starting", "running", "stopping")
                    assert not is_running or self.epochs[key] > epoch
                    self.acked[key] = max(epoch, self.acked.get(key, -1))
                case Acknowledge(Outcome.FAILED, key, epoch):
                    # Given up, for good: others may have it as soon as this is heard, however late.
                    if self.state.get(key) == "stopping":  # the stop before hangs
                        assert epoch > self.epochs[key] or (
                            key in self.cut and epoch == self.epochs[key]
                        )
                    self.acked[key] = max(epoch, self.acked.get(key, -1))
                case Acknowledge():
                    pass

    def bar(self, key):
        """Sets below this say nothing of a shard."""
        listed = self.listed.get(key)
        return listed.revision if listed and listed.cluster_id == self.floor.cluster_id else 0

    # --------------------------------------------------------------------------- the events

    @rule(
        ahead=st.integers(0, 2),
        overdue=st.sets(st.sampled_from(KEYS), max_size=1),
        is_late=st.booleans(),
    )
    def renewed(self, ahead, overdue, is_late):
        cursor = Cursor(f"c{self.clusters}", self.revision + ahead)
        self.revision += ahead
        if self.floor is None or self.floor.cluster_id != cursor.cluster_id:
            self.floor = cursor
        self.is_connected = not is_late
        self.listed |= dict.fromkeys(self.machine.withheld(cursor, overdue), cursor)
        self.feed(Renewed(cursor, frozenset(overdue), is_late))
        assert not {k for k in overdue if k in self.listed and self.state.get(k) == "running"}

    @rule()
    def suspended(self):
        self.is_connected = False
        self.feed(Suspended())

    @rule(is_closed=st.booleans())
    def lost(self, is_closed):
        self.is_connected = False
        self.floor = None
        self.cut |= set(self.state)
        if is_closed:
            self.orphans |= set(self.state)
        self.feed(Closed() if is_closed else Lost())
        self.listed.clear()
        assert not {k for k, s in self.state.items() if s == "starting"} - self.revoked
        assert not [key for key, state in self.state.items() if state in ("running", "warm")]

    @rule()
    def new_cluster(self):
        self.clusters += 1
        self.revision = 1
        self.epoch += 1_000

    @rule(duties=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(DUTIES)), raises=st.data())
    def new_set(self, duties, raises):
        self.revision += 1
        made = {}
        for key, duty in duties.items():
            known = self.epochs.get(key, 0)
            if duty != "release" and (known == 0 or raises.draw(st.booleans())):
                self.epoch += 1
                known = self.epoch
            made[key] = (known or self.epoch, duty)
        assigned = AssignmentSet(Cursor(f"c{self.clusters}", self.revision), made)
        self.sent.append(assigned)
        self.feed(SetArrived(assigned))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def old_set(self, data):
        self.feed(SetArrived(data.draw(st.sampled_from(self.sent))))

    @precondition(lambda self: any(s not in ("warm", "running") for s in self.state.values()))
    @rule(data=st.data(), fails=st.booleans())
    def callback_ended(self, data, fails):
        busy = sorted(k for k, s in self.state.items() if s not in ("warm", "running"))
        self.end(data.draw(st.sampled_from(busy)), fails=fails)

    def end(self, key, *, fails=False):
        match self.state[key]:
            case "stopping":
                del self.state[key]
                self.revoked.discard(key)
                self.started.discard(key)
                self.orphans.discard(key)
                self.cut.discard(key)
            case "preparing" | "starting" if fails:
                del self.state[key]
                self.revoked.discard(key)
                self.orphans.discard(key)
                self.cut.discard(key)
            case "preparing":
                self.state[key] = "warm"
            case "starting":
                self.state[key] = "running"
                self.started.add(key)
        self.feed(CallbackEnded(key, "boom" if fails else None))

    @rule(seconds=st.floats(0.0, 5.0))
    def time_passed(self, seconds):
        self.now += seconds
        self.feed(TimePassed())

    @precondition(lambda self: len(self.sent) > 8)
    @rule(stops_all=st.booleans())
    def leaving(self, stops_all):
        self.is_leaving = True
        self.feed(Leaving(stops_all))

    # ------------------------------------------------------------------------- what holds

    @invariant()
    def machine_and_model_agree_on_what_is_live(self):
        assert self.machine.live_count == len(self.state)
        running = {k: self.epochs[k] for k in self.started if k not in self.orphans}
        assert self.machine.running() == running
        starting = {
            k: self.epochs[k]
            for k, s in self.state.items()
            if s == "starting" and k not in self.revoked | self.orphans
        }
        assert self.machine.held() == running | starting
        assert not self.machine.last_held().keys() & self.machine.held().keys()

    def teardown(self):
        """Left alone with a lease, the executor comes to run exactly what it was given."""
        if self.is_leaving:
            return
        self.clusters += 1
        self.revision = 1
        self.epoch += 1_000
        self.renewed(0, set(), is_late=False)
        wanted = {key: (self.epoch + at, "run") for at, key in enumerate(KEYS[:2])}
        assigned = AssignmentSet(Cursor(f"c{self.clusters}", 2), wanted)
        self.sent.append(assigned)
        self.feed(SetArrived(assigned))
        for _ in range(20):
            for key in [k for k, s in self.state.items() if s not in ("warm", "running")]:
                self.end(key)
            self.now += 60.0
            self.feed(TimePassed())
        assert self.machine.held() == {key: epoch for key, (epoch, _) in wanted.items()}
        assert self.machine.live_count == len(wanted)


Lives.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase
