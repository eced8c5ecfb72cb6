"""Nodes with a journal as processes: what they refuse to start with, and a disk that fills up."""

import asyncio
import contextlib
import shutil
import subprocess
import sys

import pytest

from bench.cluster import Nodes
from bench.processes import Processes
from tests.waiting import until


@contextlib.asynccontextmanager
async def three(folder):
    async with Processes(folder) as processes:
        nodes = Nodes(folder, processes, has_journal=True)
        try:
            yield nodes, processes
        finally:
            await nodes.close()


async def refused(nodes, processes, name, lines=1):
    """A start that must end by itself: its status and its last words."""
    log = nodes.journal(name).parent / f"{name}.log"
    log.unlink(missing_ok=True)
    await nodes.start(name)
    async with asyncio.timeout(15):
        status = await processes.running[name].wait()
    await processes.kill(name)
    told = log.read_text().splitlines()
    assert lines is None or len(told) == lines
    return status, told[-1]


async def test_a_file_that_cannot_be_trusted_ends_the_start_with_one_line(tmp_path):
    async with three(tmp_path) as (nodes, processes):
        await nodes.start_all()
        await nodes.first_write("kept")
        for name in nodes.names:
            await nodes.kill(name)
        path = nodes.journal("n1") / "journal.sqlite"
        right = path.read_bytes()

        path.write_bytes(right[:5000])
        status, line = await refused(nodes, processes, "n1")
        assert status == 1
        assert line.startswith(f"shard-coordinator: cannot start: {path}: ")
        assert "move its folder away and start again" in line

        path.write_bytes(right)
        shutil.move(nodes.journal("n1"), tmp_path / "mine")
        shutil.copytree(nodes.journal("n2"), nodes.journal("n1"))
        status, line = await refused(nodes, processes, "n1")
        assert status == 1
        assert f"{path}: belongs to node 'n2', this is 'n1'" in line

        # The others go on, and the way out works: an empty folder is caught up.
        await nodes.start("n2")
        await nodes.start("n3")
        await nodes.first_write("without-n1")
        shutil.rmtree(nodes.journal("n1"))
        await nodes.start("n1")
        await nodes.ready(nodes.names)
        assert 'quarantine_left node=n1 how="caught up"' in (tmp_path / "n1.log").read_text()
        _, body = await nodes.ask("GET", f"{nodes.api['n1']}/v1/namespaces", timeout_s=2)
        assert b'"kept"' in body
        assert b'"without-n1"' in body


async def test_a_second_process_is_turned_away_from_the_folder(tmp_path):
    async with three(tmp_path) as (nodes, _):
        await nodes.start_all()
        ended = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "coordinator", "--config", str(nodes.config("n1"))),
            stderr=asyncio.subprocess.PIPE,
        )
        _, told = await asyncio.wait_for(ended.communicate(), 15)
        assert ended.returncode == 1
        assert b"another process uses it" in told
        assert await nodes.is_ready("n1")


async def test_a_restarted_node_needs_no_quarantine_and_the_cluster_is_the_one_it_was(tmp_path):
    async with three(tmp_path) as (nodes, _):
        await nodes.start_all()
        await nodes.first_write("kept")
        before = await nodes.sight("n1")
        assert before.storage == "journal"
        for name in nodes.names:
            await nodes.terminate(name)
            (tmp_path / f"{name}.log").unlink()
        await nodes.start_all()
        after = await nodes.sight("n1")
        assert after.cluster_id == before.cluster_id
        assert after.term > before.term
        for name in nodes.names:
            assert "quarantine" not in (tmp_path / f"{name}.log").read_text()
        _, body = await nodes.ask("GET", f"{nodes.api['n3']}/v1/namespaces", timeout_s=2)
        assert b'"kept"' in body


