"""Reads a scenario script and carries it out, telling what each line changed.

A script is blocks of a command, `----`, and the trace that the command leaves. `fleet` begins with
the state alone, `world` with a leader and executors on a virtual clock that `run` moves. A trace
shows the outcome, each shard and executor that changed, and the revision; with `run` also when
shards changed hands and which commands the leader gave. `events` tells what people are told.
"""

from collections.abc import Callable
from dataclasses import replace

from coordinator.core import commands as c
from coordinator.core.controller.outage import proceed_command
from coordinator.core.shard import Cause
from coordinator.core.state import ClusterState
from coordinator.core.types import (
    BalancerMode,
    Claim,
    CloseCause,
    HandoffPolicy,
    HandoffStart,
    NamespaceKind,
    Placement,
    Policy,
    TargetKind,
)
from tests.core import builders as b
from tests.core.controller_world import World, quick

MARK = "----"


def parsed(text: str) -> list[tuple[str, str]]:
    """The comment and command of each block, and its trace."""
    blocks = []
    for block in text.strip().split("\n\n"):
        command, _, trace = block.partition(f"\n{MARK}\n")
        blocks.append((command.removesuffix(f"\n{MARK}"), trace.strip()))
    return blocks


def rendered(blocks: list[tuple[str, str]]) -> str:
    """The script with these traces."""
    return "\n\n".join(f"{command}\n{MARK}\n{trace}" for command, trace in blocks) + "\n"


