"""A coordinator on virtual time, scraped every minute of it, and the alerts on that record."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families as parsed

from client.testing import LocalCluster
from coordinator.api.app import DESK
from coordinator.metrics import PREFIX
from tests.metrics.test_alerts import ALERTS, NAME, PROMTOOL


class Recording:
    """What a Prometheus would have seen, a scrape each `step` minutes."""

    def __init__(self, cluster: LocalCluster, step: int = 1) -> None:
        self._cluster = cluster
        self._step = step
        self._series: dict[str, list[str]] = {}
        self._scrapes = 0

    async def go_on(self, minutes: int) -> None:
        """Let so much time pass, scraped."""
        for _ in range(minutes // self._step):
            await self._cluster.advance(60.0 * self._step)
            await self._scrape()

    async def _scrape(self) -> None:
        node = self._cluster._node
        assert node is not None
        body, _ = await node._runner.app[DESK].metrics.render("")
        for family in parsed(body.decode()):
            for sample in family.samples if family.name.startswith(PREFIX) else ():
                labels = ",".join(f'{key}="{value}"' for key, value in sample.labels.items())
                name = f"{sample.name}{{{labels}}}"
                past = self._series.setdefault(name, ["_"] * self._scrapes)
                past.append(repr(sample.value))
        self._scrapes += 1
        for past in self._series.values():
            past.extend(["_"] * (self._scrapes - len(past)))

    def demand(self, folder: Path, *alerts: str) -> None:
        """Fail unless these alerts fire at the end, and no others."""
        minutes = (self._scrapes - 1) * self._step
        fires = [{"labels": f'{{alertname="{NAME}{one}"}}', "value": 1} for one in sorted(alerts)]
        query = 'group by (alertname) (ALERTS{alertstate="firing"})'
        test = {
            "interval": f"{self._step}m",
            "input_series": [
                {"series": name, "values": " ".join(values)}
                for name, values in self._series.items()
            ],
            "promql_expr_test": [
                {"expr": query, "eval_time": f"{minutes}m", "exp_samples": fires},
            ],
        }
        path = folder / "recorded.yml"
        path.write_text(
            json.dumps(
                {
                    "rule_files": [str(ALERTS)],
                    "evaluation_interval": f"{self._step}m",
                    "tests": [test],
                }
            )
        )
        done = _promtool(["test", "rules", str(path)])
        assert done.returncode == 0, done.stdout + done.stderr


def _promtool(arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
