"""The journal's file: what was committed comes back whole, and doubtful files are refused."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.consensus.disk import Batch, DiskLost, DiskRefused, JournalRefused, Kept
from coordinator.consensus.journal import CHUNK_BYTES, Journal
from coordinator.consensus.journal_file import FILE_NAME, FORMAT, open_journal
from tests.sim.disk import SimDisk


@pytest.fixture
def quick(tmp_path):
    """A folder whose syncs cost nothing, for tests of many commits."""
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


def opened(folder, node="n1"):
    """The file and what it gave back."""
    file = open_journal(str(folder), node)
    try:
        return file, file.load()
    except BaseException:
        file.close()
        raise


@contextlib.contextmanager
def journal(folder, node="n1"):
    file, kept = opened(folder, node)
    try:
        yield file, kept
    finally:
        file.close()


def entries(first, count, term=1, size=20):
    return [
        (b"\0" + bytes([index % 251]) * size, index, term) for index in range(first, first + count)
    ]


def crashed(folder, to):
    """What a process that was killed at this moment leaves on disk."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    return to


def filled(folder, commits=6):
    """A file whose process was killed after this many steps, of three entries each."""
    with journal(folder) as (file, _):
        for number in range(commits):
            batch = Batch(entries=entries(1 + 3 * number, 3), promise=(number + 1, f"v{number}"))
            file.commit(batch)
        return crashed(folder, folder.with_name("crashed"))


def refusal(folder, node="n1"):
    with pytest.raises(JournalRefused) as refused:
        opened(folder, node)
    told = str(refused.value)
    assert str(folder) in told
    assert "\n" not in told
    return told


# -- what comes back ---------------------------------------------------------------------------


def test_a_new_folder_gives_nothing_and_then_what_was_committed(tmp_path):
    folder = tmp_path / "not" / "there"
    with journal(folder) as (file, kept):
        assert kept == Kept()
        file.commit(Batch(entries=entries(1, 5), promise=(3, "n2"), notes={"nonce": "a"}))
        file.commit(Batch(cut_from=4, entries=entries(4, 1, term=3), cut_to=2, promise=(4, None)))
    with journal(folder) as (_, kept):
        assert (kept.term, kept.vote, kept.notes) == (4, None, {"nonce": "a"})
        assert list(kept.entries) == [*entries(2, 2), *entries(4, 1, term=3)]


def test_what_was_committed_outlives_a_kill(tmp_path):
    left = filled(tmp_path / "a")
    with journal(left) as (_, kept):
        assert (kept.term, kept.vote) == (6, "v5")
        assert list(kept.entries) == entries(1, 18)


def test_a_snapshot_is_current_from_its_last_chunk_on(tmp_path):
    with journal(tmp_path) as (file, _):
        file.commit(Batch(entries=entries(1, 1), chunks={(9, 0): b"one", (9, 1): b"two"}))
        file.commit(Batch(chunks={(9, 2): b"three"}, snapshot=(9, 3)))
        file.commit(Batch(chunks={(20, 0): b"half"}))
    with journal(tmp_path) as (file, kept):
        assert kept.snapshot == b"onetwothree"
        assert kept.snapshot_name == (9, 3)
        assert kept.stale == ((20, 0),)
        file.commit(Batch(drops=list(kept.stale)))
    with journal(tmp_path) as (_, kept):
        assert kept.stale == ()


operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 4)),
        st.tuples(st.just("cut_end"), st.integers(0, 6)),
        st.tuples(st.just("cut_front"), st.integers(0, 6)),
        st.tuples(st.just("install"), st.integers(5, 9)),
        st.tuples(st.just("promise"), st.integers(0, 3)),
        st.tuples(st.just("keep"), st.integers(0, 3 * CHUNK_BYTES)),
        st.tuples(st.just("sync"), st.just(0)),
    ),
    max_size=40,
)


