"""The command line of the simulator."""

import json

import pytest

from tests.sim.__main__ import main


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


def test_a_failing_seed_is_told_with_the_command_that_repeats_it(capsys):
    arguments = ["--seeds", "0-0", "--json", "--without", "prefix-match,reset-order"]
    assert main([*arguments, "--without", "snapshot-cap"]) == 1
    told = capsys.readouterr()
    summary = json.loads(told.out)
    assert summary["failed"] == 1
    assert summary["first_failure"]["seed"] == 0
    assert summary["without"] == ["prefix-match", "reset-order", "snapshot-cap"]
    assert "repeat: python -m tests.sim --scope consensus --seeds 0-0 --without" in told.err


def test_kept_outcomes_are_not_run_again(tmp_path, capsys):
    kept = tmp_path / "outcomes.jsonl"
    main(["--seeds", "0-1", "--json", "--resume", str(kept)])
    first = json.loads(capsys.readouterr().out)
    assert len(kept.read_text().splitlines()) == 2
    main(["--seeds", "0-2", "--json", "--resume", str(kept)])
    second = json.loads(capsys.readouterr().out)
    assert len(kept.read_text().splitlines()) == 3
    assert second["committed"] > first["committed"]
    main(["--seeds", "0-0", "--json", "--resume", str(kept), "--without", "once"])
    assert len(kept.read_text().splitlines()) == 4  # another composition is another outcome


def test_what_is_not_built_or_not_known_ends_with_status_two(capsys):
    assert main(["--scope", "system"]) == 2
    assert "not built yet" in capsys.readouterr().err
    for wrong in (["--without", "nothing"], ["--seeds", "5-1"], ["--seeds", "x"], ["--jobs", "0"]):
        with pytest.raises(SystemExit) as ended:
            main(wrong)
        assert ended.value.code == 2
