"""Which drain or cordon covers an executor: its own comes before its host's.

Must not know what follows from being covered.
"""

from collections.abc import Mapping
from typing import TypeVar

from coordinator.core.orders import Cordon, Drain
from coordinator.core.types import Executor, TargetKind

Order = TypeVar("Order", Drain, Cordon)


def covering(orders: Mapping[tuple[TargetKind, str], Order], executor: Executor) -> Order | None:
    """The order that covers an executor: its own, else its host's."""
    if not orders:  # nearly always, and asked with every heartbeat
        return None
    own, host = (TargetKind.EXECUTOR, executor.id), (TargetKind.HOST, executor.profile.host)
    return orders.get(own) or orders.get(host)
