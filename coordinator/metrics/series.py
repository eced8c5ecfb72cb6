"""Which namespaces and executors have series of their own: a bound, whatever users create.

A Prometheus keeps every series for hours, so a node must not give it as many as anybody likes.
Those that are left out are counted. Must not know what the series say.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.namespace import NamespaceState

NAMESPACES_MAX: Final = 100
"""Some 80 series each, histograms included: 8,000 on a node."""

EXECUTORS_MAX: Final = 1_000
"""Of all namespaces together, with 4 series each: as many executors as a large fleet has."""


def listed_namespaces(namespaces: Mapping[str, NamespaceState]) -> list[str]:
    """The oldest ones, by name: whoever makes further ones takes nobody's series away."""
    if len(namespaces) <= NAMESPACES_MAX:
        return sorted(namespaces)
    oldest = sorted(namespaces, key=lambda name: namespaces[name].info.created_revision)
    return sorted(oldest[:NAMESPACES_MAX])


def listed_executors(namespace: NamespaceState, room: int) -> list[str]:
    """Those that joined first, by name; at most `room` of them."""
    records = list(namespace.executors.values())
    if len(records) > room:
        records = sorted(records, key=lambda one: (one.joined_at_ms, one.id))[: max(0, room)]
    return sorted(record.id for record in records)
