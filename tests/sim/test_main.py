"""The command line of the simulator."""

import io
import json
from dataclasses import replace

import pytest

from tests.sim import runner
from tests.sim.__main__ import main
from tests.sim.runner import Bar
from tests.sim.scopes import CONSENSUS

BROKEN = ["--without", "prefix-match,reset-order", "--without", "snapshot-cap"]
FAILS = 3
"""A seed that fails without these three."""


def test_the_summary_is_one_line_with_the_keys_others_rely_on(capsys):
    assert main(["--scope", "consensus", "--seeds", "0-1", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    summary = json.loads(line)
    assert list(summary)[:8] == [
        "scope",
        "seeds",
        "failed",
        "first_failure",
        "crashes",
        "partitions",
        "moves",
        "seconds",
    ]
    assert summary["seeds"] == 2
    assert summary["failed"] == 0
    assert summary["first_failure"] is None
    assert summary["operations"] > 100
    assert summary["cpu_s_per_seed"] > 0


def test_a_failing_seed_is_told_shrunk_and_with_the_command_that_repeats_it(capsys):
    arguments = ["--seeds", f"{FAILS}-{FAILS}", "--json"]
    assert main([*arguments, *BROKEN, "--shrink", "4"]) == 1
    told = capsys.readouterr()
    summary = json.loads(told.out)
    assert summary["failed"] == 1
    assert summary["first_failure"]["seed"] == FAILS
    assert summary["without"] == ["prefix-match", "reset-order", "snapshot-cap"]
    assert f"repeat: python -m tests.sim --scope consensus --seeds {FAILS}-{FAILS} --without" in (
        told.err
    )
    assert f"seed {FAILS} shrunk from" in told.err
    # The shrunk command fails as well, and says the same when asked again.
    _, _, only = summary["first_failure"]["repeat"].partition(" --only ")
    repeated = [*arguments, *BROKEN, "--only", only, "--shrink", "0"]
    assert main(repeated) == 1
    again = json.loads(capsys.readouterr().out)["first_failure"]
    assert main(repeated) == 1
    assert json.loads(capsys.readouterr().out)["first_failure"] == again


def test_kept_outcomes_are_not_run_again(tmp_path, capsys):
    kept = tmp_path / "outcomes.jsonl"
    main(["--seeds", "0-1", "--json", "--resume", str(kept)])
    first = json.loads(capsys.readouterr().out)
    assert len(kept.read_text().splitlines()) == 3  # the first says of which source they are
    with kept.open("a") as file:
        file.write('{"without": [], "cpu_s": 0.1, "se')  # killed in the middle of a line
    main(["--seeds", "0-2", "--json", "--resume", str(kept)])
    second = json.loads(capsys.readouterr().out)
    assert second["seeds"] == 3
    assert second["committed"] > first["committed"]
    main(["--seeds", "0-2", "--json", "--resume", str(kept)])
    assert json.loads(capsys.readouterr().out)["committed"] == second["committed"]
    assert len(kept.read_text().splitlines()) == 5
    main(["--seeds", "0-0", "--json", "--resume", str(kept), "--without", "once"])
    assert len(kept.read_text().splitlines()) == 6  # another composition is another outcome


def test_outcomes_of_another_source_are_refused_with_the_way_out(tmp_path, capsys):
    kept = tmp_path / "outcomes.jsonl"
    kept.write_text(json.dumps({"commit": "c0ffee", "source": "another"}) + "\n")
    assert main(["--seeds", "0-0", "--resume", str(kept)]) == 2
    told = capsys.readouterr().err
    assert "commit c0ffee" in told
    assert "begin another file" in told
    here = runner.source(CONSENSUS)
    assert here == runner.source(CONSENSUS)
    elsewhere = replace(CONSENSUS, sources=("tests/sim/world.py",))
    assert runner.source(elsewhere)["source"] != here["source"]


def test_two_jobs_tell_the_same_as_one(capsys):
    main(["--seeds", "0-1", "--json"])
    one = json.loads(capsys.readouterr().out)
    main(["--seeds", "0-1", "--json", "--jobs", "2"])
    two = json.loads(capsys.readouterr().out)
    for summary in (one, two):
        del summary["seconds"], summary["cpu_s_per_seed"]
    assert one == two


def test_the_bar_says_how_far_it_is_and_how_long_it_will_take():
    bar = Bar(100, 40, io.StringIO())
    assert bar.text(70, 30.0) == "[################        ] 70 of 100 seeds, 0:30 left"
    assert bar.text(40, 0.0).endswith("40 of 100 seeds, 0:00 left")


def test_what_is_not_known_ends_with_status_two():
    for wrong in (
        ["--scope", "nothing"],
        ["--scope", "system", "--without", "prefix-match"],
        ["--without", "nothing"],
        ["--seeds", "5-1"],
        ["--seeds", "x"],
        ["--jobs", "0"],
        ["--only", "x"],
        ["--seeds", "0-1", "--only", "3"],
        ["--shrink", "-1"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(wrong)
        assert ended.value.code == 2
