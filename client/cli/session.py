"""One run of `shardctl`: its settings, its connection, its output.

Decides where settings come from (a flag, else the environment, else a default) and how a command
is run. It must not know single commands.
"""

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import click

from client import calls, errors
from client.call import Call
from client.cli import faults, output
from client.cli.access import credentials
from client.cli.output import FORMATS, Format, Shape
from client.connection import decoded_answer
from client.operator import Operator
from client.outlooks import DryRunAnswer
from client.protocol import decoded

T = TypeVar("T")

DEFAULT_ENDPOINTS: Final = "http://127.0.0.1:7070"  # a node's default
DEFAULT_TIMEOUT_S: Final = 10.0  # longer than any election, shorter than a person's patience
WATCH_WAIT_S: Final = 5.0  # loads change without an event: shown again this often in any case
WATCH_EVERY_S: Final = 0.5  # a busy namespace has hundreds of events a second, eyes have not
WATCH_PAUSE_S: Final = 1.0  # while no node answers: an election is over by then
_CLEAR: Final = "\x1b[H\x1b[2J"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the flags and the environment said."""

    endpoints: tuple[str, ...]
    namespace: str | None = None
    output: Format = "table"
    has_header: bool = True
    token_file: str | None = None
    ca_file: str | None = None
    certificate: str | None = None
    key: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Session:
    """What a command works with."""

    settings: Settings
    operator: Operator
    is_dry_run: bool = False

    @property
    def namespace(self) -> str:
        """The namespace that the command is about."""
        if self.settings.namespace is None:
            raise click.UsageError("no namespace: name one with -n or SHARDCTL_NAMESPACE")
        return self.settings.namespace

    async def fetch(self, call: Call[Any], *, at_least_s: float = 0.0) -> bytes:
        """The body of an answer; what takes longer than others is waited for `at_least_s`."""
        timeout_s = max(self.settings.timeout_s, at_least_s)
        response = await self.operator.connection.fetch(call, timeout_s=timeout_s)
        decoded_answer(call, response)  # what is no such answer is not shown as one
        return response.body

    @property
    def is_table(self) -> bool:
        """Whether people read it, rather than programs."""
        return self.settings.output in {"table", "wide"}

    def say_listed(
        self, body: bytes, shape: Shape, *, before: str = "", has_header: bool = True
    ) -> None:
        """Print a list that is part of an answer; as `json` the very answer."""
        settings = self.settings
        if settings.output == "json":
            say_answer(body)
            return
        has_header = has_header and settings.has_header
        text = output.listed(body, shape, settings.output, has_header=has_header)
        say(before + text if text else "")

    def say_shown(self, body: bytes, name: str, *, without: Sequence[str] = ()) -> None:
        """Print an answer field by field; as `json` the very answer."""
        if self.settings.output == "json":
            say_answer(body)
            return
        say(output.shown(body, name, self.settings.output, without=without))

    async def list_(self, call: Call[T], shape: Shape) -> T:
        """Print a list; gives the answer that it is from. An empty one is said to be that."""
        body = await self.fetch(call)
        self.say_listed(body, shape)
        answer = decoded(body, call.answer)
        if self.is_table and not getattr(answer, shape.field):
            note(f"no {shape.field}")
        return answer

    async def show(self, call: Call[Any], name: str) -> None:
        """Print one item."""
        self.say_shown(await self.fetch(call), name)

    async def change(self, call: Call[T], name: str, done: str | Callable[[T], str]) -> T | None:
        """Make a change, or check it; says on standard error what was done.

        With `-o table` that is all, so that scripts are not given a table they did not ask for.
        """
        if self.is_dry_run:
            await self._check(call)
            return None
        response = await self.operator.connection.fetch(call, timeout_s=self.settings.timeout_s)
        answer = decoded_answer(call, response)
        note(done if isinstance(done, str) else done(answer))
        if response.body and self.settings.output != "table":
            self.say_shown(response.body, name)
        return answer

    async def _check(self, call: Call[Any]) -> None:
        check = calls.dry_run(call)
        response = await self.operator.connection.fetch(check, timeout_s=self.settings.timeout_s)
        would = decoded_answer(check, response)
        if self.settings.output in {"json", "jsonl"}:
            self.say_shown(response.body, "resource")
            return
        for line in foretold(would):
            note(line)


def say(text: str) -> None:
    """Data, to standard output."""
    if text:
        click.echo(text)


def say_answer(body: bytes) -> None:
    """An answer as it came, byte by byte; only a terminal is given a line's end as well."""
    click.echo(body.decode(), nl=sys.stdout.isatty())


def foretold(would: DryRunAnswer) -> Iterator[str]:
    """What an order would do and come to, in lines."""
    shards = "" if would.shards is None else f" ({would.shards} shards)"
    load = "" if would.moved_load is None else f", load {would.moved_load:.4g}"
    yield f"would {would.would}{shards}{load}; nothing was changed"
    room = would.room
    if room is not None and room.executors:
        yield (
            f"the {room.executors} executors left, of capacity {room.capacity:.4g}, would go from"
            f" {room.mean_before:.0%} to {room.mean_after:.0%} on average, the hottest from"
            f" {room.hottest_before:.0%} to {room.hottest_after:.0%} ({room.hottest_executor})"
        )
    if room is not None and room.unplaced:
        yield f"nobody is left for {room.unplaced} of the shards"
    if room is not None and room.pinned:
        yield f"{room.pinned} of the shards are pinned there and stay until they are unpinned"
    if would.target_before is not None and would.target_after is not None:
        yield f"its target would go from {would.target_before:.0%} to {would.target_after:.0%}"


