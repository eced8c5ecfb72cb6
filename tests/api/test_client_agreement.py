"""The client's requests and records against the node's: written apart, they must not drift."""

import inspect
import json
from typing import Any, get_args
from urllib.parse import parse_qsl

import msgspec
import pytest

from client import calls, protocol, views
from client.call import Call
from coordinator.api.operators.dry_run_records import DryRunAnswer
from coordinator.api.problems import Problem
from coordinator.api.records import HeartbeatRequest
from coordinator.api.route import Route
from coordinator.core.types import BalancerPolicy, HandoffPolicy, Policy
from tests.api.nodes import route_of

REF = protocol.EpochRef("a", 1)
NS = "ns"
SAMPLES: dict[str, list[Call[Any]]] = {
    "heartbeat": [
        calls.heartbeat(
            NS,
            "e",
            protocol.Heartbeat(
                incarnation="i",
                sequence=1,
                shards={"a": protocol.HeldShard(1, 0.5), "b": protocol.HeldShard(2)},
                status="leaving",
                joining=True,
                host="h",
                address="a:1",
                zone="z",
                capacity=2.0,
                version="v",
                labels={"k": "v"},
                process=protocol.ProcessSignals(0.1, 0.2, 3),
            ),
        )
    ],
    "assignments": [calls.assignments(NS, "e", "i", after="c:1", wait_s=30.0)],
    "acks": [
        calls.acks(NS, "e", protocol.Acks("i", [REF], [REF], [protocol.FailedStart("a", 1, "why")]))
    ],
    "deregister": [calls.deregister(NS, "e", "i")],
    "owner": [calls.owner(NS, "a/b")],
    "routing": [
        calls.routing(NS, after=None, wait_s=0.0),
        calls.routing(NS, after="c:1", wait_s=0.25),
    ],
    "create_namespace": [
        calls.create_namespace(NS, "fixed", 8, {"balancer": {"mode": "off"}}),
        calls.create_namespace(NS, "open", None, None),
    ],
    "namespaces": [calls.namespaces()],
    "namespace": [calls.namespace(NS)],
    "change_policy": [calls.change_policy(NS, {"lease_ttl_s": 9.0}, '"1"')],
    "delete_namespace": [calls.delete_namespace(NS, force=True)],
    "executors": [calls.executors(NS, host="h", status="drained")],
    "executor": [calls.executor(NS, "e")],
    "drain_executor": [
        calls.drain_executor(NS, "e", "why"),
        calls.drain_executor(NS, "e", "why", force=True, expires_in_s=60.0),
    ],
    "executor_verb": [
        *(calls.executor_verb(NS, "e", verb, "why") for verb in get_args(calls.Verb)),
        calls.executor_verb(NS, "e", "cordon", "why", expires_in_s=60.0),
    ],
    "evict_executor": [calls.evict_executor(NS, "e", "why", force=True, incarnation="i")],
    "drain_host": [
        calls.drain_host(NS, "h", "why"),
        calls.drain_host(NS, "h", "why", force=True, expires_in_s=60.0),
    ],
    "host_verb": [
        *(calls.host_verb(NS, "h", verb, "why") for verb in get_args(calls.Verb)),
        calls.host_verb(NS, "h", "cordon", "why", expires_in_s=60.0),
    ],
    "drains": [calls.drains(NS)],
    "drain": [calls.drain(NS, "d-1")],
    "shards": [
        calls.shards(NS, executor="e", state="owned", sort="load", limit=5, page="Mg"),
    ],
    "shard": [calls.shard(NS, "a/b"), calls.shard(NS, "a", "2026-11-30T03:10:00Z")],
    "shard_verb": [
        calls.shard_verb(NS, "a", "drain", {"reason": "why"}),
        calls.shard_verb(NS, "a", "undrain", {"reason": "why"}),
        calls.shard_verb(NS, "a", "pin", {"executor": "e", "reason": "why", "expires_in_s": 5.0}),
        calls.shard_verb(NS, "a", "unpin", {"reason": "why"}),
        calls.shard_verb(NS, "a", "move", {"to": "e", "reason": "why"}),
    ],
    "declare_shards": [calls.declare_shards(NS, ["a", "b"])],
    "retire_shard": [calls.retire_shard(NS, "a")],
    "balance": [calls.balance(NS)],
    "balance_verb": [
        calls.balance_verb(NS, "pause", reason="why", expires_in_s=5.0),
        calls.balance_verb(NS, "resume", reason="why", expires_in_s=None),
    ],
    "balance_plan": [calls.balance_plan(NS, "tight")],
    "what_if": [
        calls.what_if(NS),
        calls.what_if(
            NS,
            executors=8,
            without_hosts=["h"],
            without_executors=["e"],
            policy={"balancer": {"stop_gap": 0.05}},
        ),
    ],
    "capacity": [calls.capacity(NS, "8-16"), calls.capacity(NS, None)],
    "balance_history": [calls.balance_history(NS)],
    "decision": [calls.decision(NS, "17")],
    "events": [
        calls.events(NS),
        calls.events(
            NS,
            after="c:1",
            wait_s=5.0,
            kinds=("executor_lost", "shard_parked"),
            shard="a/b",
            executor="e",
            host="h",
            since="2026-11-30T03:10:00Z",
            until="2026-11-30T04:10:00.5Z",
            orders=True,
            limit=5,
        ),
    ],
    "undo": [calls.undo(NS, 4097, "why")],
    "mass_failure": [calls.mass_failure(NS)],
    "proceed_mass_failure": [calls.proceed_mass_failure(NS, "why")],
    "cluster": [calls.cluster()],
    "transfer_leadership": [calls.transfer_leadership("n2"), calls.transfer_leadership(None)],
    "move_member": [
        calls.move_member("n2", "http://h", "h:1"),
        calls.move_member("n2", "http://h", None),
    ],
    "dry_run": [calls.dry_run(calls.retire_shard(NS, "a"))],
}
EVERY = [(name, call) for name, made in SAMPLES.items() for call in made]


