"""A process may hold fewer files than its settings allow connections."""

import asyncio
import resource
from pathlib import Path

import pytest

from bench.cluster import Nodes
from bench.processes import Processes
from coordinator.descriptors import RESERVED, raise_limit, room_for
from tests.hostile.callers import Caller, crowd

FILES = 200
FEW_FILES = (
    "-c",
    (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}));"
        " from coordinator.__main__ import main; main()"
    ),
)


@pytest.mark.parametrize(
    ("files", "room"),
    [
        (100_000, 20_000),
        (10_000, 10_000 - RESERVED),
        (1_024, 512),
        (resource.RLIM_INFINITY, 20_000),
    ],
)
def test_what_a_node_needs_itself_is_kept_back(
    monkeypatch: pytest.MonkeyPatch, files: int, room: int
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert room_for(20_000) == room


@pytest.mark.parametrize(
    ("soft", "hard", "now"),
    [
        (1_024, 1_000_000, 20_000 + RESERVED),
        (1_024, 4_096, 4_096),
        (1_024, resource.RLIM_INFINITY, 20_000 + RESERVED),
        (500_000, 500_000, None),
    ],
)
def test_the_limit_is_raised_as_far_as_it_is_needed_and_allowed(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, now: int | None
):
    given: list[int] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits[0]))
    raise_limit(20_000)
    assert given == ([] if now is None else [now])


async def test_a_crowd_takes_no_file_that_the_node_needs(tmp_path: Path):
    async with Processes(tmp_path) as processes, crowd() as callers:
        nodes = Nodes(tmp_path, processes, size=1, program=FEW_FILES)
        try:
            await nodes.start_all()
            port = int(nodes.urls[0].rpartition(":")[2])
            get = f"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
            statuses = []
            for _ in range(FILES):
                callers.append(caller := await Caller.connect(port))
                statuses.append((await caller.ask(get)).split()[1])
            assert statuses.count(b"200") >= FILES // 4
            assert statuses[-1] == b"503"
            assert await nodes.first_write("afterwards") < 20  # through a connection it had
            for caller in callers:
                caller.close()
            await asyncio.sleep(0.1)
            callers.append(caller := await Caller.connect(port))
            assert b" 200 " in await caller.ask(get)
        finally:
            await nodes.close()
        said = (tmp_path / "n1.log").read_text()
        assert "connections_bounded" in said
        assert "Traceback" not in said
        assert "Too many open files" not in said
