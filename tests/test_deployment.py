"""The files for deploying are of this product: its ports, paths, settings and exit statuses."""

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator import __version__
from coordinator.api.routes import ROUTES
from coordinator.settings import Settings, SettingsError, parse_settings

ROOT = Path(__file__).parents[1]
CONFIGS = ROOT / "configs"
KUBERNETES = CONFIGS / "kubernetes" / "shard-coordinator.yaml"
UNIT = CONFIGS / "systemd" / "shard-coordinator.service"
CONTAINERFILE = (CONFIGS / "container" / "Containerfile").read_text()
PATHS = {route.path for route in ROUTES if route.method == "GET"}

# -- Kubernetes ----------------------------------------------------------------------------------

OBJECTS: dict[tuple[str, str], dict[str, Any]] = {
    (one["kind"], one["metadata"]["name"]): one
    for one in yaml.safe_load_all(KUBERNETES.read_text())
}
SET = OBJECTS["StatefulSet", "shard-coordinator"]["spec"]
POD = SET["template"]["spec"]
(CONTAINER,) = POD["containers"]
LABELS = SET["template"]["metadata"]["labels"]
PODS = [f"shard-coordinator-{number}" for number in range(SET["replicas"])]


def settings_of(pod: str) -> Settings:
    """What the node of a pod is told by its file and its environment."""
    environ = {"POD_NAME": pod, "POD_NAMESPACE": "shards"}
    for variable in CONTAINER["env"]:
        if "value" in variable:
            environ[variable["name"]] = re.sub(
                r"\$\((\w+)\)", lambda found: environ[found[1]], variable["value"]
            )
    text = OBJECTS["ConfigMap", "shard-coordinator"]["data"]["node.toml"]
    return parse_settings(text, environ)


@pytest.mark.parametrize("pod", PODS)
def test_each_pods_settings_are_accepted_and_those_of_a_secure_member(pod: str) -> None:
    settings = settings_of(pod)
    assert settings.node.name == pod
    assert set(settings.node.peers) == set(PODS)
    assert settings.storage.dir
    security = settings.security
    assert security.peer_ca
    assert security.peer_key.endswith(f"/{pod}.key")
    assert security.tokens_file
    assert security.api_certificate
    assert not security.insecure
    assert settings.api.advertised_url == (f"https://{pod}.shard-coordinator-peers.shards.svc:7070")


def test_a_pod_without_tokens_would_not_start() -> None:
    text = OBJECTS["ConfigMap", "shard-coordinator"]["data"]["node.toml"]
    environ = {
        "SHARD_COORDINATOR__NODE__NAME": PODS[0],
        "SHARD_COORDINATOR__API__ADVERTISED_URL": "https://a:7070",
        "SHARD_COORDINATOR__SECURITY__TOKENS_FILE": "",
    }
    with pytest.raises(SettingsError):
        parse_settings(text, environ)


def test_ports_are_the_same_in_settings_container_services_and_policy() -> None:
    settings = settings_of(PODS[0])
    raft = int(settings.node.raft_bind.rpartition(":")[2])
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {"api": settings.api_address[1], "raft": raft}
    for (kind, _), one in OBJECTS.items():
        if kind == "Service":
            for port in one["spec"]["ports"]:
                assert port["port"] == ports[port["targetPort"]]
    rules = OBJECTS["NetworkPolicy", "shard-coordinator"]["spec"]["ingress"]
    open_to = {port["port"]: "from" in rule for rule in rules for port in rule["ports"]}
    assert open_to == {raft: True, settings.api_address[1]: False}


def test_peers_are_found_by_names_that_exist_before_anyone_is_ready() -> None:
    headless = OBJECTS["Service", SET["serviceName"]]["spec"]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True
    assert SET["podManagementPolicy"] == "Parallel"
    for pod, address in settings_of(PODS[0]).node.peers.items():
        assert address == f"{pod}.{SET['serviceName']}:7071"


def test_everything_selects_the_same_pods_and_one_may_be_missing() -> None:
    assert SET["selector"]["matchLabels"] == LABELS
    for (kind, name), one in OBJECTS.items():
        spec = one.get("spec", {})
        selector = spec.get("selector") or spec.get("podSelector")
        if selector is not None:
            assert selector.get("matchLabels", selector) == LABELS, (kind, name)
    assert OBJECTS["PodDisruptionBudget", "shard-coordinator"]["spec"]["maxUnavailable"] == 1
    assert SET["replicas"] % 2 == 1


