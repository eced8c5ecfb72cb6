import math
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from coordinator.core.types import BalancerMode, NamespaceKind, Policy
from coordinator.policy import BalancerFields, HandoffFields, PolicyFields, contradictions, merged
from coordinator.settings import (
    LogFormat,
    NamespaceSettings,
    Settings,
    SettingsError,
    is_loopback,
    load_settings,
    parse_settings,
    split_address,
)

CONFIGS = Path(__file__).parents[2] / "configs"
MINIMAL = """
[node]
name = "n1"
peers = { n1 = "127.0.0.1:7071" }
"""


def faults(text: str, **environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        parse_settings(text, environ)
    assert str(caught.value) == "\n".join(caught.value.errors)
    return list(caught.value.errors)


def test_a_name_and_peers_are_enough():
    settings = parse_settings(MINIMAL, {})
    assert settings.api_address == ("127.0.0.1", 7070)
    assert settings.api_url == "http://127.0.0.1:7070"
    assert settings.limits.watch_waiters == 10_000
    assert settings.log.format is LogFormat.TEXT


@pytest.mark.parametrize("name", ["node-1", "node-2", "node-3", "single-node", "policies"])
def test_every_config_shipped_is_accepted(name: str):
    settings = load_settings(CONFIGS / f"{name}.toml", {})
    assert settings.node.name in settings.node.peers


POLICIES = sorted(path.name for path in (CONFIGS / "policies").glob("*.toml"))


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_shipped_is_accepted_behind_a_nodes_settings(name: str):
    text = (CONFIGS / "policies" / name).read_text()
    settings = parse_settings((CONFIGS / "node-1.toml").read_text() + text, {})
    (namespace,) = tomllib.loads(text)["namespaces"]
    policy = settings.namespaces[namespace].policy
    assert contradictions(merged(Policy(), policy)) == ()
    told = tomllib.loads(text)["namespaces"][namespace]["policy"]["balancer"]
    assert {"smoothing_horizon_s", "start_gap", "stop_gap", "cooldown_s"} <= told.keys()
    assert text.count("\n#") > 8, "a policy says why"


def test_there_is_a_policy_for_each_of_three_cases():
    assert POLICIES == ["bursty-functions.toml", "small-tenants.toml", "task-lists.toml"]


def test_the_three_nodes_are_one_cluster_on_different_ports():
    nodes = [load_settings(CONFIGS / f"node-{number}.toml", {}) for number in (1, 2, 3)]
    assert {node.node.name for node in nodes} == {"n1", "n2", "n3"}
    assert len({tuple(sorted(node.node.peers.items())) for node in nodes}) == 1
    assert len({node.api.bind for node in nodes}) == 3
    assert all(set(node.namespaces) == {"tasks", "rooms"} for node in nodes)


def documented_keys() -> set[str]:
    """Every key of node-1.toml, those in a comment included, by path."""
    section, keys = "", set()
    for line in (CONFIGS / "node-1.toml").read_text().splitlines():
        if found := re.fullmatch(r"\[([a-z0-9.]+)\]", line):
            section = re.sub(r"^namespaces\.[a-z]+", "namespaces.NAME", found[1])
        elif found := re.match(r"(?:# )?([a-z_]+) = ", line):
            keys.add(f"{section}.{found[1]}")
    return keys


def existing_keys(kind: type[msgspec.Struct], prefix: str = "") -> set[str]:
    nested: dict[str, type[msgspec.Struct]] = {
        "namespaces": NamespaceSettings,
        "policy": PolicyFields,
        "balancer": BalancerFields,
        "handoff": HandoffFields,
    }
    keys: set[str] = set()
    for field in msgspec.structs.fields(kind):
        if field.name == "namespaces":
            keys |= existing_keys(NamespaceSettings, "namespaces.NAME.")
        elif field.name in nested:
            keys |= existing_keys(nested[field.name], f"{prefix}{field.name}.")
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            keys |= existing_keys(field.type, f"{prefix}{field.name}.")
        else:
            keys.add(f"{prefix}{field.name}")
    return keys


def test_every_setting_is_documented_and_every_documented_key_exists():
    assert documented_keys() == existing_keys(Settings)


def test_every_documented_default_is_the_default():
    text = (CONFIGS / "node-1.toml").read_text()
    shown = parse_settings(re.sub(r"^# ([a-z_]+ = )", r"\1", text, flags=re.MULTILINE), {})
    defaults = parse_settings(MINIMAL, {})
    assert shown.limits == defaults.limits
    assert shown.log == defaults.log
    assert shown.security.insecure == defaults.security.insecure
    assert shown.api.bind == defaults.api.bind
    plain = merged(Policy(), load_settings(CONFIGS / "node-1.toml", {}).namespaces["tasks"].policy)
    assert plain == Policy()
    # What stands in a comment is what the default comes to, except the one that has none.
    commented = merged(Policy(), shown.namespaces["tasks"].policy).balancer
    assert commented.cooldown_s == Policy().balancer.effective_cooldown_s


def test_all_faults_are_told_at_once_with_their_paths():
    told = faults(
        """
        nod = 1
        [node]
        name = 3
        peers = { n1 = "x", n2 = 5 }
        [api]
        bind = "0.0.0.0:70"
        [limits]
        watch_waiter = 5
        connections = true
        header_timeout_s = 0
        [log]
        level = "loud"
        [namespaces.A]
        kind = "fixed"
        policy = { lease_ttl_s = nan, balancer = { start_gap = -1, moed = "on" } }
        [namespaces.b]
        kind = "open"
        shard_count = 4
        """
    )
    assert [fault.partition(": ")[0] for fault in told] == [
        "nod",
        "node.name",
        "node.peers.n2",
        "log.level",
        "limits.watch_waiter",
        "limits.connections",
        "limits.header_timeout_s",
        "namespaces.A.policy.lease_ttl_s",
        "namespaces.A.policy.balancer.moed",
        "namespaces.A.policy.balancer.start_gap",
        "node.peers.n1",
        "api.advertised_url",
        "api.bind",
        "namespaces.A",
        "namespaces.A.shard_count",
        "namespaces.b.shard_count",
    ]
    assert "limits.watch_waiter: unknown key; did you mean watch_waiters?" in told


@pytest.mark.parametrize("section", ["node", "api", "security", "log", "limits", "namespaces"])
def test_a_section_that_is_no_table_is_named(section: str):
    text = MINIMAL if section != "node" else ""
    assert f"{section}: must be a table, not a number" in faults(f"{section} = 5\n{text}")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "node.name: is missing"),
        ('[node]\nname = "n1"', "node.peers: is missing"),
        ('[node]\nname = "n/1"\npeers = {}', "node.name: 'n/1' does not match"),
        (
            '[node]\nname = "n1"\npeers = { n2 = "127.0.0.1:1" }',
            "node.peers.n1: is missing: this node is a member as well",
        ),
        (
            '[node]\nname = "n1"\npeers = { n1 = "127.0.0.1:1", n2 = "127.0.0.1:1" }',
            "node.peers.n2: has the same address as node.peers.n1",
        ),
    ],
)
def test_a_node_must_be_a_member_with_its_own_address(text: str, fault: str):
    assert any(told.startswith(fault) for told in faults(text))