def test_every_request_of_the_client_is_sampled():
    public = {
        name
        for name, value in vars(calls).items()
        if inspect.isfunction(value)
        and value.__module__ == calls.__name__
        and not name.startswith("_")
    }
    assert public == set(SAMPLES)


def taken_by(call: Call[Any]) -> Route:
    route = route_of(call.method, call.path)
    assert route is not None, (call.method, call.path)
    return route


@pytest.mark.parametrize(("name", "call"), EVERY)
def test_the_node_takes_the_clients_request(name: str, call: Call[Any]):
    route = taken_by(call)
    parameters = {parameter.name: parameter for parameter in route.parameters}
    sent = dict(parse_qsl(call.target.partition("?")[2]))
    assert set(sent) <= set(parameters), name
    for key, value in sent.items():
        assert not parameters[key].choices or value in parameters[key].choices
    assert {p.name for p in route.parameters if p.is_required} <= set(sent)
    if route.body is None:
        assert call.body is None
    elif call.body is not None:
        msgspec.json.decode(call.body, type=route.body)
    else:
        assert route.body_is_optional


@pytest.mark.parametrize(("name", "call"), EVERY)
def test_the_client_knows_how_the_node_is_asked(name: str, call: Call[Any]):
    route = taken_by(call)
    assert call.is_mutation <= route.is_order, name
    assert call.needs_leader or route.leader.value != "must" or route.method == "GET", name


def structs(kind: Any) -> list[type[msgspec.Struct]]:
    """The records inside a type."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [found for part in get_args(kind) for found in structs(part)]


def missing(ours: Any, theirs: Any, at: str) -> list[str]:
    """Fields that the client reads and the node does not send."""
    if ours in (views.Policy, views.BalancerPolicy, views.HandoffPolicy):
        return []  # the client's defaults stand for what later nodes add
    theirs_by_name = {field.name: field for field in msgspec.structs.fields(theirs)}
    found = []
    for field in msgspec.structs.fields(ours):
        path = f"{at}.{field.name}"
        match = theirs_by_name.get(field.name)
        if match is None:
            found.append(path)
            continue
        for inner, outer in zip(structs(field.type), structs(match.type), strict=False):
            found += missing(inner, outer, path)
    return found


@pytest.mark.parametrize(("name", "call"), EVERY)
def test_the_node_sends_every_field_the_client_reads(name: str, call: Call[Any]):
    route = taken_by(call)
    if call.answer is type(None):
        assert 204 in route.statuses, name
        return
    theirs = DryRunAnswer if name == "dry_run" else route.answer
    assert missing(call.answer, theirs, call.answer.__name__) == []


def test_the_client_reads_every_field_of_a_problem():
    assert missing(protocol.Problem, Problem, "Problem") == []


def test_the_client_sends_no_field_of_a_heartbeat_that_the_node_refuses():
    ours = {field.name for field in msgspec.structs.fields(protocol.Heartbeat)}
    assert ours <= {field.name for field in msgspec.structs.fields(HeartbeatRequest)}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (views.Policy, Policy),
        (views.BalancerPolicy, BalancerPolicy),
        (views.HandoffPolicy, HandoffPolicy),
    ],
)
def test_the_client_knows_the_nodes_defaults(ours: type, theirs: type):
    told = json.loads(msgspec.json.encode(theirs()))
    read = json.loads(msgspec.json.encode(ours()))
    plain = {name for name in told if not isinstance(told[name], dict)}
    assert set(told) <= set(read)
    assert {name: read[name] for name in plain} == {name: told[name] for name in plain}