def test_probes_ask_what_they_are_for() -> None:
    paths = {
        probe: CONTAINER[probe]["httpGet"]["path"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert paths == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }
    assert set(paths.values()) <= PATHS
    for probe in paths:
        assert CONTAINER[probe]["httpGet"]["scheme"] == "HTTPS"
        assert CONTAINER[probe]["httpGet"]["port"] == "api"


def test_every_file_that_is_named_is_mounted_and_the_journal_is_kept() -> None:
    settings = settings_of(PODS[0])
    mounts = {one["mountPath"]: one["name"] for one in CONTAINER["volumeMounts"]}
    volumes = {one["name"] for one in POD["volumes"]}
    volumes |= {one["metadata"]["name"] for one in SET["volumeClaimTemplates"]}
    assert set(mounts.values()) == volumes
    security = settings.security
    for path in (
        security.peer_ca, security.peer_certificate, security.peer_key, security.tokens_file,
        security.api_certificate, security.api_key, security.api_ca, CONTAINER["args"][1],
        settings.storage.dir,
    ):  # fmt: skip
        assert any(path.startswith(f"{mount}/") for mount in mounts), path
    (claim,) = SET["volumeClaimTemplates"]
    assert settings.storage.dir.startswith(
        next(path for path, name in mounts.items() if name == claim["metadata"]["name"])
    )


def test_the_pod_is_nobody_special() -> None:
    assert POD["securityContext"]["runAsNonRoot"] is True
    user = POD["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in CONTAINERFILE
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "cpu" not in CONTAINER["resources"]["limits"]
    assert CONTAINER["image"].endswith(f":{__version__}")


# -- systemd -------------------------------------------------------------------------------------


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser


def test_the_unit_uses_what_the_process_says_and_does() -> None:
    service = unit()["Service"]
    assert service["Type"] == "notify"
    assert service["NotifyAccess"] == "main"
    assert service["ExecReload"] == "/bin/sh -c 'kill -HUP ${MAINPID}'"
    assert float(service["WatchdogSec"]) >= 5.0, "longer than any stall that is no fault"
    assert service["RestartPreventExitStatus"] == "2", "wrong settings"
    user = (CONFIGS / "systemd" / "shard-coordinator.sysusers").read_text()
    assert f"\nu {service['User']} " in user


def arguments_in(text: str) -> Iterator[str]:
    yield from re.findall(r"(?<![\w-])--[a-z-]+(?![\w-])", text)


def test_the_units_command_is_one_that_the_program_takes() -> None:
    known = subprocess.run(
        [sys.executable, "-m", "coordinator", "--help"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    assert set(arguments_in(unit()["Service"]["ExecStart"])) <= set(arguments_in(known))


SYSTEMD_ANALYZE = shutil.which("systemd-analyze") or ""


@pytest.mark.skipif(not SYSTEMD_ANALYZE, reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit_and_finds_it_well_locked_up(tmp_path: Path) -> None:
    path = tmp_path / UNIT.name
    path.write_text(re.sub(r"/opt/shard-coordinator/bin/\S+", "/bin/true", UNIT.read_text()))
    verified = subprocess.run(
        [SYSTEMD_ANALYZE, "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    judged = subprocess.run(
        [SYSTEMD_ANALYZE, "security", "--offline=true", "--threshold=20", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stdout[-300:]


# -- container -----------------------------------------------------------------------------------


def test_the_image_holds_what_is_built_and_runs_as_a_number() -> None:
    for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.MULTILINE):
        for name in copied.split():
            assert (ROOT / name).exists(), name
    assert "STOPSIGNAL SIGTERM" in CONTAINERFILE
    assert "EXPOSE 7070 7071" in CONTAINERFILE
    assert set(arguments_in(CONTAINERFILE.partition("HEALTHCHECK")[2])) >= {"--ping"}
    versions = re.findall(r"python:(\d+\.\d+)-slim", CONTAINERFILE)
    assert len(set(versions)) == 1
