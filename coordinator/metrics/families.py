"""The families of one scrape, made from the tables and filled sample by sample."""

from collections.abc import Iterator, Mapping, Sequence
from math import isinf
from typing import Any, Final

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from coordinator import __version__
from coordinator.core.durations import Durations
from coordinator.metrics.tables import COUNTERS, GAUGES, HISTOGRAMS, PREFIX, Table

_KINDS: Final[Sequence[tuple[Table, Any]]] = (
    (GAUGES, GaugeMetricFamily),
    (COUNTERS, CounterMetricFamily),
    (HISTOGRAMS, HistogramMetricFamily),
)


class Families:
    """Collects the samples of one scrape; a name that is in no table is a defect."""

    def __init__(self) -> None:
        self.samples = 0
        self._by_name: dict[str, Any] = {
            name: kind(PREFIX + name, text, labels=labels)
            for table, kind in _KINDS
            for name, (text, labels) in table.items()
        }

    def put(self, name: str, value: float, *labels: str) -> None:
        """One sample of a gauge or a counter."""
        self._by_name[name].add_metric(labels, value)
        self.samples += 1

    def put_each(self, name: str, counts: Mapping[str, float], *labels: str) -> None:
        """One sample for each key, which is the last label."""
        for key, count in sorted(counts.items()):
            self.put(name, count, *labels, key)

    def put_times(self, name: str, durations: Durations, *labels: str) -> None:
        """The samples of a histogram."""
        buckets = [
            ("+Inf" if isinf(bound_s) else repr(bound_s), count)
            for bound_s, count in durations.cumulative()
        ]
        self._by_name[name].add_metric(labels, buckets, durations.total_s)
        self.samples += len(buckets) + 2

    def all(self) -> Iterator[Metric]:
        """All of them, those without a sample too: their names and texts are served."""
        yield InfoMetricFamily(
            f"{PREFIX}build", "The software of this node", value={"version": __version__}
        )
        yield from self._by_name.values()
