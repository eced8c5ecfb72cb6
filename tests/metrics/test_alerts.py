"""Alerts, dashboard and runbook: what they name is there, and each alert fires when it should."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from coordinator.core.commands import Reason
from coordinator.core.planner import BlockedReason
from coordinator.metrics.tables import COUNTERS, HISTOGRAMS, METRICS, PREFIX
from tests.metrics.scenarios import SCENARIOS, Fires

CONFIGS = Path(__file__).parents[2] / "configs"
ALERTS = CONFIGS / "prometheus" / "alerts.yml"
RUNBOOK = (CONFIGS / "RUNBOOK.md").read_text()
NAME = "ShardCoordinator"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"].removeprefix(NAME): rule
    for group in yaml.safe_load(ALERTS.read_text())["groups"]
    for rule in group["rules"]
}

PROMTOOL = shutil.which("promtool") or ""
promtool = pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed (Debian: prometheus)")


def served() -> set[str]:
    """The names of all series that a node serves."""
    return {
        PREFIX + name + end
        for name in METRICS
        for end in (
            ("_total",)
            if name in COUNTERS
            else ("_bucket", "_sum", "_count")
            if name in HISTOGRAMS
            else ("",)
        )
    }


@pytest.mark.parametrize("path", ["prometheus/alerts.yml", "grafana/shard-coordinator.json"])
def test_every_metric_that_is_named_is_served(path: str) -> None:
    named = set(re.findall(rf"{PREFIX}[a-z_]+", (CONFIGS / path).read_text()))
    assert len(named) > 15
    assert named - served() == set()


def test_values_of_labels_that_are_named_exist() -> None:
    known = {
        "reason": {reason.value for reason in BlockedReason},
        "state": {"active"},
        "outcome": {"ok", *(reason.value for reason in Reason)},
        "job": {"shard-coordinator"},
        "code": {"5.."},
        "level": {"error", "critical"},
    }
    text = " ".join(rule["expr"] for rule in RULES.values())
    for label, values in re.findall(r'(\w+)[!=]~?"([^"]*)"', text):
        assert set(values.split("|")) <= known[label], label


def test_every_alert_has_a_paragraph_in_the_runbook_and_the_other_way_round() -> None:
    told = re.findall(rf"^### {NAME}(\w+)$", RUNBOOK, re.MULTILINE)
    assert told == list(RULES)
    paragraphs = re.split(rf"^### {NAME}\w+$", RUNBOOK, flags=re.MULTILINE)[1:]
    for alert, paragraph in zip(told, paragraphs, strict=True):
        assert len(paragraph) > 150, alert
        assert "**Do:**" in paragraph, alert


def test_every_alert_says_how_urgent_it_is_and_what_is_the_case() -> None:
    for alert, rule in RULES.items():
        assert rule["labels"]["severity"] in {"page", "ticket"}, alert
        assert rule["annotations"]["summary"].endswith("."), alert


def test_every_alert_has_a_scenario() -> None:
    assert list(SCENARIOS) == list(RULES)


@promtool
def test_prometheus_takes_the_rules_and_the_settings() -> None:
    for arguments in (
        ["rules", str(ALERTS)],
        ["config", str(CONFIGS / "prometheus" / "prometheus.yml")],
    ):
        done = subprocess.run(
            [PROMTOOL, "check", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def step_of(scenario: Fires) -> int:
    """Minutes between scrapes and evaluations: a day of minutes takes promtool long."""
    return 1 if scenario.minutes < 60 else 10


def series_of(scenario: Fires) -> list[dict[str, str]]:
    step = step_of(scenario)
    times = scenario.minutes // step + 2
    constant = [{"series": one, "values": f"{v}x{times}"} for one, v in scenario.series.items()]
    growing = [
        {"series": one, "values": f"0+{v * step}x{times}"} for one, v in scenario.growing.items()
    ]
    return constant + growing


def expects(alert: str, scenario: Fires) -> list[dict[str, Any]]:
    labels = {
        "alertname": NAME + alert,
        "alertstate": "firing",
        "severity": RULES[alert]["labels"]["severity"],
        **scenario.labels,
    }
    text = ",".join(f'{key}="{value}"' for key, value in labels.items())
    fires = {"labels": f"ALERTS{{{text}}}", "value": 1}
    query = f'ALERTS{{alertname="{NAME}{alert}",alertstate="firing"}}'
    at, step = scenario.minutes, step_of(scenario)
    quiet = [{"expr": query, "eval_time": f"{at - step}m", "exp_samples": []}] if at else []
    return [*quiet, {"expr": query, "eval_time": f"{at}m", "exp_samples": [fires]}]


@promtool
@pytest.mark.parametrize("step", [1, 10])
def test_each_alert_fires_in_its_scenario_and_not_one_evaluation_too_early(
    tmp_path: Path, step: int
) -> None:
    suite = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": f"{step}m",
        "tests": [
            {
                "name": alert,
                "interval": f"{step}m",
                "input_series": series_of(scenario),
                "promql_expr_test": expects(alert, scenario),
            }
            for alert, scenario in SCENARIOS.items()
            if step_of(scenario) == step
        ],
    }
    path = tmp_path / "alerts_test.yml"
    path.write_text(json.dumps(suite))  # JSON is YAML
    done = subprocess.run(
        [PROMTOOL, "test", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
