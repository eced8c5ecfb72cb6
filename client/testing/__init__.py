"""What tests of a service that is built on the kit need: no ports, no sleeps, no chance.

    LocalCluster   a coordinator in this process, on time that the test owns, with faults to order
    freeze         a router whose placement the test decides; for code that only asks for owners
    LoneShard      the handle of a shard without an executor; for callbacks called by hand

With pytest the fixture `shard_cluster` is a LocalCluster; the mark `shard_cluster(...)` takes its
arguments. Other runners enter it: `async with LocalCluster() as cluster`. A `LocalCluster` needs
the extra `server`, since it is the real coordinator; the others need nothing.
"""

from client.testing.cluster import LocalCluster
from client.testing.frozen import FrozenRouter, LoneShard, freeze
from client.testing.virtual_time import TimeLimitReached

__all__ = ["FrozenRouter", "LocalCluster", "LoneShard", "TimeLimitReached", "freeze"]
