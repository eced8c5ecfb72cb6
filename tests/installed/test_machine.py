"""The systemd unit on a machine: what the guide says of starts, reloads, crashes and mistakes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installed.debian import INSTALL_WITHIN_S, Machine, booted, needed, run, steps

pytestmark = [pytest.mark.slow, pytest.mark.timeout(INSTALL_WITHIN_S), needed]

SETTINGS = "/etc/shard-coordinator/node.toml"
FOLDER = "/var/lib/shard-coordinator"


@pytest.fixture(scope="module")
def machine(debian: Path) -> Iterator[Machine]:
    """Installed by the guide's own commands; what needs a running systemd waits for the boot."""
    install, found, start = steps("On machines").partition("systemctl daemon-reload")
    assert found
    install = install.replace("configs/node-1.toml", "configs/single-node.toml")
    script = debian / "install.sh"
    script.write_text(
        "set -e\nexport PIP_CERT=/etc/ssl/certs/ca-certificates.crt\ncd /src\n"
        f"{install}\nprintf '\\n[storage]\\ndir = \"{FOLDER}\"\\n' >> {SETTINGS}\n"
    )
    run("chroot", debian, "bash", "/install.sh")
    with booted(debian) as machine:
        machine.do(f"systemctl daemon-reload{start}")
        yield machine


def test_a_started_node_answers_as_a_user_of_its_own(machine: Machine) -> None:
    assert machine.unit("ActiveState") == "active"
    assert machine.do("curl --silent --fail localhost:7070/readyz") == "ok"
    user = "stat --format=%U /proc/$(systemctl show --property=MainPID --value shard-coordinator)"
    assert machine.do(user) == "shard-coordinator"
    assert machine.do(f"stat -c '%U %a' {FOLDER}") == "shard-coordinator 700"
    assert "leader n1" in machine.unit("StatusText")


def test_reload_is_heard_by_the_process_that_runs(machine: Machine) -> None:
    pid = machine.unit("MainPID")
    machine.do("systemctl reload shard-coordinator")
    machine.do("until journalctl -u shard-coordinator | grep -q reload; do sleep 0.2; done")
    assert machine.unit("MainPID") == pid


def test_a_killed_node_is_started_anew(machine: Machine) -> None:
    before = int(machine.unit("NRestarts"))
    machine.do("systemctl kill --signal=KILL shard-coordinator")
    machine.until("NRestarts", str(before + 1))
    machine.until("ActiveState", "active")
    machine.do("until curl --silent --fail localhost:7070/readyz; do sleep 0.2; done")


def test_a_node_that_stands_still_is_started_anew(machine: Machine) -> None:
    before = int(machine.unit("NRestarts"))
    machine.do("kill -STOP $(systemctl show --property=MainPID --value shard-coordinator)")
    machine.until("NRestarts", str(before + 1))
    machine.until("ActiveState", "active")
    assert "Watchdog timeout" in machine.do("journalctl -u shard-coordinator --output=cat")


def test_wrong_settings_fail_once_and_say_why(machine: Machine) -> None:
    machine.do(f"cp {SETTINGS} /root/ && printf '\\n[nonsense]\\n' >> {SETTINGS}")
    try:
        assert machine.status("systemctl restart shard-coordinator") != 0
        machine.until("ActiveState", "failed")
        assert machine.unit("NRestarts") == "0"
        assert "nonsense: unknown key" in machine.do("systemctl status shard-coordinator || true")
    finally:
        machine.do(f"cp /root/node.toml {SETTINGS} && systemctl start shard-coordinator")


def test_stopping_is_clean(machine: Machine) -> None:
    machine.do("systemctl stop shard-coordinator")
    assert (machine.unit("ActiveState"), machine.unit("Result")) == ("inactive", "success")
    assert "node_stopped" in machine.do("journalctl -u shard-coordinator --output=cat --lines=5")
