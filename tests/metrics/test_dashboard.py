"""The Grafana dashboard: queries that Prometheus takes, panels that do not cover each other."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from coordinator.metrics.tables import METRICS, PREFIX
from tests.metrics.test_alerts import CONFIGS, PROMTOOL, promtool

TEXT = (CONFIGS / "grafana" / "shard-coordinator.json").read_text()
BOARD: dict[str, Any] = json.loads(TEXT)
PANELS: list[dict[str, Any]] = BOARD["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", [])]
COLUMNS = 24


def test_panels_have_ids_of_their_own_and_none_covers_another() -> None:
    ids = [panel["id"] for panel in PANELS]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= COLUMNS
        taken |= cells


def test_every_panel_asks_the_chosen_prometheus_for_the_chosen_namespace() -> None:
    for panel in PANELS:
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}"
    names = {variable["name"] for variable in BOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", TEXT)) <= names | {"__rate_interval", "__all"}
    for query in QUERIES:
        for name, matchers in re.findall(rf"{PREFIX}(\w+)(\{{[^}}]*\}})?", query):
            base = re.sub(r"_(total|bucket)$", "", name)
            if "namespace" in METRICS[base][1]:
                assert 'namespace=~"$namespace"' in matchers, query


def test_what_says_how_a_fleet_is_doing_is_on_the_dashboard() -> None:
    missing = {name for name in METRICS if PREFIX + name not in TEXT}
    # These are for alerts, for looking closer, or for judging the others.
    assert missing <= {
        "build_info", "raft_members", "raft_certificate_left_seconds", "raft_peers_connected",
        "raft_is_quarantined", "api_certificate_left_seconds",
        "raft_disk_fault", "raft_log_entries", "snapshot_age_seconds", "watch_waiters_max",
        "http_connections_max", "namespaces", "namespaces_unlisted", "executors_unlisted",
        "handoffs_open", "shards_unmeasured", "executor_shards", "executor_heartbeat_age_seconds",
        "handoffs", "claims", "log_lines", "plan_seconds", "http_connections_held_back",
    }  # fmt: skip


@promtool
def test_prometheus_takes_every_query(tmp_path: Path) -> None:
    rules = [
        {
            "record": f"panel:{number}",
            "expr": query.replace("$__rate_interval", "5m").replace("$namespace", ".*"),
        }
        for number, query in enumerate(QUERIES)
    ]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(
        [PROMTOOL, "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
