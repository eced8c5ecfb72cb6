import json
import subprocess
import sys

import pytest

from tests.supply.lock import ROOT


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_sample_of_requests_made_from_the_document_meets_nothing_undocumented():
    pytest.importorskip("schemathesis", reason="needs the extra `fuzz`")
    ended = subprocess.run(
        [sys.executable, "-m", "bench.fuzz_api", "--cases", "1", "--examples", "1", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    summary = json.loads(ended.stdout)
    assert ended.returncode == 0, summary["findings"] or summary["log_faults"]
    assert summary["cases"] > 1_000
    assert summary["replicas_agree"]
