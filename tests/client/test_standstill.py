"""A loop that stood still: whoever wakes hears that the lease is lost before anything else."""

import asyncio

import pytest

from client import LeaseState
from tests.client.seam import Seam, refusal
from tests.waiting import until

LEASE_S = 0.3


class Log:
    """What user code was told, in order, and whether it might have acted at that moment."""

    def __init__(self, stand_still):
        self.stand_still = stand_still
        self.lines = []
        self.shards = {}
        self.states = []
        self.blocks = asyncio.Event()  # whoever is asked next blocks the loop
        self.woken_at = None

    def told(self, state):
        self.states.append(state)
        self.lines.append(("lease", state.value))

    def note(self, what, shard):
        self.shards[shard.key] = shard
        self.lines.append((what, shard.key))
        if self.woken_at is not None and self.states[-1] is not LeaseState.CONNECTED:
            assert LeaseState.LOST in self.states
            assert not any(one.may_act() for one in self.shards.values())

    def block(self):
        if self.blocks.is_set() and self.woken_at is None:
            assert any(one.may_act() for one in self.shards.values())
            self.stand_still(3 * LEASE_S)
            self.woken_at = len(self.lines)
            assert not any(one.may_act() for one in self.shards.values())


@pytest.fixture
async def seam(virtual_time):
    one = Seam(virtual_time)
    one.ttl_s = LEASE_S
    one.assign(a=(5, "run"), b=(6, "run"))
    return one


def executor(seam, log, **options):
    async def start(shard):
        log.note("start", shard)
        log.block()

    async def stop(shard):
        log.note("stop", shard)

    return seam.executor(
        leave_timeout_s=0.2, on_start=start, on_stop=stop, on_lease=log.told, **options
    )


def first_after_waking(log):
    return next(line for line in log.lines[log.woken_at :] if line != ("lease", "suspended"))


async def test_a_callback_that_blocks_the_loop_forfeits_the_lease_and_hears_so_first(
    seam, virtual_time
):
    log = Log(virtual_time.skip)
    async with executor(seam, log, max_concurrent_callbacks=4) as one:
        await until(lambda: len(one.running()) == 2)
        seam.assign(a=(5, "run"), b=(6, "run"), c=(7, "run"), d=(8, "run"), e=(9, "run"))
        log.blocks.set()
        await until(lambda: log.woken_at is not None)
        await until(lambda: LeaseState.LOST in log.states)
        assert first_after_waking(log) == ("lease", "lost")
        await until(lambda: ("stop", "b") in log.lines)
        # What was given and not yet begun when it blocked was not begun on waking either.
        lost_at = log.lines.index(("lease", "lost"))
        await until(lambda: ("lease", "connected") in log.lines[lost_at:])
        back_at = log.lines.index(("lease", "connected"), lost_at)
        assert not [line for line in log.lines[lost_at:back_at] if line[0] == "start"]
        await until(lambda: len(one.running()) == 5)


async def test_a_start_that_blocks_the_loop_past_the_lease_and_then_fails_is_tried_again(
    seam, virtual_time
):
    states, tries = [], []

    async def start(shard):
        tries.append(shard.key)
        if len(tries) == 1:
            virtual_time.skip(3 * LEASE_S)
            raise OSError("the disk is slow, and then full")

    async with seam.executor(
        leave_timeout_s=0.2, on_start=start, on_stop=lambda _: None, on_lease=states.append
    ) as one:
        await until(lambda: len(one.running()) == 2)
        assert LeaseState.LOST in states
    assert len(tries) == 3


@pytest.mark.parametrize("what", ["stop", "loads"])
async def test_no_other_kind_of_callback_comes_before_the_word_of_the_loss(
    seam, virtual_time, what
):
    log = Log(virtual_time.skip)
    asked = []

    def loads():
        asked.append(log.states[-1])
        log.lines.append(("loads", ""))
        return {}

    async with executor(seam, log, loads=loads if what == "loads" else None) as one:
        await until(lambda: len(one.running()) == 2)
        log.blocks.set()
        if what == "stop":
            seam.assign(a=(5, "release"), b=(6, "run"))
            # Between the decision to stop and the callback of it, the loop stands still.
            keeper, act = one._parts.keeper, one._parts.keeper._act

            def standing_still(action):
                act(action)
                log.block()

            keeper._act = standing_still
        else:
            log.block()
        await until(lambda: log.woken_at is not None)
        await until(lambda: LeaseState.LOST in log.states)
        assert first_after_waking(log) == ("lease", "lost")


