import pytest

from tests.api.nodes import calling, running, settings_of
from tests.waiting import until


@pytest.mark.parametrize("path", ["balance", "executors", "routing"])
async def test_a_linearizable_read_asks_a_quorum_also_where_only_the_leader_answers(
    path: str, monkeypatch: pytest.MonkeyPatch
):
    async with running(*settings_of()) as (node,), calling(node) as caller:

        async def leads() -> bool | None:
            return (await caller.get("/leader")).status == 200 or None

        await until(leads)
        ns = await caller.namespace()
        asked = 0
        confirm = node.consensus.confirm_leadership

        async def counted(*args: float, **named: float) -> int:
            nonlocal asked
            asked += 1
            return await confirm(*args, **named)

        monkeypatch.setattr(node.consensus, "confirm_leadership", counted)
        assert (await caller.get(f"{ns}/{path}")).status == 200
        assert asked == 0
        assert (await caller.get(f"{ns}/{path}?consistency=linearizable")).status == 200
        assert asked == 1
