"""`shardctl completion`: what a shell asks to complete words on.

Decides nothing of its own: the words come from the tree of commands.
"""

import click
from click.shell_completion import get_completion_class

from client.cli.session import say

_HOW = 'Put `eval "$(shardctl completion bash)"` into ~/.bashrc (zsh: ~/.zshrc); fish: `shardctl completion fish | source`.'  # noqa: E501


@click.command("completion", epilog=_HOW)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, *, shell: str) -> None:
    """Print the script that lets a shell complete commands and options."""
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"{shell} is not known")
    root = context.find_root()
    say(found(root.command, {}, "shardctl", "_SHARDCTL_COMPLETE").source())