async def test_who_hears_of_a_loss_may_act_on_nothing_any_more(seam):
    shards, seen = [], []

    def told(state):
        if state is LeaseState.LOST:
            seen.append([(one.may_act(), one.lease_left_s > 0) for one in shards])

    async with seam.executor(
        leave_timeout_s=0.2, on_start=shards.append, on_stop=lambda _: None, on_lease=told
    ) as one:
        await until(lambda: len(one.running()) == 2)
        seam.ttl_s = 2.0  # the stops begin 0.2 s before its end
        seen_beats = len(seam.beats)
        await until(lambda: len(seam.beats) > seen_beats + 2)
        seam.refuse_beats = refusal(503, "no_leader")
        await until(lambda: seen)
        assert seen == [[(False, True)] * 2]


async def test_user_code_that_raises_when_it_hears_of_a_loss_stops_no_stop(seam):
    stopped = []

    def raises(state):
        raise ZeroDivisionError(state)

    async def stop(shard):
        stopped.append(shard.key)

    async with seam.executor(
        leave_timeout_s=0.2, on_start=lambda _: None, on_stop=stop, on_lease=raises
    ) as one:
        await until(lambda: len(one.running()) == 2)
        seam.refuse_beats = refusal(503, "no_leader")
        await until(lambda: sorted(stopped) == ["a", "b"])
        seam.refuse_beats = None
        await until(lambda: len(one.running()) == 2)


async def test_who_is_told_of_the_lease_is_told_by_a_plain_function(seam):
    async def told(_):
        pytest.fail("called")

    with pytest.raises(TypeError, match="on_lease"):
        seam.executor(leave_timeout_s=0.2, on_start=print, on_stop=print, on_lease=told)


async def test_a_start_that_hangs_over_a_loss_never_acts_again(seam):
    hangs, begun = asyncio.Event(), []

    async def start(shard):
        begun.append(shard)
        if len(begun) == 1:
            await hangs.wait()

    seam.assign(a=(5, "run"))
    async with seam.executor(leave_timeout_s=0.2, on_start=start, on_stop=lambda _: None) as one:
        await until(lambda: begun)
        assert begun[0].may_act()
        seam.refuse_beats = refusal(503, "no_leader")
        await until(lambda: one.lease_state is LeaseState.LOST)
        seam.refuse_beats = None
        seam.assign()
        await until(lambda: one.lease_state is LeaseState.CONNECTED)
        # Somebody else may own it by now: the lease of this executor is no word on that.
        assert not begun[0].may_act()
        seam.assign(a=(9, "run"))
        await asyncio.sleep(0.1)
        assert not begun[0].may_act()
        hangs.set()
        await until(lambda: one.running() == {"a": 9})
        assert begun[1].may_act()


async def test_a_start_that_hangs_past_its_shards_own_lease_never_acts_again(seam):
    hangs, begun = asyncio.Event(), []

    async def start(shard):
        begun.append(shard)
        await hangs.wait()

    seam.assign(a=(5, "run"))
    async with seam.executor(leave_timeout_s=0.2, on_start=start, on_stop=lambda _: None) as one:
        await until(lambda: begun)
        seam.assign(a=(5, "release"))
        seam.not_renewed = ["a"]
        await until(lambda: not begun[0].may_act())
        seam.not_renewed = []  # granted to another executor
        seam.assign()
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) > seen + 2)
        assert one.lease_state is LeaseState.CONNECTED
        assert not begun[0].may_act()
        await until(lambda: begun[0].lease_left_s == 0.0)  # its own lease is not renewed
        assert one.lease_state is LeaseState.CONNECTED
        hangs.set()


async def test_a_start_that_blocks_for_a_lease_and_then_raises_costs_the_lease_and_no_more(
    seam, virtual_time
):
    states, tried = [], []

    def stand_still():
        virtual_time.skip(3 * LEASE_S)
        raise ZeroDivisionError

    async def start(shard):
        tried.append(shard.key)
        if len(tried) == 1:
            stand_still()

    async with seam.executor(
        leave_timeout_s=0.2, on_start=start, on_stop=lambda _: None, on_lease=states.append
    ) as one:
        await until(lambda: LeaseState.LOST in states)
        await until(lambda: len(one.running()) == 2)
