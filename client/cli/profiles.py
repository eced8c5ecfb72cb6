"""`shardctl profile`: named settings in a file, and where each value comes from.

Decides where the file is, which of its profiles counts, and what may stand in it: exactly the
options of `shardctl` itself. A flag comes before the environment, that before the profile, and
that before the default.
"""

import os
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from click.core import ParameterSource

from client.cli.output import aligned
from client.cli.session import note, say

FILE_BYTES_MAX: Final = 65_536
_SOURCES: Final = {
    ParameterSource.COMMANDLINE: "flag",
    ParameterSource.ENVIRONMENT: "environment",
    ParameterSource.DEFAULT_MAP: "profile",
    ParameterSource.DEFAULT: "default",
}


def folder() -> Path:
    """Where the file and the choice are."""
    named = os.environ.get("SHARDCTL_CONFIG_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "shardctl"


def profiles() -> Mapping[str, Mapping[str, Any]]:
    """Every profile in the file; none where there is no file."""
    path = folder() / "config.toml"
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
        if len(text) > FILE_BYTES_MAX:
            raise click.UsageError(f"{path} is longer than {FILE_BYTES_MAX} bytes")
        found = tomllib.loads(text.decode())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}") from None
    tables = found.pop("profiles", {})
    if found or not isinstance(tables, dict):
        raise click.UsageError(f"{path} holds [profiles.NAME] tables and nothing else")
    if not all(isinstance(table, dict) for table in tables.values()):
        raise click.UsageError(f"{path} holds [profiles.NAME] tables and nothing else")
    return tables


def chosen() -> str | None:
    """The profile that `use` chose."""
    try:
        return (folder() / "current").read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise click.UsageError(f"the chosen profile cannot be read: {error}") from None


def load(context: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """Let a profile's values stand where neither a flag nor the environment says anything."""
    name = name or chosen()
    if name is None:
        return None
    table = profiles().get(name)
    if table is None:
        raise click.UsageError(
            f"there is no profile {name!r} in {folder() / 'config.toml'}; choose one that is there"
            " with `shardctl --profile NAME profile use NAME`"
        )
    options = sorted({one.name or "" for one in context.command.params} - {parameter.name})
    unknown = ", ".join(sorted(set(table) - set(options)))
    if unknown:
        raise click.UsageError(f"profile {name!r} names {unknown}; there are {', '.join(options)}")
    context.default_map = {key: _text(value) for key, value in table.items()}
    return name


def _text(value: Any) -> Any:
    """As a flag would say it."""
    return ",".join(map(str, value)) if isinstance(value, list) else value


@click.group()
def profile() -> None:
    """Named settings: [profiles.NAME] in config.toml under $XDG_CONFIG_HOME/shardctl."""


@profile.command("list")
def list_() -> None:
    """List the profiles; the chosen one has a star."""
    current = chosen()
    rows = [
        ["*" if name == current else "", name, _text(table.get("endpoints", "-"))]
        for name, table in sorted(profiles().items())
    ]
    say(aligned([["", "PROFILE", "ENDPOINTS"], *rows]) if rows else "")


@profile.command("use")
@click.argument("name")
def use(name: str) -> None:
    """Choose a profile for the commands to come; `-` chooses none."""
    if name != "-" and name not in profiles():
        raise click.UsageError(f"there is no profile {name!r} in {folder() / 'config.toml'}")
    place = folder() / "current"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=place.parent, delete=False, encoding="utf-8"
        ) as file:
            file.write("" if name == "-" else f"{name}\n")
        Path(file.name).replace(place)
    except OSError as error:
        raise click.UsageError(f"the choice cannot be kept: {error}") from None
    note(f"{'no profile' if name == '-' else f'profile {name}'} is used from now on")


@profile.command("show")
@click.option("--origin", is_flag=True, help="Also where each value comes from.")
@click.pass_context
def show(context: click.Context, /, *, origin: bool) -> None:
    """Show the settings that commands would go by."""
    root = context.find_root()
    rows: dict[str, dict[str, Any]] = {}
    for option in root.command.params:
        name = option.name or ""
        if name in root.params:
            source = root.get_parameter_source(name)
            where = _SOURCES.get(source, "default") if source is not None else "default"
            rows[name] = {"value": root.params[name], "origin": where}
    if root.obj.output in {"json", "jsonl"}:
        say(msgspec.json.encode(rows).decode())
        return
    cells = [
        [name, "-" if row["value"] is None else str(row["value"]), *([row["origin"]] * origin)]
        for name, row in rows.items()
    ]
    say(aligned(cells))