@contextlib.contextmanager
def small_disk(folder):
    folder.mkdir()
    done = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
        timeout=10,
    )
    if done.returncode:
        pytest.skip(f"mounting is not permitted: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True, timeout=10)


def fill(folder):
    with contextlib.suppress(OSError), (folder / "filler").open("wb") as filler:
        while True:
            filler.write(b"\0" * 4096)
            filler.flush()


async def test_a_leader_whose_disk_fills_up_gives_way_says_so_and_comes_back(tmp_path):
    async with three(tmp_path) as (nodes, _):
        with small_disk(nodes.journal("n1")) as folder:
            await nodes.start_all()
            if await nodes.leader() != "n1":
                url = f"{nodes.api['n1']}/v1/cluster/transfer-leadership"
                status, told = await nodes.ask("POST", url, body={"to": "n1"}, timeout_s=5)
                assert status == 200, told
            assert await nodes.leader() == "n1"
            fill(folder)
            # Nothing that n1 cannot keep is answered as written; the others soon write it.
            written = [f"meanwhile-{number}" for number in range(40)]
            for label in written:
                await nodes.first_write(label)
            assert await nodes.leader() != "n1"
            status, body = await nodes.ask(
                "GET", f"{nodes.api['n1']}/readyz?verbose=true", timeout_s=2
            )
            assert status == 503
            assert b"[-] disk writable" in body
            _, body = await nodes.ask("GET", f"{nodes.api['n1']}/v1/cluster", timeout_s=2)
            assert b"disk is full" in body
            _, body = await nodes.ask("GET", f"{nodes.api['n1']}/metrics", timeout_s=2)
            assert b"shard_coordinator_raft_disk_fault 1.0" in body
            assert "disk_refused node=n1" in (tmp_path / "n1.log").read_text()
            (folder / "filler").unlink()
            await nodes.ready(nodes.names)
            await until(lambda: same_digest(nodes))
            assert "disk_recovered node=n1" in (tmp_path / "n1.log").read_text()
            for name in nodes.names:
                await nodes.kill(name)
            await nodes.start_all()
            _, body = await nodes.ask("GET", f"{nodes.api['n1']}/v1/namespaces", timeout_s=2)
            assert all(f'"{label}"'.encode() in body for label in written)


async def same_digest(nodes):
    seen = [await nodes.sight(name, "?digest=true") for name in nodes.names]
    return None not in seen and len({(one.applied_index, one.digest) for one in seen}) == 1


async def test_a_journal_of_another_cluster_ends_its_node_and_disturbs_nobody(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    async with three(tmp_path / "a") as (first, _), three(tmp_path / "b") as (second, processes):
        for nodes in (first, second):
            await nodes.start_all()
        foreign = (await first.sight("n2")).cluster_id
        own = (await second.sight("n1")).cluster_id
        assert foreign != own
        for nodes in (first, second):
            await nodes.kill("n2")
        shutil.rmtree(second.journal("n2"))
        shutil.copytree(first.journal("n2"), second.journal("n2"))
        await second.start("n2")
        async with asyncio.timeout(15):
            assert await processes.running["n2"].wait() == 1
        told = (tmp_path / "b" / "n2.log").read_text()
        assert f"journal.sqlite belongs to cluster {foreign}, a majority of the members" in told
        assert await second.first_write("undisturbed") < 2.0
        assert (await second.sight("n1")).cluster_id == own


async def test_an_old_journal_after_a_life_without_it_ends_its_node_with_the_way_out(tmp_path):
    async with three(tmp_path) as (nodes, processes):
        await nodes.start_all()
        await nodes.kill("n3")
        nodes.has_journal = False
        await nodes.start("n3")  # it forgets, is caught up, votes and acknowledges
        await nodes.ready(["n3"])
        await nodes.first_write("without-its-journal")
        await nodes.kill("n3")
        nodes.has_journal = True
        status, _ = await refused(nodes, processes, "n3", lines=None)
        assert status == 1
        told = (tmp_path / "n3.log").read_text()
        assert "journal.sqlite is older than what the other members know of this node" in told
        assert "move its folder away" in told
        shutil.rmtree(nodes.journal("n3"))
        await nodes.start("n3")
        await nodes.ready(nodes.names)
