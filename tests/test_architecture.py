"""The shape of the code: what may be imported where, how large it is, and that both ends agree."""

import ast
import importlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect as shapes

from client import outlooks, protocol, views
from coordinator.api import problems, records
from coordinator.api.operators import dry_run_records, news, nodes, outlook_records, shard_records
from coordinator.api.operators import records as operators
from coordinator.core import types

ROOT = Path(__file__).parents[1]
PACKAGES = ("coordinator", "client")
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def where(path: Path, node: ast.AST | None = None) -> str:
    line = f":{node.lineno}" if isinstance(node, ast.stmt | ast.expr) else ""
    return f"{path.relative_to(ROOT)}{line}"


# -- imports -----------------------------------------------------------------------------------


def loaded_by(statement: str) -> set[str]:
    """Modules that a fresh interpreter has loaded after the statement and not before."""
    script = (
        "import json, sys\nbefore = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


WHOLE_CORE = (
    "import coordinator.core, importlib, pkgutil\n"
    "for one in pkgutil.walk_packages(coordinator.core.__path__, 'coordinator.core.'):\n"
    "    importlib.import_module(one.name)"
)


def test_the_whole_core_loads_nothing_but_itself_and_the_standard_library() -> None:
    loaded = loaded_by(WHOLE_CORE)
    strangers = {name for name in loaded if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name for name in strangers if not f"{name}.".startswith("coordinator.core.")} == {
        "coordinator"
    }
    for forbidden in ("asyncio", "socket", "random", "logging", "threading", "uuid"):
        assert forbidden not in loaded


def imported(path: Path) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node


def contracts() -> list[dict[str, list[str]]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[dict[str, list[str]]] = config["tool"]["importlinter"]["contracts"]
    return found


def test_no_module_imports_what_its_contract_forbids() -> None:
    wrong = [
        f"{where(path, node)} imports {name}"
        for contract in contracts()
        for source in contract["source_modules"]
        for path in modules_of(source)
        for name, node in imported(path)
        for forbidden in contract["forbidden_modules"]
        if f"{name}.".startswith(f"{forbidden}.") and not is_excepted(contract, path, name)
    ]
    assert wrong == []


def is_excepted(contract: dict[str, list[str]], path: Path, name: str) -> bool:
    for exception in contract.get("ignore_imports", ()):
        source, _, target = exception.partition(" -> ")
        if path in modules_of(source) and name.startswith(target.removesuffix("**")):
            return True
    return False


def modules_of(source: str) -> list[Path]:
    base = ROOT / source.replace(".", "/")
    return [one for one in MODULES if one == base.with_suffix(".py") or base in one.parents]


CLIENT_NEEDS = {
    "aiohttp",
    "msgspec",
    "orjson",
    # What aiohttp itself needs.
    "aiohappyeyeballs",
    "aiosignal",
    "attr",
    "attrs",
    "frozenlist",
    "idna",
    "multidict",
    "propcache",
    "typing_extensions",
    "yarl",
    "cython_runtime",
}


def test_importing_the_client_loads_only_what_its_install_brings() -> None:
    tops = {name.split(".")[0] for name in loaded_by("import client")}
    strangers = {one for one in tops - sys.stdlib_module_names if not one.startswith("_cython_")}
    assert strangers - {"client"} <= CLIENT_NEEDS


def test_every_module_can_be_imported_by_itself() -> None:
    for path in MODULES:
        if path.name != "__main__.py":
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            assert importlib.import_module(name.removesuffix(".__init__")).__doc__


# -- size and form -----------------------------------------------------------------------------


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    lengths = {where(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {path: n for path, n in lengths.items() if n > MODULE_LINES_MAX} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = {}
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    too_long[f"{where(path, node)} {node.name}"] = length
    assert too_long == {}


def test_every_module_says_what_it_is_for() -> None:
    assert [where(path) for path in MODULES if not ast.get_docstring(tree(path))] == []


def test_nothing_is_checked_by_an_assert_that_python_may_leave_out() -> None:
    asserts = [
        where(path, node)
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Assert)
    ]
    assert asserts == []


AVOIDED = ("Manager", "Helper", "Util", "Impl", "Processor")


def test_no_class_has_a_name_that_says_nothing() -> None:
    names = [
        f"{where(path, node)} {node.name}"
        for path in MODULES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and node.name.endswith(AVOIDED)
    ]
    assert names == []


def test_core_iterates_no_set_display_or_set_call() -> None:
    """Replicas would diverge; sets are for membership, or are sorted first."""
    wrong = [
        where(path, node.iter)
        for path in modules_of("coordinator.core")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter)
    ]
    assert wrong == []


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)


# -- both ends of the wire ---------------------------------------------------------------------

Record = type[msgspec.Struct]


def fields(record: Record) -> dict[str, tuple[set[str], bool]]:
    """Of each field on the wire: the JSON kinds that it may have, and whether it must be there."""
    info = shapes.type_info(record)
    assert isinstance(info, shapes.StructType)
    return {one.encode_name: (kinds(one.type), one.required) for one in info.fields}


def kinds(shape: shapes.Type) -> set[str]:
    match shape:
        case shapes.UnionType():
            return {kind for one in shape.types for kind in kinds(one)}
        case shapes.Metadata():
            return kinds(shape.type)
        case shapes.StrType() | shapes.EnumType() | shapes.LiteralType():
            return {"string"}
        case shapes.IntType() | shapes.FloatType():
            return {"number"}
        case shapes.BoolType():
            return {"boolean"}
        case shapes.NoneType():
            return {"null"}
        case shapes.ListType() | shapes.VarTupleType() | shapes.TupleType():
            return {"array"}
        case shapes.DictType() | shapes.StructType() | shapes.DataclassType():
            return {"object"}
        case _:
            raise TypeError(f"{shape}?")


REQUESTS: list[tuple[Record, Record, set[str]]] = [
    # What a client sends, what a node reads, and what this client does not send yet.
    (protocol.HeldShard, records.HeldShard, set()),
    (protocol.ProcessSignals, records.ProcessSignals, set()),
    (protocol.Heartbeat, records.HeartbeatRequest, set()),
    (protocol.EpochRef, records.ClaimRecord, set()),
    (protocol.FailedStart, records.FailedClaim, set()),
    (protocol.Acks, records.AcksRequest, set()),
]

ANSWERS: list[tuple[Record, Record]] = [
    (protocol.HeartbeatAnswer, records.HeartbeatAnswer),
    (protocol.Assignment, records.AssignmentRecord),
    (protocol.AssignmentsAnswer, records.AssignmentsAnswer),
    (protocol.AcksAnswer, records.CursorAnswer),
    (protocol.NextOwner, records.NextOwner),
    (protocol.OwnerAnswer, records.OwnerAnswer),
    (protocol.RoutedExecutor, records.RoutedExecutor),
    (protocol.RoutingAnswer, records.RoutingAnswer),
    (protocol.Problem, problems.Problem),
    (protocol.FieldProblem, problems.FieldError),
    (views.NamespaceView, operators.NamespaceView),
    (views.ExecutorView, operators.ExecutorRecord),
    (views.ReturningExecutor, operators.ReturningExecutor),
    (views.ExecutorsPage, operators.ExecutorsAnswer),
    (views.NamespacesPage, operators.NamespacesAnswer),
    (views.BlockedShard, operators.BlockedShard),
    (views.DrainView, operators.DrainView),
    (views.DrainsPage, operators.DrainsAnswer),
    (views.HostView, operators.HostView),
    (views.NotThere, shard_records.NotThere),
    (views.ShardView, shard_records.ShardView),
    (views.Strike, shard_records.StrikeView),
    (views.ShardsPage, shard_records.ShardsAnswer),
    (views.DeclareAnswer, operators.DeclareAnswer),
    (outlooks.ExecutorShare, operators.ExecutorShare),
    (outlooks.DominantShard, operators.DominantShard),
    (outlooks.PassView, operators.PassView),
    (outlooks.PauseView, operators.PauseView),
    (outlooks.BalanceView, operators.BalanceAnswer),
    (outlooks.PlannedMove, operators.PlannedMove),
    (outlooks.RejectedMove, outlook_records.RejectedMove),
    (outlooks.FleetView, outlook_records.FleetView),
    (outlooks.PlanView, outlook_records.PlanAnswer),
    (outlooks.WhatIfView, outlook_records.WhatIfAnswer),
    (outlooks.CapacityRow, outlook_records.CapacityRow),
    (outlooks.CapacityView, outlook_records.CapacityAnswer),
    (outlooks.RealisedView, outlook_records.RealisedView),
    (outlooks.DecisionView, outlook_records.DecisionView),
    (outlooks.PassRow, outlook_records.PassRow),
    (outlooks.HistoryView, outlook_records.HistoryAnswer),
    (outlooks.DecisionDetails, outlook_records.DecisionAnswer),
    (views.AlarmView, news.AlarmView),
    (views.EventView, news.EventView),
    (views.EventsPage, news.EventsAnswer),
    (views.MassFailureView, news.MassFailureView),
    (views.NodeView, nodes.NodeView),
    (views.ClusterView, nodes.ClusterAnswer),
    (outlooks.DryRunAnswer, dry_run_records.DryRunAnswer),
    (outlooks.RoomView, dry_run_records.RoomView),
    (views.CordonView, operators.CordonView),
    (views.ShardThen, shard_records.ShardThen),
]


@pytest.mark.parametrize(
    ("sent", "read", "unsent"), REQUESTS, ids=[one[1].__name__ for one in REQUESTS]
)
def test_what_a_client_sends_a_node_reads(sent: Record, read: Record, unsent: set[str]) -> None:
    out, into = fields(sent), fields(read)
    assert out.keys() == into.keys() - unsent
    for name, (possible, is_sure) in out.items():
        accepted, is_needed = into[name]
        assert possible <= accepted, name
        assert is_sure or not is_needed, name
    assert not any(into[name][1] for name in unsent)


@pytest.mark.parametrize(("read", "sent"), ANSWERS, ids=[one[1].__name__ for one in ANSWERS])
def test_what_a_node_answers_a_client_reads(read: Record, sent: Record) -> None:
    into, out = fields(read), fields(sent)
    leaves_out = sent.__struct_config__.omit_defaults
    assert into.keys() <= out.keys(), "a client reads what no node sends"
    for name, (accepted, is_needed) in into.items():
        possible, is_required = out[name]
        assert possible <= accepted, name
        assert not is_needed or is_required or not leaves_out, name


def test_every_record_of_a_client_is_in_one_of_the_tables() -> None:
    tabled = {one[0] for one in REQUESTS} | {one[0] for one in ANSWERS}
    known = {
        one
        for module in (protocol, views, outlooks)
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, msgspec.Struct)
        and one.__module__ == module.__name__
    }
    # A policy goes out as the core's own record.
    policies = {views.Policy, views.BalancerPolicy, views.HandoffPolicy}
    assert known - tabled == policies


@pytest.mark.parametrize(
    ("read", "sent"),
    [
        (views.Policy, types.Policy),
        (views.BalancerPolicy, types.BalancerPolicy),
        (views.HandoffPolicy, types.HandoffPolicy),
    ],
    ids=lambda one: one.__name__,
)
def test_a_client_reads_every_field_of_a_policy(read: Record, sent: type) -> None:
    info = shapes.type_info(sent)
    assert isinstance(info, shapes.DataclassType)
    out = {one.encode_name: kinds(one.type) for one in info.fields}
    assert {name: possible for name, (possible, _) in fields(read).items()} == out
