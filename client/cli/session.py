"""One run of `shardctl`: its settings, its connection, its output.

Decides where settings come from (a flag, else the environment, else a default) and how a command
is run. It must not know single commands.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
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
from client.protocol import decoded

T = TypeVar("T")

DEFAULT_ENDPOINTS: Final = "http://127.0.0.1:7070"  # a node's default
DEFAULT_TIMEOUT_S: Final = 10.0  # longer than any election, shorter than a person's patience


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

    async def list_(self, call: Call[T], shape: Shape) -> T:
        """Print a list; gives the answer that it is from."""
        settings = self.settings
        body = await self.fetch(call)
        say(output.listed(body, shape, settings.output, has_header=settings.has_header))
        return decoded(body, call.answer)

    async def show(self, call: Call[Any], name: str) -> None:
        """Print one item."""
        say(output.shown(await self.fetch(call), name, self.settings.output))

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
            say(output.shown(response.body, name, self.settings.output))
        return answer

    async def _check(self, call: Call[Any]) -> None:
        check = calls.dry_run(call)
        response = await self.operator.connection.fetch(check, timeout_s=self.settings.timeout_s)
        if self.settings.output in {"json", "jsonl"}:
            say(output.shown(response.body, "resource", self.settings.output))
            return
        would = decoded_answer(check, response)
        shards = "" if would.shards is None else f" ({would.shards} shards)"
        note(f"would {would.would}{shards}; nothing was changed")


def say(text: str) -> None:
    """Data, to standard output."""
    if text:
        click.echo(text)


def note(text: str) -> None:
    """Everything else, to standard error."""
    click.echo(faults.printable(text), err=True)


Body = Callable[..., Awaitable[int | None]]


def command(
    group: click.Group, name: str, *, aliases: tuple[str, ...] = (), is_change: bool = False
) -> Callable[[Body], Body]:
    """Register an async function `(session, **arguments)` as a command of a group.

    The common options are accepted behind the verb too, where people write them.
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
            **arguments: Any,
        ) -> None:
            settings: Settings = context.obj
            settings = replace(
                settings,
                namespace=namespace or settings.namespace,
                output=output or settings.output,
                has_header=settings.has_header and not no_header,
            )
            try:
                status = asyncio.run(_run(settings, body, arguments, is_dry_run=dry_run))
            except errors.ShardCoordinatorError as error:
                note(faults.told(context.command_path, error))
                status = faults.status_of(error)
            context.exit(status or faults.DONE)

        function: Callable[..., Any] = run
        for option in _common(is_change=is_change):
            function = option(function)
        made = click.command(name, help=body.__doc__)(function)
        group.add_command(made)
        for alias in aliases:
            group.add_command(made, alias)
        return body

    return registered


def _common(*, is_change: bool) -> list[Callable[..., Any]]:
    options = [
        click.option("-n", "--namespace", metavar="NS", help="The namespace."),
        click.option("-o", "--output", type=click.Choice(FORMATS), help="The format of the data."),
        click.option("--no-header", is_flag=True, help="Leave the titles of columns out."),
    ]
    if is_change:
        text = "Let a node check the change and say what it would do; nothing is changed."
        options.append(click.option("--dry-run", is_flag=True, help=text))
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
