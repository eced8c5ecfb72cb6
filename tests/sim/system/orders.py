"""What operators want while other things go wrong.

Decides what each kind of order asks of the client kit. Must not know whether it makes sense just
now: a refusal is an answer too.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from client import Operator
from tests.sim.faults import Event
from tests.sim.system.programs import NAMESPACE

Order = Callable[[Operator], Coroutine[Any, Any, Any]]

# Kind -> how often.
ORDERS: Final = {
    "drain": 3,
    "undrain": 2,
    "cordon": 1,
    "uncordon": 1,
    "drain_host": 1,
    "undrain_host": 1,
    "move": 6,
    "pin": 2,
    "unpin": 1,
    "park": 2,
    "unpark": 2,
    "evict": 1,
    "lease": 1,
    "proceed": 1,
}
WHY: Final = "sim"


def order_of(event: Event, keys: Sequence[str], lease_s: float, *, may_lengthen: bool) -> Order:
    """The order of a line: about its first executor, its second one, or a shard by its share."""
    name, to = event.names or ("", "")
    key = keys[int(event.share * len(keys))]
    if event.kind == "lease":
        is_longer = may_lengthen and event.share > 0.6
        changed_s = lease_s * (1.5 if is_longer else 0.5)
        fields = {"lease_ttl_s": changed_s, "heartbeat_interval_s": changed_s / 5}
        return lambda o: o.change_policy(NAMESPACE, fields)
    orders: dict[str, Order] = {
        "drain": lambda o: o.drain_executor(NAMESPACE, name, reason=WHY, force=True),
        "undrain": lambda o: o.undrain_executor(NAMESPACE, name),
        "cordon": lambda o: o.cordon_executor(NAMESPACE, name),
        "uncordon": lambda o: o.uncordon_executor(NAMESPACE, name),
        "drain_host": lambda o: o.drain_host(NAMESPACE, name, reason=WHY, force=True),
        "undrain_host": lambda o: o.undrain_host(NAMESPACE, name),
        "move": lambda o: o.move_shard(NAMESPACE, key, to, reason=WHY),
        "pin": lambda o: o.pin_shard(NAMESPACE, key, to, reason=WHY),
        "unpin": lambda o: o.unpin_shard(NAMESPACE, key),
        "park": lambda o: o.drain_shard(NAMESPACE, key, reason=WHY),
        "unpark": unpark(key),
        "evict": lambda o: o.evict_executor(NAMESPACE, name, reason=WHY),
        "proceed": lambda o: o.proceed_mass_failure(NAMESPACE, reason=WHY),
    }
    return orders[event.kind]


def unpark(key: str) -> Order:
    """Let a parked shard run again."""
    return lambda o: o.undrain_shard(NAMESPACE, key)