def carried_out(made, script):
    """Does as the library does; ends kept."""
    term = 0
    made.keep_head, made.keep_tail = 1, 2
    if not len(made):
        made.add(b"\1", 1, 0)
    for what, number in script:
        last = made[-1][1]
        if what == "add":
            for one in range(number):
                made.add(b"\0" + bytes(one), last + 1 + one, term)
        elif what == "cut_end":
            made.deleteEntriesFrom(max(1, len(made) - number))
        elif what == "cut_front":
            made.deleteEntriesTo(number)
        elif what == "install":
            made.clear()
            made.add(b"\0f", last + number, term)
            made.add(b"\0l", last + number + 1, term)
            made.shelf.put(b"i" * number, last + number + 1, at_once=True)
            made.sync()
        elif what == "promise":
            term += number
            made.setCurrentTerm(term, f"n{number}" if number else None)
        elif what == "keep" and not made.shelf.is_busy:
            made.shelf.put(b"s" * (number + 1), last, at_once=False)
        elif what == "sync":
            made.sync()
    while made.is_behind:
        made.sync()
    made.sync()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(script=operations)
def test_any_order_of_changes_comes_back_from_the_file_as_from_the_simulators_disk(quick, script):
    folder = quick / "journal"
    shutil.rmtree(folder, ignore_errors=True)
    sim = SimDisk("n1")
    of_sim = Journal(sim, sim.load())
    carried_out(of_sim, script)
    with journal(folder) as (file, kept):
        of_file = Journal(file, kept)
        carried_out(of_file, script)
        left = crashed(folder, folder.with_name(folder.name + "-left"))
    with journal(left) as (_, kept):
        assert kept == sim.load()
        assert kept.entries == tuple(of_file[:])
        assert (kept.term, kept.vote) == (of_file.getCurrentTerm(), of_file.getVotedForNodeId())


def test_every_commit_is_synced_and_the_file_is_kept_from_others(tmp_path):
    with journal(tmp_path) as (file, _):
        told = [
            file._db.execute(f"pragma {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "locking_mode")
        ]
        assert told == ["wal", 2, "exclusive"]  # 2: full, so the write-ahead file is synced
        assert not (tmp_path / f"{FILE_NAME}-shm").exists()


def test_a_large_snapshot_leaves_no_large_write_ahead_file(tmp_path):
    with journal(tmp_path) as (file, _):
        chunks = {(9, number): bytes(CHUNK_BYTES) for number in range(80)}
        file.commit(Batch(chunks=chunks, snapshot=(9, 80)))
        wal = tmp_path / f"{FILE_NAME}-wal"
        assert wal.stat().st_size > 20_000_000
        file.commit(Batch(promise=(1, None)))
        assert wal.stat().st_size <= 8 << 20


# -- crashes -----------------------------------------------------------------------------------


def test_a_write_ahead_file_torn_anywhere_gives_whole_steps(quick):
    left = filled(quick / "a")
    wal = left / f"{FILE_NAME}-wal"
    whole = wal.read_bytes()
    seen = set()
    for length in range(len(whole), 0, -997):
        torn = crashed(left, quick / "torn")
        (torn / wal.name).write_bytes(whole[:length])
        with journal(torn) as (_, kept):
            steps, rest = divmod(len(kept.entries), 3)
            assert rest == 0
            assert kept.term == steps
            assert list(kept.entries) == entries(1, 3 * steps)
            seen.add(steps)
    assert seen == set(range(7))


def test_a_damaged_last_step_is_a_torn_one_and_a_damaged_middle_is_refused(tmp_path):
    left = filled(tmp_path / "a")
    wal = left / f"{FILE_NAME}-wal"
    whole = bytearray(wal.read_bytes())
    frame = 24 + 4096
    last = crashed(left, tmp_path / "last")
    end = bytearray(whole)
    end[-100] ^= 1
    (last / wal.name).write_bytes(end)
    with journal(last) as (_, kept):
        assert kept.term == 5
    whole[32 + frame // 2] ^= 1
    wal.write_bytes(whole)
    assert "write-ahead file is damaged at frame 0" in refusal(left)


def test_a_crash_while_the_file_is_made_leaves_none(tmp_path):
    (tmp_path / "journal.new").write_bytes(b"half of it")
    with journal(tmp_path) as (_, kept):
        assert kept == Kept()


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 50, 100, 4096, 12_000])
def test_a_truncated_file_is_refused_with_the_way_out(tmp_path, length):
    with journal(tmp_path) as (file, _):
        file.commit(Batch(entries=entries(1, 200, size=200), promise=(1, None)))
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes()[:length])
    told = refusal(tmp_path)
    assert "truncated" in told or "damaged" in told
    assert "move its folder away" in told