@pytest.mark.parametrize("bind", ["0.0.0.0:7070", "10.0.0.1:7070", "[::]:7070", "example.org:7070"])
def test_a_bind_off_loopback_needs_to_be_asked_for(bind: str):
    api = f'[api]\nbind = "{bind}"\nadvertised_url = "http://10.0.0.1:7070"'
    (fault,) = faults(f"{MINIMAL}\n{api}")
    assert fault.startswith("api.bind: ")
    assert "security.insecure = true" in fault
    allowed = parse_settings(f"{MINIMAL}\n{api}\n[security]\ninsecure = true", {})
    assert allowed.api_url == "http://10.0.0.1:7070"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("log = true", "log: must be a table, not a boolean"),
        ('log = "x"', "log: must be a table, not a string"),
        ("log = [1]", "log: must be a table, not a list"),
        ("log = 2026-01-01", "log: must be a table, not a date"),
        ("[namespaces]\nx = {}", "namespaces.x.kind: is missing"),
        ('[api]\nbind = "here"', "api.bind: 'here' is not HOST:PORT"),
        (
            '[namespaces.x]\nkind = "open"\npolicy = { lease_ttl_s = 2.0 }',
            "namespaces.x.policy.heartbeat_interval_s: must be at most half of lease_ttl_s (2)",
        ),
    ],
)
def test_each_fault_says_what_is_wrong(text: str, told: str):
    top, _, rest = MINIMAL.partition("[node]")
    assert any(fault.startswith(told) for fault in faults(f"{top}{text}\n[node]{rest}"))