class Script:
    """One script under way."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.world: World | None = None
        self._shown: dict[str, str] = {}
        self._told = 0

    def trace(self, block: str) -> str:
        """Carry out the commands of a block, comments aside; what they changed."""
        lines: list[str] = []
        for command in block.splitlines():
            if not command.startswith("#"):
                verb, *words = command.split()
                lines += self._outcome(verb, words)
        lines += self._changes()
        namespace = self.state.namespaces.get(b.NS)
        return "\n".join([*lines, f"revision {namespace.revision if namespace else 'none'}"])

    def _outcome(self, verb: str, words: list[str]) -> list[str]:
        match verb:
            case "fleet" | "world":
                self._begin(verb, dict(word.partition("=")[::2] for word in words))
                return []
            case "run":
                return self._run(float(words[0]))
            case "events":
                return self._events()
            case "lose-cluster":
                self._lose_cluster(float(words[0]))
                return []
            case "proceed":
                return [self._proceed()]
            case (
                "elect"
                | "leave"
                | "gone"
                | "back"
                | "crash"
                | "restart"
                | "hang"
                | "resume"
                | "cut-off"
                | "supervise"
                | "poison"
                | "repair"
                | "arrive"
            ):
                self._happen(verb, *words)
                return []
            case _:
                outcome = self.state.apply(_COMMANDS[verb](self.state, *words))
                assert self.state.check_invariants() == []
                return [_told(outcome)]

    def _begin(self, verb: str, settings: dict[str, str]) -> None:
        policy = Policy(
            lease_ttl_s=float(settings.get("lease", "10")),
            handoff=HandoffPolicy(
                warmup="warmup" in settings, release_timeout_s=float(settings.get("timeout", "30"))
            ),
        )
        mode = BalancerMode.ON if "balance" in settings else BalancerMode.OFF
        policy = quick(policy, mode=mode)
        kind = NamespaceKind.OPEN if "open" in settings else NamespaceKind.FIXED
        executors, shards = int(settings["executors"]), int(settings["shards"])
        if verb == "world":
            self.world = World(executors, shards, policy=policy, kind=kind)
            self.state = self.world.state
            for member in self.world.members.values():
                member.version = settings.get("version", "")
        else:
            self.state = b.fleet(executors, shards, policy=policy, kind=kind)

    def _lose_cluster(self, back_after_s: float) -> None:
        assert self.world is not None
        self.world.lose_cluster(back_after_s=back_after_s)
        self.state, self._told = self.world.state, 0

    def _run(self, seconds: float) -> list[str]:
        assert self.world is not None
        began, told = self.world.now, len(self.world.log)
        commands = len(self.world.commands)
        self.world.run(seconds)
        lines = [
            f"{at - began:.1f} s: leader: {type(one).__name__} {_told(outcome)}"
            for at, one, outcome in self.world.commands[commands:]
        ]
        lines += [
            f"{at - began:.1f} s: {key} to {owner or 'nobody'}"
            for at, key, owner in self.world.log[told:]
        ]
        return sorted(lines, key=lambda line: float(line.partition(" ")[0]))

    def _events(self) -> list[str]:
        """What people are told since they were told last."""
        lines = []
        for event in b.space(self.state).events.after(self._told):
            self._told = event.id
            words = [event.kind.value, event.shard, event.executor or event.host]
            words += [f"-> {event.target}"] if event.target else []
            words += [f"x{event.count}"] if event.count != 1 else []
            words += [f"({event.cause})"] if event.cause else []
            words += [f"by {event.by}: {event.reason}"] if event.by else []
            words += [f"[{event.detail}]"] if event.detail else []
            lines.append("event: " + " ".join(word for word in words if word))
        return lines

    def _proceed(self) -> str:
        world = self.world
        assert world is not None
        assert world.controller is not None
        mind = world.controller.mind(world.space, world.now)
        command = proceed_command(
            world.space, mind, world.now, by="ops", reason="rack 4", at_ms=b.AT_MS
        )
        return _told(command if isinstance(command, c.Refused) else world.order(command))

    def _happen(self, verb: str, name: str = "", key: str = "") -> None:
        assert self.world is not None
        member = self.world.members.get(name)
        match verb:
            case "elect":
                self.world.elect()
            case "arrive":
                self.world.add(name).version = key
            case "supervise":
                for one in self.world.members.values():
                    one.restarts_after_s, one.proves_death = float(name), True
            case "poison" | "repair":
                for one in self.world.members.values():
                    one.dies_of = {name} if verb == "poison" else set()
                    if name in one.dies_of & one.running.keys():
                        one.die(self.world.now)
            case "leave" if member is not None:
                member.say_leaving(float(key or 0))
                if key:
                    self.world.tick()
                    self.world.leave(name)
            case "gone" if member is not None:
                self.world.leave(name)
            case "back" if member is not None:
                member.come_back(key)
            case "crash" if member is not None:
                member.is_alive = False
            case "restart" if member is not None:
                member.restart(is_proven_dead=key == "proven")
            case "hang" if member is not None:
                member.hangs_on.add(key)
            case "cut-off" if member is not None:
                member.is_cut_off = True
            case "resume" if member is not None:
                member.is_cut_off, member.hangs_on = False, set()
            case _:
                raise ValueError(f"{verb} {name}?")

    def _changes(self) -> list[str]:
        namespace = self.state.namespaces.get(b.NS)
        shown: dict[str, str] = {}
        if namespace is not None:
            for name, record in sorted(namespace.executors.items()):
                waits = f" waits for {record.predecessor}" if record.predecessor else ""
                evicted = " evicted" if record.evicted else ""
                status = namespace.status_of(record)
                shown[name] = f"{record.incarnation} {status}{waits}{evicted}"
            for key, shard in sorted(namespace.shards.items()):
                words = [shard.state.value, shard.executor or "", f"#{shard.epoch}"]
                words += [f"-> {shard.target}"] if shard.target else []
                words += ["overdue"] if shard.overdue else []
                words += [f"kept for {shard.reserved}"] if shard.reserved else []
                words += [f"fate {shard.fate}"] if shard.fate else []
                words += [f"pinned to {shard.pin}"] if shard.pin else []
                words += [f"strikes {len(shard.strikes)}"] if shard.strikes else []
                words += [f"({shard.next_cause or shard.cause})"]
                shown[key] = " ".join(word for word in words if word)
        before, self._shown = self._shown, shown
        lines = [f"{name}: {text}" for name, text in shown.items() if before.get(name) != text]
        return lines + [f"{name}: gone" for name in before if name not in shown]


def _told(outcome: c.Outcome) -> str:
    if isinstance(outcome, c.Refused):
        return f"refused: {outcome.reason} ({outcome.detail})"
    return f"applied {outcome.count}" if outcome.count else "applied"


def _ack(word: str) -> Callable[..., c.Command]:
    def acknowledge(state: ClusterState, executor: str, *keys: str) -> c.Command:
        # `key@epoch` names another epoch than the present one; `executor/n` another incarnation.
        name, _, number = executor.partition("/")
        claims = []
        for one in keys:
            key, _, epoch = one.partition("@")
            claims.append((key, int(epoch) if epoch else b.epoch(state, key)))
        command = b.ack(name, f"{name}-{number or 1}", released=claims)
        if word == "released":
            return command
        if word == "prepared":
            return replace(command, released=(), prepared=command.released)
        return replace(command, released=(), failed=command.released)

    return acknowledge


def _claims(kind: type[c.AbortHandoffs] | type[c.MarkOverdue]) -> Callable[..., c.Command]:
    def about(state: ClusterState, *keys: str) -> c.Command:
        claims = tuple(Claim(key, b.epoch(state, key)) for key in keys)
        if kind is c.MarkOverdue:
            return c.MarkOverdue(namespace=b.NS, claims=claims)
        return c.AbortHandoffs(namespace=b.NS, claims=claims, at_ms=b.AT_MS)

    return about


def _move(state: ClusterState, key: str, target: str, cause: str) -> c.Command:
    move = HandoffStart(key, b.epoch(state, key), target, Cause(cause))
    return c.StartHandoffs(namespace=b.NS, moves=(move,))


def _finish(state: ClusterState, key: str) -> c.Command:
    claims = (Claim(key, b.epoch(state, key)),)
    return c.FinishOverdue(namespace=b.NS, claims=claims, at_ms=b.AT_MS)


def _assign(_state: ClusterState, *words: str) -> c.Command:
    placements = tuple(Placement(*word.split("=")) for word in words)
    return c.AssignShards(namespace=b.NS, placements=placements, cause=Cause.PLACED, at_ms=b.AT_MS)


def _close(_state: ClusterState, name: str, cause: str, *words: str) -> c.Command:
    executor, _, number = name.partition("/")
    pairs = dict(word.split("=") for word in words)
    reserve_s = float(pairs.pop("reserve", "0"))
    return b.close(
        executor,
        *pairs.items(),
        incarnation=f"{executor}-{number or 1}",
        cause=CloseCause(cause),
        reserve_s=reserve_s,
    )


def _join(_state: ClusterState, name: str, dead: str = "") -> c.Command:
    executor, _, number = name.partition("/")
    return b.join(executor, f"{executor}-{number or 1}", dead=dead)


def _lease(state: ClusterState, seconds: str) -> c.Command:
    policy = b.space(state).info.policy
    return b.set_policy(replace(policy, lease_ttl_s=float(seconds)))


_COMMANDS: dict[str, Callable[..., c.Command]] = {
    "join": _join,
    "leaving": lambda _s, name, back="0": b.leaving(name, float(back)),
    "end-reservation": lambda _s, name: b.end_reservation(name),
    "close": _close,
    "inherit": lambda _s, name, predecessor: b.inherit(name, predecessor),
    "evict": lambda _s, name: b.evict(name),
    "assign": _assign,
    "handoff": _move,
    "abort": _claims(c.AbortHandoffs),
    "overdue": _claims(c.MarkOverdue),
    "finish": _finish,
    "released": _ack("released"),
    "prepared": _ack("prepared"),
    "failed": _ack("failed"),
    "move": lambda _s, key, target: b.move(key, target),
    "park": lambda _s, key: b.park(key),
    "unpark": lambda _s, key: b.unpark(key),
    "pin": lambda _s, key, executor: b.pin(key, executor),
    "unpin": lambda _s, key: b.unpin(key),
    "retire": lambda _s, key: b.retire(key),
    "declare": lambda _s, *keys: b.declare(*keys),
    "drain": lambda _s, kind, name: b.drain(name, TargetKind(kind)),
    "undrain": lambda _s, kind, name: b.undrain(name, TargetKind(kind)),
    "cordon": lambda _s, kind, name: b.cordon(name, TargetKind(kind)),
    "uncordon": lambda _s, kind, name: b.uncordon(name, TargetKind(kind)),
    "lease": _lease,
}