def test_bytes_turned_anywhere_are_refused_or_do_not_matter(quick):
    with journal(quick / "a") as (file, kept):
        file.commit(
            Batch(entries=entries(1, 60, size=300), promise=(1, "n2"), notes={"nonce": "a"})
        )
    with journal(quick / "a") as (_, kept):
        right = kept
    whole = (quick / "a" / FILE_NAME).read_bytes()
    refused = 0
    for at in range(0, len(whole), 401):
        turned = crashed(quick / "a", quick / "turned")
        data = bytearray(whole)
        data[at] ^= 0x55
        (turned / FILE_NAME).write_bytes(data)
        try:
            with journal(turned) as (_, kept):
                assert (kept.term, kept.vote, kept.entries) == (
                    right.term,
                    right.vote,
                    right.entries,
                )
        except JournalRefused:
            refused += 1
    assert refused > 50


def test_what_is_no_journal_is_refused(tmp_path):
    path = tmp_path / FILE_NAME
    path.write_bytes(b"something else " * 100)
    assert "is no SQLite file" in refusal(tmp_path)
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as foreign:
        foreign.execute("create table theirs (x)")
    assert "belongs to another program" in refusal(tmp_path)


def test_the_file_of_another_node_is_refused(tmp_path):
    with journal(tmp_path, "n1"):
        pass
    told = refusal(tmp_path, "n2")
    assert "belongs to node 'n1', this is 'n2'" in told
    assert "set node.name or storage.dir right" in told


def test_a_newer_format_is_refused_and_the_newer_version_named_as_the_way_out(tmp_path):
    with journal(tmp_path):
        pass
    change(tmp_path, f"pragma user_version = {FORMAT + 1}")
    told = refusal(tmp_path)
    assert f"has format {FORMAT + 1}" in told
    assert "start the newer version" in told


def change(folder, *statements):
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("update entry set command = x'00ff' where number = 3", "its entry 3 is damaged"),
        ("update entry set term = 9 where number = 4", "its entry 4 is damaged"),
        ("delete from entry where number = 2", "its entries after 1 are missing"),
        ("update promise set term = 1", "its term and vote are damaged"),
        ("update promise set vote = null", "its term and vote are damaged"),
        ("update note set value = 'n3' where name = 'nonce'", "its note 'nonce' is damaged"),
        ("update entry set command = 'text' where number = 3", "is damaged (a bytes-like"),
        ("update entry set term = 'text' where number = 3", "is damaged ("),
        ("delete from chunk where number = 0", "1 parts of its snapshot are missing"),
    ],
)
def test_a_changed_row_is_refused(tmp_path, statement, what):
    with journal(tmp_path) as (file, _):
        file.commit(Batch(entries=entries(1, 5), promise=(7, "n2"), notes={"nonce": "a"}))
        file.commit(Batch(chunks={(3, 0): b"one", (3, 1): b"two"}, snapshot=(3, 2)))
    change(tmp_path, statement)
    assert what in refusal(tmp_path)


def test_a_lost_write_ahead_file_is_noticed_after_a_kill_and_not_missed_after_an_end(tmp_path):
    left = filled(tmp_path / "a")
    (left / f"{FILE_NAME}-wal").unlink()
    assert "write-ahead file is gone" in refusal(left)
    assert not (tmp_path / "a" / f"{FILE_NAME}-wal").exists()  # it ended in order
    with journal(tmp_path / "a") as (_, kept):
        assert kept.term == 6


def test_a_lost_main_file_is_noticed(tmp_path):
    left = filled(tmp_path / "a")
    (left / FILE_NAME).unlink()
    assert "is missing beside its write-ahead file" in refusal(left)


def test_a_folder_is_for_one_process(tmp_path):
    with journal(tmp_path):
        assert "another process uses it" in refusal(tmp_path)
        program = (
            "import sys; from coordinator.consensus.journal_file import open_journal\n"
            f"open_journal({str(tmp_path)!r}, 'n1')"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
        )
        assert "another process uses it" in ended.stderr
    with journal(tmp_path):
        pass


