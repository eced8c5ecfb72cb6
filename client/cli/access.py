"""How `shardctl` proves who it is, and which nodes it believes.

Decides where the token and certificates come from. The token is in a file or in the environment,
never among the arguments, which every process of the machine can read.
"""

import os
import ssl
from typing import Any

import click

from client.token_file import TokenFile, TokenFileError

TOKEN_VARIABLE = "SHARDCTL_TOKEN"  # noqa: S105 - the variable's name


def credentials(
    *, token_file: str | None, ca_file: str | None, certificate: str | None, key: str | None
) -> dict[str, Any]:
    """The options of an `Operator`; a file of a token comes before the environment."""
    options: dict[str, Any] = {"tls": _tls(ca_file, certificate, key)}
    if token_file is None:
        return options | {"token": os.environ.get(TOKEN_VARIABLE) or None}
    try:
        TokenFile(token_file)
    except TokenFileError as error:
        raise click.UsageError(str(error)) from None
    return options | {"token_file": token_file}


def _tls(ca_file: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    if key is not None and certificate is None:
        raise click.UsageError("--key goes with --certificate")
    if ca_file is None and certificate is None:
        return None
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(one for one in (ca_file, certificate, key) if one is not None)
        raise click.UsageError(f"certificates cannot be used ({files}): {error}") from None
    return context
