"""Fences: stores that refuse the late write of a former owner.

    Token         a shard and the epoch under which somebody writes; a `Shard` is one too
    Fence         remembers the highest epoch per shard and refuses lower ones with `FencedOut`
    MemoryFence   a fence in the memory of the one process that owns the data
    SqlFence      a row per shard, checked in the transaction of the write (any DB-API database)
    keyvalue      a script for Redis and its likes, with the pure functions around it
    objects       object stores with conditional puts (`If-Match`)

A lease cannot stop a write that is already on its way: a process that was paused between
`may_act()` and its write wakes later and writes. An epoch can, where the data is. `FENCING.md`
beside this package has the recipes, which the tests run.
"""

from client.errors import FencedOut
from client.fencing import keyvalue, objects
from client.fencing.sql import SqlFence
from client.fencing.tokens import Fence, MemoryFence, Owned, Token

__all__ = [
    "Fence",
    "FencedOut",
    "MemoryFence",
    "Owned",
    "SqlFence",
    "Token",
    "keyvalue",
    "objects",
]