def test_a_file_that_another_program_has_open_is_refused(tmp_path):
    with journal(tmp_path):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as db:
        db.execute("begin exclusive")
        assert "another program has it open" in refusal(tmp_path)


def test_a_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be used" in refusal(tmp_path / "file")


# -- a disk that takes nothing ---------------------------------------------------------------------


def test_a_full_disk_keeps_nothing_of_a_step_and_takes_it_when_there_is_room(tmp_path):
    with journal(tmp_path) as (file, _):
        file.commit(Batch(entries=entries(1, 3), promise=(1, None)))
        (pages,) = file._db.execute("pragma page_count").fetchone()
        file._db.execute(f"pragma max_page_count = {pages + 2}")
        large = Batch(entries=entries(4, 300, size=500), promise=(2, "n2"))
        for _ in range(2):
            with pytest.raises(DiskRefused, match="full"):
                file.commit(large)
        with journal(crashed(tmp_path, tmp_path.with_name("full"))) as (_, kept):
            assert (kept.term, len(kept.entries)) == (1, 3)
        file._db.execute("pragma max_page_count = 1000000")
        file.commit(large)
    with journal(tmp_path) as (_, kept):
        assert (kept.term, kept.vote, len(kept.entries)) == (2, "n2", 303)


def test_a_read_only_disk_keeps_nothing_of_a_step_and_takes_it_later(tmp_path):
    with journal(tmp_path) as (file, _):
        file._db.execute("pragma query_only = on")
        with pytest.raises(DiskRefused, match="readonly"):
            file.commit(Batch(entries=entries(1, 3), promise=(1, None)))
        file._db.execute("pragma query_only = off")
        file.commit(Batch(entries=entries(1, 3), promise=(1, None)))
    with journal(tmp_path) as (_, kept):
        assert kept.term == 1


def test_after_the_end_nothing_is_taken(tmp_path):
    with journal(tmp_path) as (file, _):
        pass
    with pytest.raises(DiskLost, match="closed"):
        file.commit(Batch(promise=(1, None)))
    file.close()  # a second time does nothing


@contextlib.contextmanager
def small_filesystem(folder, kilobytes):
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False, timeout=10)
    except OSError as error:
        pytest.skip(f"no mount here: {error}")
    if done.returncode:
        pytest.skip(f"mounting is not permitted: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True, timeout=10)


def test_a_small_filesystem_fills_up_and_nothing_that_was_taken_is_lost(tmp_path):
    with small_filesystem(tmp_path / "small", 600) as folder:
        file, _ = opened(folder)
        taken = 0
        with pytest.raises(DiskRefused):  # noqa: PT012 - which commit is refused is not known
            for number in range(200):
                file.commit(Batch(entries=entries(1 + 10 * number, 10, size=400)))
                taken += 10
        assert taken > 100
        with pytest.raises(DiskRefused):
            file.commit(Batch(entries=entries(1 + taken, 10, size=400)))
        with journal(crashed(folder, tmp_path / "killed")) as (_, kept):
            assert list(kept.entries) == entries(1, taken, size=400)
        file.close()
        with contextlib.suppress(OSError), (folder / "filler").open("wb") as filler:
            while filler.write(bytes(4096)):
                filler.flush()
        with pytest.raises(JournalRefused, match=r"cannot be written.*make room"):
            opened(folder)
        subprocess.run(
            ["/bin/mount", "-o", "remount,size=4000k", str(folder)], check=True, timeout=10
        )
        with journal(folder) as (file, kept):
            assert len(kept.entries) == taken
            file.commit(Batch(entries=entries(1 + taken, 10, size=400)))
        with journal(folder) as (_, kept):
            assert len(kept.entries) == taken + 10


def test_a_file_goes_on_being_of_the_size_that_it_needed_once(quick):
    with journal(quick) as (file, _):
        for lap in range(20):
            first = 1 + 2000 * lap
            for at in range(first, first + 2000, 100):
                file.commit(Batch(entries=entries(at, 100, size=100)))
            file.commit(Batch(cut_to=first + 1990))
        wal = (quick / f"{FILE_NAME}-wal").stat().st_size
    # Five megabytes went through it, a quarter of one at a time.
    assert (quick / FILE_NAME).stat().st_size < 1_000_000
    assert wal < 6_000_000
