"""The lock file of an executor's name proves a death, and nothing but a death."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import zlib

import pytest

from client.name_lock import NameLock
from tests.client.seam import Seam, refusal
from tests.waiting import until

HOLDER = """
import os, subprocess, sys, time
from client.name_lock import NameLock

lock = NameLock(sys.argv[1], "jobs", "e1")
held = lock.take()
lock.write(sys.argv[2])
children = []
if "children" in sys.argv:
    children.append(os.fork())
    if children[0] == 0:
        time.sleep(20)
        os._exit(0)
    started = subprocess.Popen(["sleep", "20"], close_fds=False)
    children.append(started.pid)
print(held, lock.predecessor, *children, flush=True)
time.sleep(20)
"""


def holder(folder, incarnation, *options):
    """A process that takes the lock if it can; it ends by itself after 20 s."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), incarnation, *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().split()


def end(process):
    process.kill()
    process.wait()
    process.stdout.close()


def lock(folder, name="e1"):
    return NameLock(folder, "jobs", name)


def test_whoever_gets_the_lock_after_a_kill_knows_who_is_dead(tmp_path):
    process, told = holder(tmp_path, "i1")
    assert told == ["True"]
    one = lock(tmp_path)
    assert not one.take()
    assert one.predecessor == ""
    os.kill(process.pid, signal.SIGSTOP)  # a process that stands still is not dead
    assert not one.take()
    end(process)
    assert one.take()
    assert one.predecessor == "i1"
    one.close()


def test_children_of_a_dead_process_do_not_hold_its_lock(tmp_path):
    process, (held, *children) = holder(tmp_path, "i1", "children")
    assert held == "True"
    assert len(children) == 2
    try:
        one = lock(tmp_path)
        assert not one.take()  # and their copy does not free it either, while it lives
        end(process)
        for child in children:
            os.kill(int(child), 0)  # they live on
        assert one.take()
        assert one.predecessor == "i1"
        one.close()
    finally:
        for child in children:
            os.kill(int(child), signal.SIGKILL)


def test_names_and_namespaces_have_locks_of_their_own(tmp_path):
    taken = [
        NameLock(tmp_path, namespace, name)
        for namespace, name in (("a", "b-c"), ("a-b", "c"), ("a", "x:1@h"), ("b", "b-c"))
    ]
    assert all(one.take() for one in taken)
    for one in taken:
        one.close()


def test_the_longest_names_fit_a_file_system(tmp_path):
    one = NameLock(tmp_path, "n" * 63, "e" * 128)
    assert one.take()
    one.close()


def test_only_what_was_acknowledged_is_written_and_the_older_proof_stays_until_then(tmp_path):
    first = lock(tmp_path)
    first.take()
    first.write("i1")
    first.close()
    for _ in range(2):  # processes that crash before they could join
        second = lock(tmp_path)
        assert second.take()
        assert second.predecessor == "i1"
        second.close()
    third = lock(tmp_path)
    third.take()
    third.write("i" * 64)
    assert third.predecessor == ""
    third.write("i3")  # it joined again under a fresh incarnation
    third.close()
    fourth = lock(tmp_path)
    fourth.take()
    assert fourth.predecessor == "i3"
    fourth.close()


def test_a_lock_that_is_got_late_proves_nothing_and_is_written(tmp_path):
    former, mine = lock(tmp_path), lock(tmp_path)
    former.take()
    former.write("i1")
    mine.write("i2")
    assert not mine.is_held
    former.close()
    mine.write("i2")
    assert mine.is_held
    assert mine.predecessor == ""
    mine.close()
    after = lock(tmp_path)
    after.take()
    assert after.predecessor == "i2"
    after.close()


def sealed(name):
    return b"%-64s%08x\n" % (name, zlib.crc32(name))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        sealed(b"i1")[:-1],
        sealed(b"i1") + b"x",
        sealed(b"i1").replace(b"i1", b"i2"),
        sealed(b"i1\ni2"),
        sealed(b"\xc3\xbc"),
        os.urandom(1 << 16),
    ],
    ids=["empty", "torn", "longer", "other", "two", "foreign", "noise"],
)
def test_what_was_not_written_by_a_holder_proves_nothing(tmp_path, content):
    (tmp_path / "jobs+e1.lock").write_bytes(content)
    one = lock(tmp_path)
    assert one.take()
    assert one.predecessor == ""
    one.write("i2")
    one.close()
    assert (tmp_path / "jobs+e1.lock").read_bytes()[:73] == sealed(b"i2")


