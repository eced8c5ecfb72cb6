"""A tree of plain values made into records, with every fault and its path.

Decides how values of a file and of the environment become typed records. Must not know any
setting, nor whether settings fit each other.
"""

import difflib
import tomllib
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import Struct

ENVIRONMENT_PREFIX: Final = "SHARD_COORDINATOR__"


class Faults:
    """Collects what is wrong; knows which paths the environment set."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.variables: dict[str, str] = {}
        self._paths: set[str] = set()

    def add(self, path: str, message: str) -> None:
        """Record a fault at a path; only the first one there, as others may follow from it."""
        if path in self._paths:
            return
        self._paths.add(path)
        variable = self.variables.get(path)
        self.found.append(f"{path}{f' ({variable})' if variable else ''}: {message}")


def override(tree: dict[str, Any], environ: Mapping[str, str], faults: Faults) -> None:
    """Write the environment's values into the tree, as TOML values where they read as such."""
    for variable in sorted(environ):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        *sections, last = variable.removeprefix(ENVIRONMENT_PREFIX).split("__")
        table, path = tree, ""
        for section in sections:
            name = _spelled(table, section)
            path = f"{path}{name}."
            below = table.setdefault(name, {})
            if not isinstance(below, dict):
                faults.found.append(f"{path[:-1]} ({variable}): is no table with keys of its own")
                break
            table = below
        else:
            name = _spelled(table, last)
            table[name] = _value_of(environ[variable])
            faults.variables[f"{path}{name}"] = variable


def _spelled(table: Mapping[str, Any], name: str) -> str:
    """The key as the file spells it: variables are upper case, keys need not be lower case."""
    return next((key for key in table if key.upper() == name.upper()), name.lower())


def _value_of(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


NOTHING: Final = object()
"""Stands for a value that could not be built, whose fault is recorded."""


def build(kind: Any, value: Any, path: str, faults: Faults) -> Any:
    """The value as its type wants it, or `NOTHING`; each fault is recorded.

    A faulty part is left out and its default stands in, so that the rest can be checked as well.
    """
    kind = _bare(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _built_struct(kind, value, path, faults)
    if get_origin(kind) is dict:
        if not isinstance(value, dict):
            faults.add(path, f"must be a table, not {_named(value)}")
            return NOTHING
        element = get_args(kind)[1]
        built = {key: build(element, item, f"{path}.{key}", faults) for key, item in value.items()}
        return {key: item for key, item in built.items() if item is not NOTHING}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as fault:
        faults.add(path, _sentence(str(fault)))
        return NOTHING


def _built_struct(kind: type[Struct], value: Any, path: str, faults: Faults) -> Any:
    if not isinstance(value, dict):
        faults.add(path, f"must be a table, not {_named(value)}")
        return NOTHING
    prefix = f"{path}." if path else ""
    fields = {item.name: item for item in msgspec.structs.fields(kind)}
    for key in sorted(set(value) - set(fields)):
        near = difflib.get_close_matches(key, fields, n=1)
        faults.add(f"{prefix}{key}", "unknown key" + (f"; did you mean {near[0]}?" if near else ""))
    built: dict[str, Any] = {}
    for name, item in fields.items():
        if name in value:
            built[name] = build(item.type, value[name], f"{prefix}{name}", faults)
        elif item.required:
            faults.add(f"{prefix}{name}", "is missing")
    built = {name: item for name, item in built.items() if item is not NOTHING}
    is_whole = all(name in built for name, item in fields.items() if item.required)
    return kind(**built) if is_whole else NOTHING


def _bare(kind: Any) -> Any:
    """The table type inside `Table | UnsetType` or `Annotated[...]`, else the type itself."""
    if isinstance(kind, UnionType):
        tables = [
            arm for arm in get_args(kind) if isinstance(arm, type) and issubclass(arm, Struct)
        ]
        return tables[0] if tables else kind
    return kind


def _named(value: object) -> str:
    match value:
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def _sentence(message: str) -> str:
    """A converter's message as the end of "path: …"."""
    return message[:1].lower() + message[1:].replace("`", "").replace(" | unset", "")
