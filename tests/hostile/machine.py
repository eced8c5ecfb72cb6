"""Any order of requests, from executors, routers, operators and liars, against three real nodes.

Each step is asked of a node that chance picks, predicted by the model, and followed by a look at
the whole table with a quorum's word.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar
from urllib.parse import quote

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.core.types import EPOCH_MAX
from tests.api.nodes import Answer
from tests.hostile.model import Life, Model, Table
from tests.hostile.world import NODES, World

SETTLED_S = 30.0
NAMES = ("e1", "e2", "e.3:x@y")
KEYS = (
    "0",
    "orders",
    "a/b",
    "..",
    "%2F",
    "a b?c#d",
    "\u043a\u043b\u044e\u0447",
    "\u202ertl",
    "\u00e9" * 128,
)
"""Keys that a careless path, header or log would make something else of."""

names = st.sampled_from(NAMES)
keys = st.sampled_from(KEYS)
nodes = st.integers(0, NODES - 1)
epochs = st.integers(0, EPOCH_MAX)
JUNK = st.one_of(
    st.binary(min_size=1, max_size=40).filter(lambda data: b"{" not in data),  # {} is an order
    st.sampled_from(
        [
            b"null",
            b"[]",
            b'{"incarnation":"x"}',
            b'{"incarnation":"x","sequence":1e999,"joining":true}',
            b'{"incarnation":"x","sequence":1,"joining":true,"capacity":NaN}',
            b'{"incarnation":"x","sequence":1,"joining":true,"capacity":0}',
            b'{"incarnation":"x","sequence":-1,"joining":true}',
            b'{"incarnation":"x","sequence":1,"joining":true,"shards":{"a":{"epoch":1,"load":-1}}}',
            b'{"incarnation":"x","sequence":1,"joining":true,"host":"a\\nb"}',
            b'{"incarnation":"x","sequence":1,"joining":true,"zone":"\\ud800"}',
            b'{"incarnation":"x","sequence":1,"joining":1}',
            b'{"incarnation":"x\\n","sequence":1,"joining":true}',
            b"[" * 5_000,
            b'{"keys":[1]}',
            b'{"keys":["a"],"keys":["b"]}',
            b'{"keys":["' + b"a" * 257 + b'"]}',
            b'{"reason":"a","reason":"b"}',
            b'{"to":"nobody","force":true}',
        ]
    ),
)

JUNK_TAKERS = (
    ("PATCH", ""),
    ("PUT", ""),
    ("POST", "/shards"),
    ("POST", "/executors/e1/heartbeat"),
    ("POST", "/executors/e1/acks"),
    ("POST", "/executors/e1/evict"),
    ("POST", "/shards/0/pin"),
    ("POST", "/shards/0/move"),
    ("POST", "/hosts/h/cordon"),
    ("POST", "/balance/what-if"),
)


class Machine(RuleBasedStateMachine):
    """One namespace from its birth to its end."""

    world: ClassVar[World]
    ran: ClassVar[Counter[str]] = Counter()
    played: ClassVar[Callable[[int], None]] = staticmethod(lambda _: None)
    """Told how many sequences are over."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.lives = 0
        self.path = ""
        self.read = Table()

    @initialize(some=st.lists(keys, min_size=1, max_size=6), first=st.sets(names, min_size=1))
    def begin(self, some: list[str], first: set[str]) -> None:
        self.path = self.world.namespace()
        self.declare(0, some)
        for name in sorted(first):
            self.start(0, name)

    def teardown(self) -> None:
        if self.path:
            self.world.forget(self.path)
        self.ran["sequences"] += 1
        type(self).played(self.ran["sequences"])

    # -- asking ------------------------------------------------------------------------------

    def ask(self, node: int, method: str, at: str, body: Any = None, **more: Any) -> Answer:
        answer = self.world.ask(node, method, self.path + at, body, **more)
        self.ran["requests"] += 1
        self.ran[answer.reason or str(answer.status)] += 1
        return answer

    def table(self, node: int = 0) -> Table:
        answer = self.ask(node, "GET", "/routing?consistency=linearizable")
        assert answer.status == 200, answer.raw
        return Table().after(answer.body)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Whatever the leader does by itself takes milliseconds; a busy machine takes longer."""
        ends_at = time.monotonic() + SETTLED_S
        while not holds():
            assert time.monotonic() < ends_at, what
            time.sleep(0.002)

    def beat(self, node: int, name: str, life: Life, **fields: Any) -> Answer:
        body = {
            "incarnation": life.incarnation,
            "sequence": life.sequence,
            "host": f"h-{name[:2]}",
            "shards": {key: {"epoch": epoch} for key, epoch in life.held.items()},
            **fields,
        }
        return self.ask(node, "POST", f"/executors/{name}/heartbeat", body)

    @staticmethod
    def at(key: str) -> str:
        return f"/shards/{quote(key, safe='')}"

    # -- executors ---------------------------------------------------------------------------

    @rule(node=nodes, name=names)
    def start(self, node: int, name: str) -> None:
        """A process starts under a name; if the name was taken, its predecessor is dead."""
        before = self.model.alive.get(name)
        self.lives += 1
        life = Life(f"i-{self.lives}")
        proof = {} if before is None else {"predecessor_dead": before.incarnation}
        answer = self.beat(node, name, life, joining=True, **proof)
        assert answer.status == 200, answer.raw
        if before is not None:
            self.model.end(name, "superseded")
        life.term = answer.body["term"]
        self.model.alive[name] = life
        self.check_standing(name, answer)

    @rule(node=nodes, name=names)
    def go_on(self, node: int, name: str) -> None:
        life = self.model.alive.get(name)
        if life is None:
            return
        life.sequence += 1
        answer = self.beat(node, name, life)
        assert answer.status == 200, answer.raw
        life.term = answer.body["term"]
        self.check_standing(name, answer)

    def check_standing(self, name: str, answer: Answer) -> None:
        status = answer.body["status"]
        if name in self.model.drained:
            assert status in {"draining", "drained"}
        else:
            assert status == ("cordoned" if name in self.model.cordoned else "active")
        assert answer.body["not_renewed"] == []

    @rule(node=nodes, name=names)
    def obey(self, node: int, name: str) -> None:
        """Start and stop what the assignments say, and say so."""
        life = self.model.alive.get(name)
        if life is None:
            return
        lines = self.assignments(node, name, life)
        stopped = [line for line in lines if line["state"] == "release"]
        life.held = {line["key"]: line["epoch"] for line in lines if line["state"] == "run"}
        answer = self.acknowledge(node, name, life, released=stopped)
        assert answer.status == 200, answer.raw
        for line in stopped:
            if line["key"] in self.model.retired:
                assert self.is_gone(line["key"]), "a retired shard stays after its stop"

    def is_gone(self, key: str) -> bool:
        return self.ask(0, "GET", f"{self.at(key)}?consistency=linearizable").status == 404

    def assignments(self, node: int, name: str, life: Life) -> list[dict[str, Any]]:
        answer = self.ask(
            node,
            "GET",
            f"/executors/{name}/assignments?incarnation={life.incarnation}&consistency=linearizable",
        )
        assert answer.status == 200, answer.raw
        lines: list[dict[str, Any]] = answer.body["assignments"]
        return lines

    def acknowledge(self, node: int, name: str, life: Life, **told: Any) -> Answer:
        claims = {
            kind: [{"key": line["key"], "epoch": line["epoch"]} for line in lines]
            for kind, lines in told.items()
        }
        body = {"incarnation": life.incarnation, **claims}
        return self.ask(node, "POST", f"/executors/{name}/acks", body)

    @rule(node=nodes, name=names)
    def leave(self, node: int, name: str) -> None:
        life = self.model.alive.get(name)
        incarnation = "nobody" if life is None else life.incarnation
        answer = self.ask(node, "DELETE", f"/executors/{name}?incarnation={incarnation}")
        if life is None:
            assert answer.status in {404, 409}
            return
        assert answer.status == 204, answer.raw
        self.model.end(name, "left")

    # -- liars -------------------------------------------------------------------------------

    @rule(node=nodes, name=names)
    def replay_an_old_heartbeat(self, node: int, name: str) -> None:
        life = self.model.alive.get(name)
        if life is None or life.sequence < 2:
            return
        answer = self.beat(node, name, Life(life.incarnation, life.sequence - 1))
        if answer.status == 200:  # a new leader has not heard any of them yet
            assert answer.body["term"] != life.term
            life.term = answer.body["term"]
        else:
            assert answer.reason == "stale_sequence"

    @rule(node=nodes, which=st.integers(0, 20), says=st.sampled_from(["beat", "ack", "look", "go"]))
    def speak_after_the_end(self, node: int, which: int, says: str) -> None:
        """An incarnation that is over is told so, whatever it says."""
        if not self.model.over:
            return
        ended = sorted(self.model.over)
        name, incarnation = ended[which % len(ended)]
        life = Life(incarnation, sequence=9)
        match says:
            case "beat":
                answer = self.beat(node, name, life, joining=bool(which % 2))
            case "ack":
                answer = self.acknowledge(node, name, life)
            case "look":
                at = f"/executors/{name}/assignments?incarnation={incarnation}"
                answer = self.ask(node, "GET", f"{at}&consistency=linearizable")
            case _:
                if self.model.over[name, incarnation] == "left":
                    return  # saying so twice is saying it once
                answer = self.ask(node, "DELETE", f"/executors/{name}?incarnation={incarnation}")
                assert answer.reason in {"incarnation_closed", "executor_not_found"}
                return
        assert (answer.status, answer.reason) == (409, "incarnation_closed"), answer.raw
        assert answer.body["cause"] == self.model.over[name, incarnation]

    @rule(node=nodes, name=names, key=keys, epoch=epochs)
    def claim_what_was_never_given(self, node: int, name: str, key: str, epoch: int) -> None:
        life = self.model.alive.get(name)
        if life is None or life.held.get(key) == epoch:
            return
        before = self.table()
        life.sequence += 1
        lie = {"shards": {key: {"epoch": epoch, "load": 1e12}}, "last_held": {key: epoch}}
        answer = self.beat(node, name, life, **lie)
        assert answer.status in {200, 422}, answer.raw
        self.owned_alike(before, self.table())

    @rule(
        node=nodes,
        name=names,
        key=keys,
        epoch=epochs,
        kind=st.sampled_from(["released", "prepared"]),
    )
    def acknowledge_what_was_never_held(
        self, node: int, name: str, key: str, epoch: int, kind: str
    ) -> None:
        life = self.model.alive.get(name)
        before = self.table()
        if life is None or before.owners.get(key, ("", -1))[1] == epoch:
            return
        answer = self.acknowledge(node, name, life, **{kind: [{"key": key, "epoch": epoch}]})
        assert answer.status == 200, answer.raw
        self.owned_alike(before, self.table())

    @rule(node=nodes, name=names, key=keys)
    def acknowledge_for_another(self, node: int, name: str, key: str) -> None:
        """The right epoch, but said by somebody else than the owner."""
        life = self.model.alive.get(name)
        before = self.table()
        owner, epoch = before.owners.get(key, (name, 0))
        if life is None or owner == name:
            return
        line = {"key": key, "epoch": epoch}
        answer = self.acknowledge(node, name, life, released=[line], prepared=[line])
        assert answer.status == 200, answer.raw
        self.owned_alike(before, self.table())

    def owned_alike(self, before: Table, after: Table) -> None:
        """Nobody lost anything, and nobody's epoch changed."""
        for key, owned in before.owners.items():
            assert after.owners.get(key) == owned, key

    @rule(
        node=nodes,
        to=st.sampled_from(JUNK_TAKERS),
        data=JUNK,
        media=st.sampled_from(["application/json"] * 4 + ["application/msgpack", "text/plain"]),
    )
    def send_junk(self, node: int, to: tuple[str, str], data: bytes, media: str) -> None:
        """Refused, never a fault; `Caller` holds the refusal against the document."""
        method, at = to
        answer = self.ask(node, method, at, data=data, headers={"Content-Type": media})
        assert 400 <= answer.status < 500, (method, at, data, answer.raw)

    # -- operators ---------------------------------------------------------------------------

    @rule(node=nodes, some=st.lists(keys, min_size=1, max_size=4))
    def declare(self, node: int, some: list[str]) -> None:
        if self.model.retired & set(some):
            return  # known for as long as its owner stops it
        fresh = set(some) - self.model.keys
        answer = self.ask(node, "POST", "/shards", {"keys": some})
        assert answer.status == (201 if fresh else 200), answer.raw
        assert answer.body["created"] == len(fresh)
        assert answer.body["existing"] == len(set(some)) - len(fresh)
        self.model.keys |= fresh

    @rule(node=nodes, name=names, verb=st.sampled_from(["cordon", "uncordon", "drain", "undrain"]))
    def order_executor(self, node: int, name: str, verb: str) -> None:
        answer = self.ask(node, "POST", f"/executors/{name}/{verb}", {"reason": "model"})
        is_known = name in self.model.alive
        standing = self.model.cordoned if "cordon" in verb else self.model.drained
        if not is_known:
            if verb in {"cordon", "drain"} and name not in standing:
                assert answer.reason == "executor_not_found", answer.raw
                return
            assert answer.status in {200, 202, 404}, answer.raw
        elif answer.reason == "would_overload":
            assert verb == "drain"
            assert not self.model.open - {name}, "others may be given its shards"
            return
        else:
            assert answer.status in {200, 202}, answer.raw
        if verb in {"cordon", "drain"}:
            standing.add(name)
        else:
            standing.discard(name)

    @rule(node=nodes, key=keys, verb=st.sampled_from(["drain", "undrain", "unpin"]))
    def order_shard(self, node: int, key: str, verb: str) -> None:
        answer = self.ask(node, "POST", f"{self.at(key)}/{verb}", {})
        if key not in self.model.keys:
            assert answer.reason == "shard_not_found", answer.raw
            return
        if key in self.model.retired:
            assert answer.status in {200, 202, 409}, answer.raw
            return
        assert answer.status in {200, 202}, answer.raw
        match verb:
            case "drain":
                self.model.parked.add(key)
            case "undrain":
                self.model.parked.discard(key)
            case _:
                self.model.pins.pop(key, None)

    @rule(node=nodes, key=keys, name=names)
    def pin(self, node: int, key: str, name: str) -> None:
        answer = self.ask(node, "POST", f"{self.at(key)}/pin", {"executor": name})
        if key not in self.model.keys:
            assert answer.reason == "shard_not_found", answer.raw
        elif name not in self.model.alive:
            assert answer.reason == "executor_not_found", answer.raw
        else:
            assert answer.status in {200, 202}, answer.raw
            self.model.pins[key] = name

    @rule(node=nodes, key=keys, name=names)
    def move(self, node: int, key: str, name: str) -> None:
        answer = self.ask(node, "POST", f"{self.at(key)}/move", {"to": name})
        if key not in self.model.keys:
            assert answer.reason == "shard_not_found", answer.raw
        elif key in self.model.parked | self.model.retired:
            assert answer.reason == "shard_parked", answer.raw
        elif name not in self.model.alive:
            assert answer.reason == "executor_not_found", answer.raw
        elif name in self.model.open and self.model.pins.get(key, name) == name:
            assert answer.status in {200, 202} or answer.reason == "conflict", answer.raw
        else:
            owner = self.table().owners.get(key, ("", 0))[0]
            assert answer.reason == "conflict" or owner == name, answer.raw

    @rule(node=nodes, key=keys)
    def retire(self, node: int, key: str) -> None:
        answer = self.ask(node, "DELETE", self.at(key))
        if key not in self.model.keys:
            assert answer.reason == "shard_not_found", answer.raw
            return
        assert answer.status in {202, 204}, answer.raw
        self.model.parked.discard(key)
        self.model.pins.pop(key, None)
        if answer.status == 204:
            self.model.keys.discard(key)
            self.model.retired.discard(key)
        else:
            self.model.retired.add(key)

    @rule(node=nodes, name=names)
    def evict(self, node: int, name: str) -> None:
        answer = self.ask(node, "POST", f"/executors/{name}/evict", {"force": True})
        if name not in self.model.alive:
            assert answer.reason == "executor_not_found", answer.raw
            return
        assert answer.status == 200, answer.raw
        assert answer.body["evicted"]
        self.model.end(name, "evicted")

    @rule(node=nodes, other=nodes, key=keys, number=st.integers(0, 3))
    def order_twice_under_one_key(self, node: int, other: int, key: str, number: int) -> None:
        """The second is answered from what the first came to, on whichever node it is asked."""
        if key in self.model.retired:
            return
        headers = {"Idempotency-Key": f"{self.path} {number} {key}".encode().hex()[:128]}
        first = self.ask(node, "POST", "/shards", {"keys": [key]}, headers=headers)
        again = self.ask(other, "POST", "/shards", {"keys": [key]}, headers=headers)
        assert first.status == again.status in {200, 201}, again.raw
        reused = self.ask(other, "POST", "/shards", {"keys": ["x"]}, headers=headers)
        assert reused.reason == "idempotency_key_reused", reused.raw
        looked = self.ask(other, "GET", f"{self.at(key)}?consistency=linearizable")
        if looked.status == 200:  # else it was retired since the key was first used
            self.model.keys.add(key)

    @rule(node=nodes, name=names, key=keys, which=st.integers(0, 5))
    def only_ask_what_would_be(self, node: int, name: str, key: str, which: int) -> None:
        at, body = (
            (f"/executors/{name}/drain", {}),
            (f"/executors/{name}/evict", {"force": True}),
            (f"{self.at(key)}/drain", {}),
            (f"{self.at(key)}/pin", {"executor": name}),
            ("/shards", {"keys": [key]}),
            (f"{self.at(key)}/move", {"to": name}),
        )[which]
        answer = self.ask(node, "POST", f"{at}?dry_run=true", body)
        assert answer.status == 200 or 400 <= answer.status < 500, answer.raw

    # -- routers -----------------------------------------------------------------------------

    @rule(node=nodes, key=keys)
    def look_up(self, node: int, key: str) -> None:
        at = f"{self.at(key)}/owner?create=false&consistency=linearizable"
        if key in self.model.keys - self.model.parked - self.model.retired and not self.model.open:
            return  # a look-up waits for an owner: two seconds for nothing
        if self.model.pins.get(key) not in {None, *self.model.open}:
            return  # the same
        answer = self.ask(node, "GET", at)
        if key not in self.model.keys:
            assert answer.reason == "shard_not_found", answer.raw
        elif key in self.model.parked:
            assert answer.reason == "shard_parked" or answer.status == 200, answer.raw
        elif key not in self.model.retired:
            assert answer.status == 200, answer.raw
            assert answer.body["key"] == key
            assert answer.body["executor"] in self.model.alive

    @rule(node=nodes)
    def follow(self, node: int) -> None:
        """A reader goes from node to node and never sees less than it has seen."""
        after = quote(self.read.cursor, safe="")
        answer = self.ask(node, "GET", f"/routing?after={after}")
        if answer.status == 200:
            told = self.read.after(answer.body)
            assert told.revision >= self.read.revision
            self.read = told
        else:
            assert answer.status == 304, answer.raw
        whole = self.table(node)
        if whole.cursor == self.read.cursor:
            assert whole == self.read

    # -- promises ----------------------------------------------------------------------------

    @invariant()
    def keep_every_promise(self) -> None:
        if not self.path:
            return
        for key in sorted(self.model.retired):
            if self.is_gone(key):
                self.model.keys.discard(key)
                self.model.retired.discard(key)
        self.model.look(self.table())

    @rule(node=nodes)
    def give_everybody_work(self, node: int) -> None:
        """What may run has an owner soon, and everybody is told to run just what it owns."""
        if not self.model.open:
            return
        bound = {key for key, name in self.model.pins.items() if name not in self.model.open}
        due = self.model.keys - self.model.parked - self.model.retired - bound
        self.until(lambda: due <= self.table().owners.keys(), "a shard stays without an owner")
        self.until(lambda: self.is_told(node), "sets and table differ")

    def is_told(self, node: int) -> bool:
        before = self.table(node)
        told = {
            line["key"]: (name, line["epoch"])
            for name, life in self.model.alive.items()
            for line in self.assignments(node, name, life)
            if line["state"] != "prepare"
        }
        ending = self.model.parked | self.model.retired  # stopped by who owned it, found by nobody
        return {key: at for key, at in told.items() if key not in ending} == before.owners

    @rule(node=nodes, name=names)
    def empty_a_drained_executor(self, node: int, name: str) -> None:
        is_due = name in self.model.drained and name in self.model.alive and self.model.open
        if not is_due or name in self.model.pins.values():
            return

        def is_empty() -> bool:
            self.obey(node, name)
            return all(owner != name for owner, _ in self.table().owners.values())

        bound = [key for key, to in self.model.pins.items() if to not in self.model.open]
        if not bound:
            self.until(is_empty, "a drained executor keeps shards")
