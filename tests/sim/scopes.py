"""What can be simulated: consensus by itself, or the whole system.

Decides what the command line, the runner and the shrinker need to know of a scope. Must not know
how seeds are run.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from coordinator.consensus.node import CURES
from tests.sim import consensus
from tests.sim.faults import Event
from tests.sim.system import rules, system


class Outcome(Protocol):
    """What every scope tells of a seed; the rest is its own."""

    @property
    def seed(self) -> int:
        """Which one."""

    @property
    def what(self) -> str | None:
        """The violation; None when every invariant held."""


Lines = Collection[int] | None
"""Numbers of lines of a script; None is all."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One thing that is simulated from a seed."""

    name: str
    run_seed: Callable[[int, Sequence[str], Lines], Outcome]
    """One seed, without the rules of these names."""
    script: Callable[[int, Sequence[str], Lines], Sequence[Event]]
    """The faults of a seed."""
    outcome: Callable[..., Outcome]
    counted: tuple[str, ...]
    """Fields of the outcome that the summary adds up, beside those that all have."""
    sources: tuple[str, ...]
    """What an outcome depends on, with the versions of Python and of the libraries."""
    rules: tuple[str, ...]
    """What can be left out."""


def _composed(without: Sequence[str]) -> list[Any]:
    return [cure for cure in CURES if cure.name not in without]


CONSENSUS: Final = Scope(
    name="consensus",
    run_seed=consensus.run_seed,
    script=lambda seed, without, only: consensus.Scenario(seed, _composed(without), only).script,
    outcome=consensus.Outcome,
    counted=("committed", "terms", "confirmed", "losses", "operations"),
    sources=(
        "coordinator/consensus",
        "coordinator/core",
        "coordinator/codec.py",
        "coordinator/replica.py",
        "tests/sim",
    ),
    rules=tuple(cure.name for cure in CURES),
)
SYSTEM: Final = Scope(
    name="system",
    run_seed=system.run_seed,
    script=lambda seed, _, only: system.Scenario(seed, only).script,
    outcome=system.Outcome,
    counted=("starts", "orders", "answers", "terms"),
    sources=("coordinator", "client", "tests/sim"),
    rules=tuple(rules.RULES),
)
SCOPES: Final[Mapping[str, Scope]] = {scope.name: scope for scope in (CONSENSUS, SYSTEM)}
