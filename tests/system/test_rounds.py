"""A few rounds of SIGKILL under load; `python -m tests.system.rounds` runs as many as wanted."""

import pytest

from tests.system.rounds import LOAD_S, led, run


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", ["journal", "memory"])
async def test_nothing_acknowledged_is_lost_and_no_term_has_two_leaders(tmp_path, mode):
    figures = await run(mode, 5, 7, tmp_path)
    assert figures.broken is None
    assert (figures.rounds, figures.kills) == (5, 15 if mode == "journal" else 5)
    # The rounds are worth something: they wrote, and in a journal every round elects.
    assert figures.acknowledged > 5 * LOAD_S[0] * 20
    assert figures.terms >= (6 if mode == "journal" else 1)


def test_a_term_with_two_leaders_is_noticed_in_the_logs(tmp_path):
    line = "info leader_elected node={} term={}\n"
    (tmp_path / "n1.log").write_text(line.format("n1", 3) + line.format("n1", 5))
    (tmp_path / "n2.log").write_text(line.format("n2", 4) + line.format("n2", 5))
    leaders = led(tmp_path, ["n1", "n2"])
    assert leaders == {3: ["n1"], 4: ["n2"], 5: ["n1", "n2"]}