def note(text: str) -> None:
    """Everything else, to standard error."""
    if text:
        click.echo(faults.printable(text), err=True)


Body = Callable[..., Awaitable[int | None]]


def command(
    group: click.Group,
    name: str,
    *,
    aliases: tuple[str, ...] = (),
    is_change: bool = False,
    can_watch: bool = False,
) -> Callable[[Body], Body]:
    """Register an async function `(session, **arguments)` as a command of a group.

    The common options are accepted behind the verb too, where people write them. One that can be
    watched is drawn again whenever something happened in the namespace.
    """

    def registered(body: Body) -> Body:
        @click.pass_context
        @functools.wraps(body)
        def run(
            context: click.Context,
            /,
            *,
            namespace: str | None,
            output: Format | None,
            no_header: bool,
            dry_run: bool = False,
            watch: bool = False,
            **arguments: Any,
        ) -> None:
            settings: Settings = context.obj
            settings = replace(
                settings,
                namespace=namespace or settings.namespace,
                output=output or settings.output,
                has_header=settings.has_header and not no_header,
            )
            if watch and settings.output == "json":
                raise click.UsageError("what is watched has no end: use -o jsonl")
            drawn = watched(body) if watch else body
            try:
                status = asyncio.run(_run(settings, drawn, arguments, is_dry_run=dry_run))
            except errors.ShardCoordinatorError as error:
                note(faults.told(context.command_path, error))
                status = faults.status_of(error)
            context.exit(status or faults.DONE)

        function: Callable[..., Any] = run
        for option in _common(is_change=is_change, can_watch=can_watch):
            function = option(function)
        made = click.command(name, help=body.__doc__)(function)
        group.add_command(made)
        for alias in aliases:
            group.add_command(made, alias)
        return body

    return registered


def watched(body: Body) -> Body:
    """The same command, run again whenever something happened, until it is interrupted."""

    async def again_and_again(session: Session, **arguments: Any) -> int | None:
        cursor: str | None = None
        while True:
            try:
                if cursor is None:
                    cursor = (await session.operator.events(session.namespace, limit=1)).cursor
                if sys.stdout.isatty():
                    click.echo(_CLEAR, nl=False)
                await body(session, **arguments)
                await asyncio.sleep(WATCH_EVERY_S)
                page = await session.operator.events(
                    session.namespace, after=cursor, wait_s=WATCH_WAIT_S, limit=1_000
                )
                cursor = page.cursor
                if not sys.stdout.isatty() and session.is_table:
                    click.echo()
            except (errors.Unavailable, errors.RateLimited) as error:
                note(f"shardctl: {error} — trying again")
                await asyncio.sleep(WATCH_PAUSE_S)

    return again_and_again


def _common(*, is_change: bool, can_watch: bool) -> list[Callable[..., Any]]:
    options = [
        click.option("-n", "--namespace", metavar="NS", help="The namespace."),
        click.option("-o", "--output", type=click.Choice(FORMATS), help="The format of the data."),
        click.option("--no-header", is_flag=True, help="Leave the titles of columns out."),
    ]
    if is_change:
        text = "Let a node check the change and say what it would do; nothing is changed."
        options.append(click.option("--dry-run", is_flag=True, help=text))
    if can_watch:
        text = "Show it again whenever something happened, until interrupted."
        options.append(click.option("-w", "--watch", is_flag=True, help=text))
    return options


async def _run(
    settings: Settings, body: Body, arguments: dict[str, Any], *, is_dry_run: bool
) -> int | None:
    operator = Operator(
        settings.endpoints,
        timeout_s=settings.timeout_s,
        **credentials(
            token_file=settings.token_file,
            ca_file=settings.ca_file,
            certificate=settings.certificate,
            key=settings.key,
        ),
    )
    async with operator:
        return await body(Session(settings, operator, is_dry_run), **arguments)


def run_group(group: click.Group, arguments: list[str]) -> int:
    """Run the command line; gives the exit status and never a traceback."""
    try:
        status = group.main(arguments, prog_name="shardctl", standalone_mode=False)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        asked.show()
        return faults.USAGE
    except click.ClickException as wrong:
        context = getattr(wrong, "ctx", None)
        path = "shardctl" if context is None else context.command_path
        note(f"shardctl: {wrong.format_message()} — see `{path} --help`")
        return faults.USAGE
    except (click.Abort, KeyboardInterrupt):
        note("shardctl: interrupted")
        return faults.INTERRUPTED
    except BrokenPipeError:
        return faults.DONE  # `| head` has seen enough
    except Exception as error:  # noqa: BLE001 - people are spared a traceback
        note(f"shardctl: cannot go on — {type(error).__name__}: {error} — please report this fault")
        return faults.REFUSED
    return status if isinstance(status, int) else faults.DONE
