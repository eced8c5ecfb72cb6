"""Whether the node of these settings lives: for health checks in images without a shell.

Asks `/livez` on this machine, which depends on no other node: whoever restarts what fails this
check must not restart every node because of a partition. It must not judge more than that.
"""

import http.client
import ssl
from typing import Final

from coordinator.settings import Settings

TIMEOUT_S: Final = 5.0
"""A loop that does not turn for so long is not worth waiting for."""

_WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def is_alive(settings: Settings, timeout_s: float = TIMEOUT_S) -> bool:
    """Whether the API of this machine's node answers."""
    host, port = settings.api_address
    host = _WILDCARDS.get(host, host)
    connection: http.client.HTTPConnection
    if settings.security.api_certificate:
        # Its own certificate is in the names that others use, and nothing secret is said here.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
