"""What users import: complete, typed by name, and light."""

import subprocess
import sys

import client
from client import errors


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
