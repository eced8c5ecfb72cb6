"""The wire form of a namespace's policy: what may be set, within which bounds, and how it merges.

Shared by the settings file and the HTTP API, so that both accept the same policies. It must not
know where a policy came from, nor what any rule does with it.
"""

from dataclasses import replace
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from coordinator.core.types import SHARDS_MAX, BalancerMode, InitialPlacement, LeaseLoss, Policy

_DAY_S: Final = 86_400.0

LeaseSeconds = Annotated[float, Meta(ge=0.2, le=3600)]
"""Below 0.2 s an ordinary stop of a garbage collector would cost an executor its shards."""
HeartbeatSeconds = Annotated[float, Meta(ge=0.05, le=600)]
IntervalSeconds = Annotated[float, Meta(ge=0.05, le=3600)]
Gap = Annotated[float, Meta(ge=0, le=10)]
Mark = Annotated[float, Meta(gt=0, le=1_000_000_000)]
HorizonSeconds = Annotated[float, Meta(ge=0.1, le=30 * _DAY_S)]
RestSeconds = Annotated[float, Meta(ge=0, le=30 * _DAY_S)]
Ratio = Annotated[float, Meta(ge=0, le=1)]
RampRatio = Annotated[float, Meta(ge=0.01, le=1)]
"""An executor that may be sent nothing at all would never be a part of the fleet."""
WindowSeconds = Annotated[float, Meta(ge=0, le=3600)]
VersionHoldSeconds = Annotated[float, Meta(ge=0, le=_DAY_S)]
FailureRatio = Annotated[float, Meta(gt=0, le=1)]
"""At 0 any three silent executors would stop every loss from being dealt with."""
Handoffs = Annotated[int, Meta(ge=1, le=10_000)]
Cost = Annotated[float, Meta(ge=0, le=100)]
HoldSeconds = Annotated[float, Meta(ge=0, le=600)]
Strikes = Annotated[int, Meta(ge=2, le=20)]
"""One crash tells no shard from the others that were there."""
ShardCount = Annotated[int, Meta(ge=1, le=SHARDS_MAX)]


class BalancerFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be set under `balancer`; what is not named keeps its value."""

    mode: BalancerMode | UnsetType = UNSET
    interval_s: IntervalSeconds | UnsetType = UNSET
    start_gap: Gap | UnsetType = UNSET
    stop_gap: Gap | UnsetType = UNSET
    quiet_mark: Mark | UnsetType | None = UNSET
    high_mark: Mark | UnsetType | None = UNSET
    smoothing_horizon_s: HorizonSeconds | UnsetType = UNSET
    cooldown_s: RestSeconds | UnsetType | None = UNSET
    move_budget_ratio: Ratio | UnsetType = UNSET
    budget_window_s: HorizonSeconds | UnsetType = UNSET
    max_in_flight: Handoffs | UnsetType = UNSET
    max_in_flight_per_executor: Handoffs | UnsetType = UNSET
    load_cost: Cost | UnsetType = UNSET


class HandoffFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be set under `handoff`; what is not named keeps its value."""

    warmup: bool | UnsetType = UNSET
    release_timeout_s: IntervalSeconds | UnsetType = UNSET


class PolicyFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be set of a policy; what is not named keeps its value."""

    lease_ttl_s: LeaseSeconds | UnsetType = UNSET
    heartbeat_interval_s: HeartbeatSeconds | UnsetType = UNSET
    on_lease_loss: LeaseLoss | UnsetType = UNSET
    balancer: BalancerFields | UnsetType = UNSET
    handoff: HandoffFields | UnsetType = UNSET
    mass_failure_ratio: FailureRatio | UnsetType = UNSET
    initial_placement: InitialPlacement | UnsetType = UNSET
    initial_hold_s: HoldSeconds | UnsetType = UNSET
    return_window_s: WindowSeconds | UnsetType = UNSET
    join_ramp_ratio: RampRatio | UnsetType = UNSET
    mixed_version_hold_s: VersionHoldSeconds | UnsetType = UNSET
    drain_in_flight: Handoffs | UnsetType = UNSET
    poison_threshold: Strikes | UnsetType | None = UNSET
    max_shards: ShardCount | UnsetType = UNSET


def merged(policy: Policy, fields: PolicyFields) -> Policy:
    """The policy with the named fields replaced."""
    changes = _named(fields)
    if fields.balancer is not UNSET:
        changes["balancer"] = replace(policy.balancer, **_named(fields.balancer))
    if fields.handoff is not UNSET:
        changes["handoff"] = replace(policy.handoff, **_named(fields.handoff))
    return replace(policy, **changes)


def contradictions(policy: Policy) -> tuple[tuple[str, str], ...]:
    """What fields of a policy say against each other, as (path, message)."""
    found: list[tuple[str, str]] = []
    if policy.heartbeat_interval_s > policy.lease_ttl_s / 2:
        half = f"must be at most half of lease_ttl_s ({policy.lease_ttl_s:g})"
        found.append(
            ("heartbeat_interval_s", f"{half}: one lost heartbeat must not cost the lease")
        )
    balancer = policy.balancer
    if balancer.stop_gap > balancer.start_gap:
        found.append(
            ("balancer.stop_gap", f"must be at most balancer.start_gap ({balancer.start_gap:g})")
        )
    return tuple(found)


def _named(fields: Struct) -> dict[str, Any]:
    """The fields that were named, by name."""
    values = ((name, getattr(fields, name)) for name in fields.__struct_fields__)
    return {name: value for name, value in values if value is not UNSET}