def test_a_longer_file_that_was_overwritten_still_proves_nothing(tmp_path):
    (tmp_path / "jobs+e1.lock").write_bytes(b"x" * 200)
    for expected in ("", ""):
        one = lock(tmp_path)
        one.take()
        assert one.predecessor == expected
        one.write("i2")
        one.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else_is_refused(tmp_path):
    path = tmp_path / "jobs+e1.lock"
    path.write_bytes(sealed(b"i1"))
    os.chown(path, 1, 1)
    with pytest.raises(PermissionError, match=r"own.*jobs\+e1\.lock"):
        lock(tmp_path).take()


def test_what_is_no_plain_file_is_refused(tmp_path):
    (tmp_path / "elsewhere").touch()
    (tmp_path / "jobs+link.lock").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "jobs+pipe.lock")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=name):
            lock(tmp_path, name).take()


def test_the_folder_is_made_and_is_the_users_own(tmp_path):
    one = lock(tmp_path / "run" / "locks")
    assert one.take()
    assert (tmp_path / "run" / "locks").stat().st_mode & 0o077 == 0
    one.close()


def test_a_descriptor_that_somebody_closed_is_never_written_to(tmp_path):
    one = lock(tmp_path)
    one.take()
    os.close(one._file)
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    try:
        assert other == one._file
        one.write("i1")
        one.close()
        assert (tmp_path / "other").read_bytes() == b""
        os.fstat(other)
    finally:
        os.close(other)


# ----------------------------------------------------------------------------- the executor


@pytest.fixture
async def seam():
    return Seam()


def dead(folder, incarnation):
    """A former process that was here."""
    one = lock(folder)
    one.take()
    one.write(incarnation)
    one.close()


async def test_the_proof_is_given_until_the_executor_has_joined(seam, diary, tmp_path):
    dead(tmp_path, "i0")
    seam.refuse_beats = refusal(503, "no_leader")
    executor = seam.executor(diary, lock_dir=tmp_path)
    entering = asyncio.create_task(executor.__aenter__())
    await until(lambda: len(seam.beats) >= 2)
    seam.refuse_beats = None
    await entering
    seen = len(seam.beats)
    await until(lambda: len(seam.beats) > seen + 1)
    await executor.__aexit__(None, None, None)
    given = [beat.get("predecessor_dead") for beat in seam.beats]
    joined = given.index(None)  # the first heartbeat after the one that was answered
    assert joined >= 2
    assert set(given[:joined]) == {"i0"}
    assert set(given[joined:]) == {None}
    after = lock(tmp_path)
    assert after.take()
    assert after.predecessor == executor.incarnation
    after.close()


async def test_a_lock_of_a_live_process_holds_nobody_up(seam, diary, tmp_path):
    former = lock(tmp_path)
    former.take()
    former.write("i0")
    async with seam.executor(diary, lock_dir=tmp_path) as executor:
        assert all("predecessor_dead" not in beat for beat in seam.beats)
        former.close()
        mine = executor._parts.lock
        await until(lambda: mine.is_held)  # for the process after this one
        assert all("predecessor_dead" not in beat for beat in seam.beats)
    after = lock(tmp_path)
    after.take()
    assert after.predecessor == executor.incarnation
    after.close()


async def test_a_former_process_that_dies_while_its_successor_joins_is_proven_dead(
    seam, diary, tmp_path
):
    former = lock(tmp_path)
    former.take()
    former.write("i0")
    seam.refuse_beats = refusal(503, "no_leader")
    executor = seam.executor(diary, lock_dir=tmp_path)
    entering = asyncio.create_task(executor.__aenter__())
    await until(lambda: len(seam.beats) >= 2)
    former.close()
    await until(lambda: seam.beats[-1].get("predecessor_dead") == "i0")
    seam.refuse_beats = None
    await entering
    await executor.__aexit__(None, None, None)


async def test_an_incarnation_that_joined_again_is_the_one_that_is_written(seam, diary, tmp_path):
    async with seam.executor(diary, lock_dir=tmp_path) as executor:
        first = executor.incarnation
        seam.refuse_beats = refusal(409, "incarnation_closed", cause="expired")
        await until(lambda: executor.incarnation != first)
        seam.refuse_beats = None
        seen = len(seam.beats)
        await until(lambda: len(seam.beats) > seen + 2)
        current = executor.incarnation
    after = lock(tmp_path)
    after.take()
    assert after.predecessor == current
    after.close()


async def test_a_folder_that_cannot_be_used_is_told_at_once(seam, diary, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        async with seam.executor(diary, lock_dir=tmp_path / "file"):
            pytest.fail("entered")
    assert seam.beats == []


async def test_whoever_ends_with_shards_still_running_keeps_the_lock(seam, diary, tmp_path):
    seam.assign(a=(5, "run"))
    executor = seam.executor(
        diary, lock_dir=tmp_path, on_stop=lambda _: time.sleep(1.0), leave_timeout_s=0.2
    )
    async with executor:
        await until(executor.running)
    after = lock(tmp_path)
    assert not after.take()  # its thread may still be at work
    executor._parts.lock.close()
