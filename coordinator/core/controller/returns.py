"""Executors that went and said when they will be back: how long their shards wait for them.

Soft: every leader counts a window from when it first saw the reservation, so a change of leaders
makes it longer, never shorter. Must not know where shards go when the window is over.
"""

from coordinator.core.commands import Command, EndReservation
from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState
from coordinator.core.types import CloseCause, Executor


def reserve_for_s(
    namespace: NamespaceState, mind: Mind, record: Executor, cause: CloseCause, now: float
) -> float:
    """How long the shards of an incarnation that ends are to be kept for the next one.

    Who dies on its way out is missed from its last word on: what of the window its lease has used
    up is over. So nothing is without an owner for longer than the longer of the two.
    """
    window_s = namespace.return_window_s(record)
    match cause:
        case CloseCause.LEFT:
            return window_s
        case CloseCause.EXPIRED:
            return max(0.0, window_s - (mind.leases.silent_for(record.id, now) or 0.0))
        case _:
            return 0.0


def plan_returns(namespace: NamespaceState, mind: Mind, now: float, at_ms: int) -> list[Command]:
    """Ends the reservations of those who did not come back in time."""
    _track(namespace, mind, now)
    return [
        EndReservation(
            namespace=namespace.info.name,
            executor=one.executor,
            incarnation=one.incarnation,
            at_ms=at_ms,
        )
        for name, one in sorted(namespace.reservations.items())
        if mind.away_since[name, one.incarnation] + one.window_s <= now
    ]


def next_return(namespace: NamespaceState, mind: Mind, now: float) -> float | None:
    """When `plan_returns` should be asked again."""
    _track(namespace, mind, now)
    return min(
        (
            max(now, mind.away_since[name, one.incarnation] + one.window_s)
            for name, one in namespace.reservations.items()
        ),
        default=None,
    )


def _track(namespace: NamespaceState, mind: Mind, now: float) -> None:
    """Note reservations that were made and forget those that ended."""
    known = {(name, one.incarnation) for name, one in namespace.reservations.items()}
    for ended in [away for away in mind.away_since if away not in known]:
        del mind.away_since[ended]
    for name, one in namespace.reservations.items():
        mind.away_since.setdefault((name, one.incarnation), now)
