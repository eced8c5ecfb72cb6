"""Who an executor says it is: the part of a heartbeat that does not change."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ExecutorProfile:
    """One executor under its stable name."""

    namespace: str
    name: str
    host: str = ""
    address: str = ""
    zone: str = ""
    capacity: float = 1.0
    version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
