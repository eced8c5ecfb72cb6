"""Total loss and claims, in any order: nobody is given what another may still act upon."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from coordinator.core import commands as c
from coordinator.core.claims import Standing
from coordinator.core.rules import claims as claim_rules
from coordinator.core.types import Claim, Executor, ExecutorProfile, ExecutorStatus
from tests.core.any_commands import EXECUTORS, aimed, any_command
from tests.core.builders import (
    NS,
    applied,
    bootstrapped,
    claim,
    close_window,
    create,
    space,
)
from tests.core.rights import Holder, Rights
from tests.core.test_properties import begun, walk

SEEDS = 80
BEFORE_STEPS = 80
WINDOW_STEPS = 50
AFTER_STEPS = 40
LATER_EPOCHS = 1_000_000
"""Where a cluster that begins after the first one starts to count."""

_NOT_IN_A_WINDOW = (c.CloseWindow, c.AdoptClaims, c.SetPolicy)
"""What only a leader says that has waited, and what executors say for themselves."""


@dataclass
class Aftermath:
    """Executors of a lost cluster, and the cluster that knows nothing of them."""

    seed: int
    are_sets_told: bool = False
    """Already in the window: a fault that this is to find."""
    rng: random.Random = field(init=False)
    rights: Rights = field(init=False)
    was: dict[Holder, dict[str, int]] = field(default_factory=dict)
    """All that each ever acted upon, with the epochs: what a late heartbeat may still claim."""
    heard: dict[Holder, None] = field(default_factory=dict)
    given_up: dict[Holder, dict[str, int]] = field(default_factory=dict)
    """What was last held by those that lost their lease before they were heard."""

    def __post_init__(self) -> None:
        self.rng = random.Random(f"aftermath {self.seed}")
        self.rights = Rights(known={(executor, "1"): None for executor in EXECUTORS})
        before = begun()
        for command in walk(self.seed, before, BEFORE_STEPS):
            self.rights.before(command, before)
            before.apply(command)
            self.rights.after(before)
            for key, holders in self.rights.acting.items():
                for holder, epochs in holders.items():
                    self.was.setdefault(holder, {})[key] = max(epochs)
        self.state = bootstrapped(LATER_EPOCHS)
        applied(self.state, create())

    def holds(self, holder: Holder) -> dict[str, int]:
        acting = self.rights.acting.items()
        return {key: max(of[holder]) for key, of in acting if holder in of}

    def live_on(self) -> list[Holder]:
        return sorted({holder for holders in self.rights.acting.values() for holder in holders})

    def run(self) -> str:
        """The first moment at which two may act on one shard; empty if there is none."""
        for at, what in enumerate(self.steps()):
            faults = self.state.check_invariants()
            contested = self.rights.contested()
            if faults or contested:
                return f"seed {self.seed}, step {at}: {faults} {contested} after {what}"
        return ""

    def steps(self) -> Iterator[object]:
        for _ in range(WINDOW_STEPS):
            yield self.in_window()
            if self.are_sets_told:
                self.rights.after(self.state)
        # One lease is over: whoever was not heard can act no more.
        for holder in [one for one in self.live_on() if one not in self.heard]:
            self.rights.end(holder)
        for (executor, incarnation), claims in sorted(self.given_up.items()):
            command = claim(executor, *claims.items(), incarnation=incarnation, is_held=False)
            self.state.apply(command)
            yield command
        close_window(self.state)
        self.rights.after(self.state)
        yield "the window is closed"
        for command in walk(-self.seed - 1, self.state, AFTER_STEPS):
            self.rights.before(command, self.state)
            self.state.apply(command)
            self.rights.after(self.state)
            yield command

    def in_window(self) -> object:
        holders = self.live_on()
        match self.rng.choice(("beat", "beat", "late", "lapse", "other")):
            case "beat" if holders:
                holder = self.rng.choice(holders)
                return self.beat(holder, self.holds(holder))
            case "late" if self.was:
                # It was sent long ago: what it says was true then.
                holder = self.rng.choice(sorted(self.was))
                return self.beat(holder, {**self.was[holder], **self.holds(holder)})
            case "lapse" if holders:
                return self.lapse(self.rng.choice(holders))
            case _:
                command = aimed(any_command(self.rng.choice), self.state)
                is_said_here = isinstance(command, _NOT_IN_A_WINDOW) or (
                    isinstance(command, c.JoinExecutor) and command.claimed is not None
                )
                if not isinstance(command, c.NamespaceCommand) or is_said_here:
                    return None
                self.rights.before(command, self.state)
                self.state.apply(command)
                return command

    def beat(self, holder: Holder, claims: dict[str, int]) -> object:
        """A heartbeat is acknowledged only after all that it holds is adopted."""
        executor, incarnation = holder
        status = self.rng.choice((ExecutorStatus.ACTIVE, ExecutorStatus.LEAVING))
        outcome = self.state.apply(
            c.JoinExecutor(
                namespace=NS,
                executor=executor,
                incarnation=incarnation,
                profile=ExecutorProfile(host="h1", status=status),
                at_ms=0,
                claimed=max(claims.values(), default=0),
            )
        )
        if isinstance(outcome, c.Applied) and claims:
            outcome = self.state.apply(claim(executor, *claims.items(), incarnation=incarnation))
        if isinstance(outcome, c.Applied):
            self.heard[holder] = None
            self.rights.known[holder] = None
            assert set(self.holds(holder)) <= set(space(self.state).owned(executor)), holder
        else:
            self.rights.end(holder)  # it is told that it is over, and stops
        return holder, claims, outcome

    def lapse(self, holder: Holder) -> object:
        """Its lease ends before it is heard; then it says what it gave up."""
        if holder in self.heard:
            return None
        claims = self.holds(holder)
        self.rights.end(holder)
        outcome = self.beat(holder, {})
        if holder in self.heard:
            self.given_up[holder] = claims
        return outcome


def test_no_claim_and_no_want_of_one_makes_two_owners() -> None:
    assert [found for seed in range(SEEDS) if (found := Aftermath(seed).run())] == []


def test_who_lived_on_keeps_what_it_held_if_it_was_heard() -> None:
    kept = 0
    for seed in range(SEEDS):
        aftermath = Aftermath(seed)
        held = {one: aftermath.holds(one) for one in aftermath.live_on()}
        for holder, claims in held.items():
            aftermath.beat(holder, claims)
        close_window(aftermath.state)
        now = space(aftermath.state)
        for (executor, incarnation), claims in held.items():
            if (executor, incarnation) in aftermath.heard:
                given = {key: epoch for key, epoch, _ in now.assignments(executor, incarnation)}
                assert given.keys() >= claims.keys()
                assert all(given[key] > epoch for key, epoch in claims.items())
                kept += len(claims)
    assert kept > SEEDS


# -- rules left out ------------------------------------------------------------------------------


def test_sets_that_are_told_before_the_window_is_closed_are_found_out() -> None:
    assert _is_found_out(are_sets_told=True)


def test_an_order_of_claims_that_is_not_that_of_their_epochs_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true = claim_rules.standing

    def first_come(*args: object, **how: object) -> Standing:
        found = true(*args, **how)  # type: ignore[arg-type]
        shard = args[1]
        is_taken = shard is not None and shard.executor not in (None, args[2])  # type: ignore[attr-defined]
        return Standing.LOST if is_taken else found

    monkeypatch.setattr(claim_rules, "standing", first_come)
    assert _is_found_out()


def test_claims_of_those_who_leave_that_are_left_out_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true = claim_rules._take

    def take(draft: object, record: Executor, one: Claim, command: c.AdoptClaims) -> Standing:
        if record.profile.status is ExecutorStatus.LEAVING:
            return Standing.LOST
        return true(draft, record, one, command)  # type: ignore[arg-type]

    monkeypatch.setattr(claim_rules, "_take", take)
    assert _is_found_out()


def _is_found_out(*, are_sets_told: bool = False) -> bool:
    for seed in range(SEEDS):
        try:
            if Aftermath(seed, are_sets_told=are_sets_told).run():
                return True
        except AssertionError:
            return True
    return False
