"""What users import: complete, typed by name, and light."""

import ast
import subprocess
import sys
from pathlib import Path

import client
from client import errors

SOURCE = Path(client.__file__).parent


def test_every_exported_name_exists_and_is_documented():
    assert sorted(client.__all__) == client.__all__
    for name in client.__all__:
        assert getattr(client, name).__doc__, name


def test_every_error_is_exported_and_drawn_in_the_tree():
    kinds = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ShardCoordinatorError)
    }
    assert kinds <= set(client.__all__)
    drawn = {word for word in errors.__doc__.replace("─", " ").split() if word in kinds}
    assert drawn == kinds


def imported(statement):
    code = f"import sys; {statement}; print(*sorted({{m.partition('.')[0] for m in sys.modules}}))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    return set(ended.stdout.split())


def test_importing_the_kit_loads_neither_server_nor_command_line():
    beyond = imported("import client") - imported("import aiohttp, msgspec")
    assert not beyond & {"click", "coordinator", "msgpack", "pysyncobj", "rich", "uvloop"}
    assert beyond - set(sys.stdlib_module_names) <= {"client"}


def test_modules_and_functions_stay_small():
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 60, (path, node.name)
