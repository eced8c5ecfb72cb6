"""Leases promised under an earlier policy: when they can all be taken to have run out.

After `lease_ttl_s` was made shorter an executor may still hold the longer lease it was answered
last. Until that has run out everywhere, every leader reckons with the longer one.
"""

from coordinator.core.commands import Command, SettleLease
from coordinator.core.controller.mind import Mind
from coordinator.core.namespace import NamespaceState


def plan_settlement(namespace: NamespaceState, mind: Mind, now: float) -> list[Command]:
    """The command that ends the longer lease, once this leader has waited for all of it."""
    settled_at = settlement_at(namespace, mind, now)
    if settled_at is None or now < settled_at:
        return []
    info = namespace.info
    return [SettleLease(namespace=info.name, policy_version=info.policy_version)]


def settlement_at(namespace: NamespaceState, mind: Mind, now: float) -> float | None:
    """When the longer leases have run out; None when there are none."""
    info = namespace.info
    if info.lease_bound_s <= info.policy.lease_ttl_s:
        return None
    if mind.shortened is None or mind.shortened[0] != info.policy_version:
        mind.shortened = (info.policy_version, now)
    return mind.leases.lease_end(mind.shortened[1], info.lease_bound_s)
