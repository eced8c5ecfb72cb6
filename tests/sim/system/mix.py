"""What one seed's system is made of: sizes, times, policy, and how bad its world is.

Decides the drawing, nothing else. It has its own randomness, so that leaving a rule out changes
nothing of it.
"""

import random
from dataclasses import dataclass
from typing import Final

from tests.sim.system.programs import NAMESPACE

BOOT_S: Final = 2.0
"""By then everything has been started."""
FAULTS_S: Final = 20.0
"""Some ten leases: what goes wrong in one has its consequences in the next."""


@dataclass(frozen=True, slots=True)
class Mix:
    """One seed's drawing."""

    delay_s: tuple[float, float]
    batch_bytes: int
    chunk_bytes: int
    compaction_entries: int
    fault_every_s: tuple[float, float]
    has_disks: bool
    skew: float
    """How far a machine's clock may be from the true rate: up to the bound of leases."""
    stray_ratio: float
    executors: int
    shards: int
    lease_s: float
    has_warmup: bool
    release_timeout_leases: float
    has_locks: bool
    poison_threshold: int
    mass_failure_ratio: float
    faults_s: float = FAULTS_S

    @property
    def policy(self) -> dict[str, object]:
        """Of the namespace: so quick that a short run has many leases, passes and handoffs."""
        return {
            "lease_ttl_s": self.lease_s,
            "heartbeat_interval_s": self.lease_s / 5,
            "initial_hold_s": 0.5,
            "return_window_s": 2 * self.lease_s,
            "mixed_version_hold_s": 3.0,
            "poison_threshold": self.poison_threshold,
            "mass_failure_ratio": self.mass_failure_ratio,
            "handoff": {
                "warmup": self.has_warmup,
                "release_timeout_s": self.release_timeout_leases * self.lease_s,
            },
            "balancer": {
                "interval_s": 1.0,
                "smoothing_horizon_s": 4.0,
                "cooldown_s": 1.0,
                "move_budget_ratio": 0.5,
                "budget_window_s": 5.0,
            },
        }

    @property
    def bound_s(self) -> float:
        """From the last fault until every shard runs again: an election, a full lease by the new
        leader, a hung release, the lease of its shard, and what placing and starting takes."""
        return 6.0 + (3.0 + self.release_timeout_leases) * self.lease_s * 1.5 + 3.0 * self.lease_s


def draw_mix(seed: int) -> Mix:
    """The mix of a seed."""
    rng = random.Random(f"system mix {seed}")
    lease_s = rng.choice([1.0, 2.0, 3.0])
    return Mix(
        # A heartbeat and its probe take up to six ways within a quarter of the lease.
        delay_s=rng.choice(
            [(0.0002, 0.002), (0.0002, 0.002), (0.001, 0.02), (0.001, lease_s / 40)]
        ),
        batch_bytes=rng.choice([1200, 65_536]),
        chunk_bytes=rng.choice([256, 2048]),
        compaction_entries=rng.choice([20, 80, 100_000]),
        fault_every_s=rng.choice([(0.1, 0.6), (0.3, 1.5), (0.3, 1.5)]),
        has_disks=rng.random() < 0.4,
        skew=rng.choice([0.0, 0.01, 0.01]),
        stray_ratio=rng.choice([0.0, 0.05]),
        executors=rng.choice([3, 3, 4]),
        shards=rng.choice([4, 8, 12]),
        lease_s=lease_s,
        has_warmup=rng.random() < 0.4,
        release_timeout_leases=rng.choice([0.3, 0.7, 1.5]),
        has_locks=rng.random() < 0.5,
        poison_threshold=rng.choice([3, 20]),
        mass_failure_ratio=rng.choice([0.5, 1.0]),
    )


def namespace_table(mix: Mix) -> str:
    """The namespace as nodes' settings name it."""
    return f"""
[namespaces.{NAMESPACE}]
kind = "fixed"
shard_count = {mix.shards}
policy = {_inline(mix.policy)}
"""


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(one)}" for key, one in value.items()) + " }"
    return str(value).lower() if isinstance(value, bool) else repr(value)