def test_a_member_with_a_bad_name_is_told():
    text = '[node]\nname = "n1"\npeers = { n1 = "127.0.0.1:1", "n 2" = "127.0.0.1:2" }'
    assert faults(text) == ["node.peers.n 2: 'n 2' does not match [A-Za-z0-9][A-Za-z0-9._-]{0,62}"]


def test_a_raft_port_off_loopback_needs_to_be_asked_for():
    (fault,) = faults('[node]\nname = "n1"\npeers = { n1 = "10.0.0.1:7071" }')
    assert fault.startswith("node.peers.n1: 10.0.0.1 is not loopback")


CERTIFICATES = 'peer_ca = "ca.pem"\npeer_certificate = "n1.pem"\npeer_key = "n1.key"'


def test_a_raft_port_with_certificates_may_be_anywhere_and_the_api_may_not():
    raft = '[node]\nname = "n1"\npeers = { n1 = "10.0.0.1:7071" }'
    assert parse_settings(f"{raft}\n[security]\n{CERTIFICATES}", {}).security.peer_key == "n1.key"
    (fault,) = faults(f'{raft}\n[api]\nbind = "10.0.0.1:7070"\n[security]\n{CERTIFICATES}')
    assert fault.startswith(
        "api.bind: 10.0.0.1 is not loopback and lacks security.tokens_file and"
        " security.api_certificate"
    )


OFF_LOOPBACK = f'{MINIMAL}\n[api]\nbind = "10.0.0.1:7070"\n[security]\n'
SHOWN = 'api_certificate = "api.pem"\napi_key = "api.key"'


@pytest.mark.parametrize(
    ("security", "lacking"),
    [
        ("", "security.tokens_file and security.api_certificate"),
        ('tokens_file = "t"', "security.api_certificate"),
        (SHOWN, "security.tokens_file"),
    ],
)
def test_an_api_off_loopback_needs_tokens_and_a_certificate(security: str, lacking: str):
    (fault,) = faults(OFF_LOOPBACK + security)
    assert f"10.0.0.1 is not loopback and lacks {lacking}, so strangers" in fault
    assert parse_settings(f"{OFF_LOOPBACK}{security}\ninsecure = true", {}).api.bind


def test_an_api_with_tokens_and_a_certificate_may_be_anywhere_and_is_https():
    settings = parse_settings(f'{OFF_LOOPBACK}{SHOWN}\ntokens_file = "t"', {})
    assert settings.api_url == "https://10.0.0.1:7070"


@pytest.mark.parametrize(
    ("security", "told"),
    [
        ('api_key = "x"', "security.api_certificate: is missing: it goes with security.api_key"),
        ('api_certificate = "x"', "security.api_key: is missing: it goes with"),
        ('api_client_ca = "x"', "security.api_certificate: is missing: it goes with"),
        ('api_client_ca = "x"', "security.tokens_file: is missing: it goes with"),
        (f'{SHOWN}\n[api]\nadvertised_url = "http://h"', "api.advertised_url: must be https://"),
    ],
)
def test_what_goes_together_on_the_api_is_whole(security: str, told: str):
    assert any(one.startswith(told) for one in faults(f"{MINIMAL}\n[security]\n{security}"))


