"""How answers are printed: standard output carries data only.

Decides formats and columns. It must not know how answers are fetched.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from rich.cells import cell_len

from client.cli.faults import printable

Format = Literal["table", "wide", "json", "jsonl", "name"]
FORMATS: Final = ("table", "wide", "json", "jsonl", "name")
_EMPTY: Final = "-"
_GAP: Final = "  "

Row = Mapping[str, Any]  # one item of an answer, as decoded JSON


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a list."""

    title: str
    cell: Callable[[Row], object]
    is_wide: bool = False  # shown with `-o wide` only


def of(field: str, title: str = "", *, wide: bool = False) -> Column:
    """A column that shows a field as it is."""
    return Column(title or field.upper().replace("_", "-"), lambda row: row.get(field), wide)


@dataclass(frozen=True, slots=True)
class Shape:
    """How items of one kind are listed."""

    field: str  # of the list in the answer
    name: str  # of the field that names an item
    columns: tuple[Column, ...]


def _ratio(field: str) -> Callable[[Row], object]:

    def cell(row: Row) -> object:
        value = row.get(field)
        return None if value is None else f"{value:.0%}"

    return cell


def _seconds(field: str) -> Callable[[Row], object]:
    def cell(row: Row) -> object:
        value = row.get(field)
        return None if value is None else f"{value:.1f}s"

    return cell


def _mode(row: Row) -> object:
    policy = row.get("policy")
    return policy.get("balancer", {}).get("mode") if isinstance(policy, dict) else None


NAMESPACES: Final = Shape(
    "namespaces",
    "namespace",
    (
        of("namespace"),
        of("kind"),
        of("shards"),
        of("executors"),
        Column("BALANCER", _mode),
        of("policy_version", wide=True),
        of("recovering", wide=True),
        of("created_at", wide=True),
    ),
)
EXECUTORS: Final = Shape(
    "executors",
    "executor",
    (
        of("executor"),
        of("status"),
        of("host"),
        of("address"),
        of("shards"),
        of("load"),
        Column("USED", _ratio("utilisation")),
        Column("HEARTBEAT", _seconds("heartbeat_age_s")),
        of("zone", wide=True),
        of("version", wide=True),
        of("capacity", wide=True),
        of("drain", wide=True),
        Column("CORDON", lambda row: (row.get("cordon") or {}).get("reason"), is_wide=True),
        of("incarnation", wide=True),
    ),
)
SHARDS: Final = Shape(
    "shards",
    "key",
    (
        of("key"),
        of("state"),
        of("executor"),
        of("epoch"),
        of("load"),
        of("pinned"),
        of("next"),
        of("host", wide=True),
        Column("COOLDOWN", _seconds("cooldown_left_s"), is_wide=True),
        of("pinned_until", wide=True),
        of("parked", wide=True),
        Column("STRIKES", lambda row: len(row.get("strikes") or ()) or None, is_wide=True),
        of("reserved", wide=True),
        of("why", wide=True),
    ),
)
DRAINS: Final = Shape(
    "drains",
    "id",
    (
        of("id"),
        of("target"),
        of("state"),
        of("shards_left", "LEFT"),
        of("shards_moved", "MOVED"),
        of("reason"),
        of("by", wide=True),
        of("since", wide=True),
        of("until", wide=True),
        of("finished_at", wide=True),
    ),
)
EVENTS: Final = Shape(
    "events",
    "id",
    (
        of("at"),
        of("kind"),
        of("shard"),
        of("executor"),
        of("target"),
        of("host"),
        of("count"),
        of("cause"),
        of("by"),
        of("reason"),
        of("detail"),
        of("epoch", wide=True),
        of("id", wide=True),
        of("undoes", wide=True),
    ),
)
SHARES: Final = Shape(
    "executors",
    "executor",
    (
        of("executor"),
        of("load"),
        Column("USED", _ratio("utilisation")),
        Column("SHARE", _ratio("share")),
        of("shards"),
    ),
)
NODES: Final = Shape(
    "nodes",
    "node",
    (
        of("node"),
        of("role"),
        of("api"),
        of("is_reachable", "REACHABLE"),
        Column("HEARD", _seconds("last_heard_age_s")),
        of("match_index", wide=True),
        of("address", wide=True),
    ),
)


def listed(body: bytes, shape: Shape, output: Format, *, has_header: bool) -> str:
    """A list of items."""
    rows: list[Row] = msgspec.json.decode(body).get(shape.field, [])
    match output:
        case "jsonl":
            return "\n".join(msgspec.json.encode(row).decode() for row in rows)
        case "name":
            return "\n".join(str(row.get(shape.name, "")) for row in rows)
        case _:
            columns = [column for column in shape.columns if output == "wide" or not column.is_wide]
            titles = [[column.title for column in columns]] if has_header and rows else []
            cells = [[_text(column.cell(row)) for column in columns] for row in rows]
            return aligned(titles + cells)


def shown(body: bytes, name: str, output: Format, *, without: Sequence[str] = ()) -> str:
    """One item, a line per field."""
    match output:
        case "jsonl":
            return body.decode()
        case "name":
            return str(msgspec.json.decode(body).get(name, ""))
        case _:
            item: Row = msgspec.json.decode(body)
            kept = {field: value for field, value in item.items() if field not in without}
            return aligned([[field, _text(value)] for field, value in _flat(kept)])


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Plain columns, two spaces apart, nothing behind the last one."""
    widths: list[int] = []
    for row in rows:
        widths += [0] * (len(row) - len(widths))
        for at, cell in enumerate(row):
            widths[at] = max(widths[at], cell_len(cell))
    lines = (
        _GAP.join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=False)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _text(value: object) -> str:
    match value:
        case None | "" | [] | {}:
            return _EMPTY
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case list():
            return ", ".join(_text(item) for item in value)
        case dict():
            return ", ".join(f"{key}={_text(item)}" for key, item in value.items())
        case _:
            return printable(str(value))


def _flat(item: Row, prefix: str = "") -> Iterable[tuple[str, object]]:
    for field, value in item.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{field}.")
        else:
            yield f"{prefix}{field}", value
