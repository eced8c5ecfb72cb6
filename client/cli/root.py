"""The tree of commands: nouns, and the options that hold for all of them."""

from importlib import metadata
from typing import cast

import click

from client.cli import (
    balance,
    cluster,
    completion,
    drains,
    events,
    executors,
    namespaces,
    outages,
    profiles,
    shards,
)
from client.cli.output import FORMATS, Format
from client.cli.session import (
    DEFAULT_ENDPOINTS,
    DEFAULT_TIMEOUT_S,
    Settings,
    run_group,
    say,
)
from client.endpoints import checked_url

DISTRIBUTION = "shard-coordinator"


@click.group(
    "shardctl",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 done, 1 refused, 2 usage, 3 not found, 4 conflict, 5 unreachable or no"
    " quorum, 6 wait timed out, 130 interrupted.",
)
@click.option(
    "--profile",
    envvar="SHARDCTL_PROFILE",
    metavar="NAME",
    is_eager=True,
    callback=profiles.load,
    help="Settings of this name; see `shardctl profile`. [SHARDCTL_PROFILE]",
)
@click.option(
    "--endpoints",
    envvar="SHARDCTL_ENDPOINTS",
    default=DEFAULT_ENDPOINTS,
    metavar="URL,URL",
    show_default=True,
    help="The nodes. [SHARDCTL_ENDPOINTS]",
)
@click.option(
    "-n",
    "--namespace",
    envvar="SHARDCTL_NAMESPACE",
    metavar="NS",
    help="The namespace. [SHARDCTL_NAMESPACE]",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="The format of the data.",
)
@click.option("--no-header", is_flag=True, help="Leave the titles of columns out.")
@click.option(
    "--token-file",
    envvar="SHARDCTL_TOKEN_FILE",
    metavar="FILE",
    help="Holds the bearer token, for you alone to read. [SHARDCTL_TOKEN_FILE]; without it the"
    " variable SHARDCTL_TOKEN is one.",
)
@click.option(
    "--ca-file",
    envvar="SHARDCTL_CA_FILE",
    metavar="FILE",
    help="Who signs the nodes' certificates, if not a CA of this machine. [SHARDCTL_CA_FILE]",
)
@click.option(
    "--certificate",
    envvar="SHARDCTL_CERTIFICATE",
    metavar="FILE",
    help="To be known by, instead of a token. [SHARDCTL_CERTIFICATE]",
)
@click.option(
    "--key",
    envvar="SHARDCTL_KEY",
    metavar="FILE",
    help="Its private key, if that is in another file. [SHARDCTL_KEY]",
)
@click.option(
    "--request-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    help="How long a request is tried.",
)
@click.pass_context
def shardctl(
    context: click.Context,
    /,
    *,
    profile: str | None,
    endpoints: str,
    namespace: str | None,
    output: str,
    no_header: bool,
    token_file: str | None,
    ca_file: str | None,
    certificate: str | None,
    key: str | None,
    request_timeout: float,
) -> None:
    """Look at a Shard Coordinator and tell it what to do."""
    del profile  # its values are among the others
    context.default_map = None  # for these options alone, not for commands of the same names
    urls = tuple(url.strip() for url in endpoints.split(",") if url.strip())
    try:
        for url in urls:
            checked_url(url)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not urls:
        raise click.UsageError("no endpoints: name nodes with --endpoints or SHARDCTL_ENDPOINTS")
    context.obj = Settings(
        endpoints=urls,
        namespace=namespace,
        output=cast("Format", output),
        has_header=not no_header,
        token_file=token_file,
        ca_file=ca_file,
        certificate=certificate,
        key=key,
        timeout_s=request_timeout,
    )


@shardctl.command()
def version() -> None:
    """Print the version of this command."""
    say(metadata.version(DISTRIBUTION))


for noun in (
    namespaces.namespace,
    executors.executor,
    shards.shard,
    drains.drain,
    balance.balance,
    events.events,
    outages.mass_failure,
    cluster.cluster,
    *events.SHORT,
    profiles.profile,
    completion.completion,
):
    shardctl.add_command(noun)


def run(arguments: list[str]) -> int:
    """Run the command line; gives the exit status."""
    return run_group(shardctl, arguments)
