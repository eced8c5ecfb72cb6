"""The contract with PySyncObj: every private name that is touched exists and has its shape."""

import inspect
import queue
import re
from importlib.metadata import version
from pathlib import Path

import pysyncobj.serializer
import pysyncobj.syncobj
import pytest
from pysyncobj import SyncObj
from pysyncobj.journal import Journal
from pysyncobj.node import Node
from pysyncobj.serializer import Serializer
from pysyncobj.transport import Transport

import coordinator.consensus
from coordinator.consensus import codec, engine, library
from coordinator.consensus.library import Member, Port, use_clock
from coordinator.consensus.memory_log import MemoryLog
from coordinator.consensus.snapshots import SnapshotStore
from tests.consensus.lab import Lab

PACKAGE = Path(coordinator.consensus.__file__).parent
PRIVATE = re.compile(r"_SyncObj__(\w+)")
USED = sorted({n for path in PACKAGE.rglob("*.py") for n in PRIVATE.findall(path.read_text())})

METHODS = {
    "applyLogEntries": 0,
    "connectedToAnyone": 0,
    "doApplyCommand": 1,
    "generateRaftTimeout": 0,
    "getEntries": 3,
    "sendAppendEntries": 0,
    "setCurrentTerm": 2,
    "setState": 1,
}
SHAPES = {
    "commandsQueue": engine.Proposals,
    "commandsWaitingCommit": dict,
    "commandsWaitingReply": dict,
    "connectedNodes": set,
    "lastResponseTime": dict,
    "noopIDx": (int, type(None)),
    "raftCommitIndex": int,
    "raftCurrentTerm": int,
    "raftElectionDeadline": float,
    "raftLastApplied": int,
    "raftLeader": (Node, type(None)),
    "raftLog": MemoryLog,
    "raftMatchIndex": dict,
    "raftNextIndex": dict,
    "raftState": int,
    "serializer": SnapshotStore,
    "transferInProgress": bool,
    "votedForNodeId": (str, type(None)),
}


def test_the_library_is_the_version_this_was_written_for():
    assert version("pysyncobj") == pysyncobj.version.VERSION == library.VERSION_EXPECTED == "0.3.17"


def test_nothing_but_the_library_module_and_the_engine_imports_pysyncobj():
    importers = {
        path.name
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^(from|import) pysyncobj", path.read_text(), re.MULTILINE)
    }
    assert importers == {"library.py", "engine.py"}


def test_every_private_name_used_is_known_to_this_contract():
    assert set(USED) <= set(METHODS) | set(SHAPES)
    assert len(USED) >= 20


@pytest.mark.parametrize("name", sorted(set(USED) & set(METHODS)))
def test_the_private_method_exists_with_its_arguments(name):
    method = getattr(SyncObj, f"_SyncObj__{name}")
    assert len(inspect.signature(method).parameters) == METHODS[name] + 1


@pytest.mark.parametrize("name", sorted(set(USED) & set(SHAPES)))
def test_the_private_attribute_exists_with_its_shape_and_the_library_uses_it(name):
    lab = Lab()
    lab.lead()
    assert isinstance(getattr(lab.engine, f"_SyncObj__{name}"), SHAPES[name])
    assert f"self.__{name}" in inspect.getsource(SyncObj)


OVERRIDDEN = (
    "applyLogEntries",
    "connectedToAnyone",
    "doApplyCommand",
    "generateRaftTimeout",
    "getEntries",
    "sendAppendEntries",
)


def test_what_is_overridden_is_called_by_the_library():
    source = inspect.getsource(SyncObj)
    for name in OVERRIDDEN:
        assert f"self.__{name}(" in source
        assert f"_SyncObj__{name}" in vars(engine.Engine)


def test_the_library_reads_its_clock_and_its_codec_through_the_patched_names():
    assert pysyncobj.syncobj.monotonicTime.__module__ == library.__name__
    assert pysyncobj.syncobj.pickle is codec.PickleStandIn
    assert pysyncobj.serializer.pickle is codec.PickleStandIn
    use_clock(lambda: 1234.5)
    assert pysyncobj.syncobj.monotonicTime() == 1234.5
    source = inspect.getsource(pysyncobj.syncobj)
    assert "monotonicTime()" in source
    assert not re.search(r"\btime\.(time|monotonic)\(", source)


def test_chance_enters_the_library_only_where_it_is_overridden():
    source = inspect.getsource(pysyncobj.syncobj)
    assert source.count("random.") == 1
    assert "random.random()" in inspect.getsource(SyncObj._SyncObj__generateRaftTimeout)


def public(cls):
    return {n for n, value in vars(cls).items() if callable(value) and n != "__init__"}


def test_the_log_answers_everything_the_library_asks_of_a_journal():
    assert public(Journal) <= public(MemoryLog)


def test_the_queue_of_proposals_answers_everything_the_library_asks_of_its_own():
    asked = set(re.findall(r"__commandsQueue\.(\w+)", inspect.getsource(SyncObj)))
    assert asked == {"put_nowait", "get_nowait"}
    waiting = engine.Proposals(1)
    waiting.put_nowait("a")
    with pytest.raises(queue.Full):
        waiting.put_nowait("b")
    assert waiting.get_nowait() == "a"
    with pytest.raises(queue.Empty):
        waiting.get_nowait()


def test_the_snapshot_store_answers_everything_the_library_asks_of_a_serializer():
    assert public(Serializer) <= public(SnapshotStore)


def test_the_port_answers_everything_the_library_asks_of_a_transport():
    asked = set(re.findall(r"self\.__transport\.(\w+)", inspect.getsource(SyncObj)))
    assert asked <= set(dir(Port))
    assert issubclass(Port, Transport)


def test_the_message_types_of_the_library_are_all_known():
    source = inspect.getsource(pysyncobj.syncobj)
    types = set(re.findall(r"'type': '(\w+)'", source)) | set(
        re.findall(r"message\['type'\] == '(\w+)'", source)
    )
    assert types <= set(codec.FIELDS)


def test_members_are_equal_by_name_and_hash_alike_in_every_process():
    assert Member("n1") == Member("n1") == Node("n1")
    assert Member("n1") != Member("n2")
    assert hash(Member("n1")) == ord("n") + ord("1")


def test_fail_reasons_are_the_numbers_the_outcomes_are_made_of():
    reasons = (
        library.SUCCESS,
        library.QUEUE_FULL,
        library.MISSING_LEADER,
        library.DISCARDED,
        library.NOT_LEADER,
        library.UNKNOWN_OUTCOME,
    )
    assert reasons == (0, 1, 2, 3, 4, 7)


def test_a_repeated_log_line_of_the_library_is_let_through_once():
    limit = library.RepeatsOnce(interval_s=60)
    record = library.logger.makeRecord("x", 40, "f", 1, "again %d", (1,), None)
    other = library.logger.makeRecord("x", 40, "f", 1, "other", (), None)
    assert [limit.filter(r) for r in (record, record, other, record)] == [True, False, True, False]
