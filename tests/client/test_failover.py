"""The kit against three real nodes: leaders come and go."""

from client import Operator


async def test_leadership_goes_to_the_node_that_was_named(three_nodes):
    async with Operator(three_nodes.endpoints) as operator:
        before = await operator.cluster()
        target = next(node.node for node in before.nodes if node.node != before.leader)
        await operator.transfer_leadership(target)
        await operator.create_namespace("after", kind="open")
        assert (await operator.cluster()).leader == target