@pytest.mark.parametrize(
    ("security", "told"),
    [
        ('peer_ca = "x"', "security.peer_certificate: is missing: it goes with security.peer_ca"),
        ('peer_ca = "x"', "security.peer_key: is missing: it goes with security.peer_ca"),
        ('peer_key = "x"', "security.peer_ca: is missing: it goes with security.peer_key"),
        ('peer_names = { n9 = "x" }', "security.peer_names.n9: is not among node.peers"),
        (
            f'{CERTIFICATES}\npeer_names = {{ n2 = "N1" }}',
            "security.peer_names.n2: 'n1' is the name of n1 as well, and case does not count",
        ),
    ],
)
def test_certificates_are_told_whole_and_name_one_member_each(security: str, told: str):
    text = '[node]\nname = "n1"\npeers = { n1 = "127.0.0.1:1", n2 = "127.0.0.1:2" }'
    assert told in faults(f"{text}\n[security]\n{security}")


def test_other_members_may_be_anywhere():
    text = '[node]\nname = "n1"\npeers = { n1 = "127.0.0.1:1", n2 = "10.0.0.2:1" }'
    assert parse_settings(text, {}).node.peers["n2"] == "10.0.0.2:1"


@pytest.mark.parametrize(
    "url",
    [
        "10.0.0.1:7070",
        "ftp://h",
        "http://",
        "http://h/path",
        "http://h?x=1",
        "http://u@h",
        "http://h:99999",
    ],
)
def test_an_advertised_url_is_scheme_and_host_only(url: str):
    (fault,) = faults(f'{MINIMAL}\n[api]\nadvertised_url = "{url}"')
    assert fault.startswith("api.advertised_url: ")


def test_a_trailing_slash_of_the_advertised_url_is_dropped():
    settings = parse_settings(f'{MINIMAL}\n[api]\nadvertised_url = "https://c.example/"', {})
    assert settings.api_url == "https://c.example"


def test_the_environment_overrides_the_file():
    settings = parse_settings(
        MINIMAL + '[namespaces.rooms]\nkind = "open"',
        {
            "SHARD_COORDINATOR__API__BIND": "127.0.0.1:8070",
            "SHARD_COORDINATOR__LIMITS__WATCH_WAITERS": "7",
            "SHARD_COORDINATOR__LOG__FORMAT": "json",
            "SHARD_COORDINATOR__SECURITY__INSECURE": "true",
            "SHARD_COORDINATOR__NODE__PEERS__N2": "10.0.0.2:7071",
            "SHARD_COORDINATOR__NAMESPACES__ROOMS__POLICY": "{balancer = {mode = 'off'}}",
            "SHARD_COORDINATOR__NAMESPACES__JOBS__KIND": "open",
            "OTHER__NODE__NAME": "n9",
        },
    )
    assert settings.api.bind == "127.0.0.1:8070"
    assert settings.limits.watch_waiters == 7
    assert settings.log.format is LogFormat.JSON
    assert settings.security.insecure
    assert settings.node.peers == {"n1": "127.0.0.1:7071", "n2": "10.0.0.2:7071"}
    assert settings.namespaces["rooms"].policy.balancer.mode is BalancerMode.OFF
    assert settings.namespaces["jobs"].kind is NamespaceKind.OPEN


def test_a_fault_of_the_environment_names_the_variable():
    told = faults(
        MINIMAL,
        SHARD_COORDINATOR__LIMITS__WATCH_WAITERS="many",
        SHARD_COORDINATOR__LIMITS__WAITERS="1",
        SHARD_COORDINATOR__API="5",
        SHARD_COORDINATOR__NODE__NAME__X="5",
    )
    deep = "node.name (SHARD_COORDINATOR__NODE__NAME__X): is no table with keys of its own"
    assert deep in told
    assert (
        "limits.watch_waiters (SHARD_COORDINATOR__LIMITS__WATCH_WAITERS): expected int, got str"
        in told
    )
    assert any(
        fault.startswith("limits.waiters (SHARD_COORDINATOR__LIMITS__WAITERS): unknown key")
        for fault in told
    )
    assert "api (SHARD_COORDINATOR__API): must be a table, not a number" in told


