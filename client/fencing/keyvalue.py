"""A fence in Redis and its likes: a script that compares and sets in one step.

Decides the script and what its reply means; how it is sent is the caller's, so that it works with
any client, blocking or not. Needs a store that runs Lua scripts atomically (Redis, Valkey, KeyDB,
Dragonfly), and one that does not forget: with replication, a fail-over may lose the last writes,
the fence's too.
"""

from typing import Final

from client.fencing.tokens import Owned, Token, fenced_out

# KEYS: the fence and, unless only the fence is to be raised, what is written; ARGV: the epoch and
# the value. Lua's numbers are doubles; epochs stay below 2^53.
SCRIPT: Final = """\
local highest = tonumber(redis.call('GET', KEYS[1]) or '0')
if tonumber(ARGV[1]) < highest then
  return highest
end
redis.call('SET', KEYS[1], ARGV[1])
if KEYS[2] then
  redis.call('SET', KEYS[2], ARGV[2])
end
return 0
"""


def fence_key(owned: Owned) -> str:
    """Where the highest epoch of a shard is kept.

    The braces keep it on one node of a Redis Cluster with every key that contains the same
    `{namespace/shard}`: one script works on one node only.
    """
    return f"fence:{{{owned.namespace}/{owned.key}}}"


def raising(owned: Owned) -> tuple[Token, list[str], list[str]]:
    """Token, KEYS and ARGV that let nobody through any more whose epoch is lower."""
    token = Token.of(owned)
    return token, [fence_key(token)], [str(token.epoch)]


def setting(owned: Owned, key: str, value: str) -> tuple[Token, list[str], list[str]]:
    """Token, KEYS and ARGV that set a key to a value."""
    token = Token.of(owned)
    return token, [fence_key(token), key], [str(token.epoch), value]


def check(token: Token, reply: int) -> None:
    """Raise `FencedOut` if the script's reply says that nothing was written."""
    if reply:
        raise fenced_out(token, reply)
