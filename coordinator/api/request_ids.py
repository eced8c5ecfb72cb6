"""The name of each request, by which its answer, its lines in the log and its caller know it.

Decides whether a caller's own name is taken. It must not know what is asked.
"""

import itertools
import re
import secrets
from collections.abc import Mapping
from typing import Final

HEADER: Final = "X-Request-Id"
_WELL_FORMED: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestIds:
    """Names of one node's requests: unique among those of all nodes and starts."""

    def __init__(self) -> None:
        self._salt = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    def of(self, headers: Mapping[str, str]) -> str:
        """The caller's own name for it, if that is well formed, or a fresh one."""
        told = headers.get(HEADER)
        if told is not None and _WELL_FORMED.fullmatch(told):
            return told
        return f"{self._salt}-{next(self._numbers):x}"