def test_a_file_that_cannot_be_read_is_one_fault(tmp_path: Path):
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(tmp_path / "absent.toml", {})
    path = tmp_path / "node.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not UTF-8"):
        load_settings(path, {})
    path.write_text("[node")
    with pytest.raises(SettingsError, match="is not TOML"):
        load_settings(path, {})
    path.write_text("#" * ((1 << 20) + 1))
    with pytest.raises(SettingsError, match="is larger than"):
        load_settings(path, {})
    path.write_text(MINIMAL + "#" * ((1 << 20) - len(MINIMAL)))
    assert load_settings(path, {}).node.name == "n1"


@pytest.mark.parametrize(
    ("address", "parts"),
    [("h:1", ("h", 1)), ("[::1]:65535", ("::1", 65535)), ("127.0.0.1:7070", ("127.0.0.1", 7070))],
)
def test_an_address_is_host_and_port(address: str, parts: tuple[str, int]):
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["h", "h:", ":1", "h:0", "h:65536", "h:x", "::1:7070", "h:1 "])
def test_other_addresses_are_refused(address: str):
    with pytest.raises(ValueError, match=re.escape(repr(address))):
        split_address(address)


def test_loopback_is_known_without_asking_anybody():
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example"))


def test_a_policy_keeps_what_is_not_named():
    base = Policy(lease_ttl_s=20.0)
    changed = merged(
        base,
        PolicyFields(
            balancer=BalancerFields(start_gap=0.5, cooldown_s=None),
            handoff=HandoffFields(warmup=True),
        ),
    )
    assert changed.lease_ttl_s == 20.0
    assert changed.balancer.start_gap == 0.5
    assert changed.balancer.stop_gap == base.balancer.stop_gap
    assert changed.handoff.warmup
    assert merged(base, PolicyFields()) == base


def test_a_policy_field_may_be_set_back_to_null():
    base = merged(Policy(), PolicyFields(balancer=BalancerFields(quiet_mark=0.5)))
    assert base.balancer.quiet_mark == 0.5
    back = msgspec.json.decode(b'{"balancer": {"quiet_mark": null}}', type=PolicyFields)
    assert merged(base, back).balancer.quiet_mark is None


def test_every_policy_field_can_be_set():
    def names(kind: type) -> set[str]:
        return set(getattr(kind, "__dataclass_fields__", None) or kind.__struct_fields__)

    assert names(PolicyFields) == names(Policy)
    assert names(BalancerFields) == names(type(Policy().balancer))
    assert names(HandoffFields) == names(type(Policy().handoff))


def test_a_policy_must_not_contradict_itself():
    assert contradictions(Policy()) == ()
    slow = merged(Policy(), PolicyFields(heartbeat_interval_s=5.01))
    assert [path for path, _ in contradictions(slow)] == ["heartbeat_interval_s"]
    edge = merged(Policy(), PolicyFields(heartbeat_interval_s=5.0))
    assert contradictions(edge) == ()
    inverted = merged(Policy(), PolicyFields(balancer=BalancerFields(stop_gap=0.3)))
    assert [path for path, _ in contradictions(inverted)] == ["balancer.stop_gap"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_no_policy_number_may_be_unbounded(value: float):
    for kind in (PolicyFields, BalancerFields, HandoffFields):
        for field in msgspec.structs.fields(kind):
            if "float" in str(field.type):
                with pytest.raises(msgspec.ValidationError):
                    msgspec.convert({field.name: value}, kind)


def test_the_example_files_are_plain_toml():
    for path in CONFIGS.glob("*.toml"):
        assert tomllib.loads(path.read_text())
