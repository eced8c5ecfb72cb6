"""The collector: what was there at the start is walked through no more, garbage still goes."""

import subprocess
import sys

import pytest

from coordinator.garbage import STRANGERS_MAX

SCRIPT = """
import gc, weakref
import coordinator.node
from coordinator.garbage import Aside

held = len(gc.get_objects())
Aside().spare_the_loop()
left = len(gc.get_objects())

class Ring:
    pass

ring = Ring()
ring.itself = ring
gone = weakref.ref(ring)
del ring
gc.collect()
print(gc.isenabled(), left * 20 < held, gone() is None)
"""


def told_by(script):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_what_was_loaded_is_left_alone_and_cycles_made_later_are_collected():
    assert told_by(SCRIPT) == ["True", "True", "True"]


def test_records_written_in_bulk_are_set_aside_and_freed_when_replaced():
    script = """
import gc
from coordinator.garbage import RECORDS_MAX, Aside
from coordinator.core.shard import Shard

aside = Aside()
shards = {str(n): Shard(key=str(n)) for n in range(RECORDS_MAX)}
aside.wrote(RECORDS_MAX - 1)
before = gc.get_freeze_count()
aside.wrote(1)
print(before == 0, gc.get_freeze_count() > RECORDS_MAX)
frozen = gc.get_freeze_count()
shards.clear()
print(gc.get_freeze_count() <= frozen - RECORDS_MAX)
"""
    assert told_by(script) == ["True", "True", "True"]


def test_records_and_commands_count_as_no_garbage_however_many_are_on_their_way():
    script = """
import gc
from coordinator.core.shard import Shard
from coordinator.core.types import Placement
from coordinator.garbage import RECORDS_MAX, STRANGERS_MAX, Aside

looked = []
aside = Aside(lambda: looked.append(1) or 0)
kept = [Shard(key=str(number)) for number in range(STRANGERS_MAX // 2)]
kept += [Placement(str(number), "e") for number in range(STRANGERS_MAX)]
nameless = type("Nameless", (), {"__module__": property(str), "__slots__": ("__dict__",)})()
aside.wrote(RECORDS_MAX)
aside.wrote(RECORDS_MAX)
print(looked == [])
"""
    assert told_by(script) == ["True"]


@pytest.mark.parametrize(("held", "is_gone"), [(0, "True"), (STRANGERS_MAX, "False")])
def test_garbage_that_was_set_aside_goes_when_there_is_more_than_records_can_be(held, is_gone):
    script = f"""
import weakref
from coordinator.garbage import RECORDS_MAX, STRANGERS_MAX, Aside

class Ring:
    pass

aside = Aside(lambda: {held})
rings = [Ring() for _ in range(STRANGERS_MAX + 1)]
for ring in rings:
    ring.itself = ring
aside.wrote(RECORDS_MAX)
gone = weakref.ref(rings[0])
del ring, rings
aside.wrote(1)
print(gone() is None)
aside.wrote(RECORDS_MAX)
aside.wrote(RECORDS_MAX)
print(gone() is None)
"""
    assert told_by(script) == ["False", is_gone]


def test_many_records_are_set_aside_as_they_are_made_few_are_not_and_the_collector_goes_on():
    script = """
import gc
from coordinator.garbage import LARGE, Aside
from coordinator.core.shard import Shard

aside = Aside()
with aside.bulk(LARGE - 1):
    print(gc.isenabled(), gc.get_freeze_count())
with aside.bulk(LARGE):
    shards = [Shard(key=str(n)) for n in range(5_000)]
    print(gc.isenabled())
print(gc.isenabled(), gc.get_freeze_count() >= 5_000)
try:
    with aside.bulk(LARGE):
        raise ValueError
except ValueError:
    print(gc.isenabled())
"""
    assert told_by(script) == ["True", "0", "False", "True", "True", "True"]


def test_what_outlives_a_full_collection_is_walked_through_once():
    script = """
import gc
from coordinator.garbage import Aside

Aside(lambda: 0).spare_the_loop()
before = gc.get_freeze_count()
live = [[] for _ in range(10_000)]
gc.collect()
print(gc.get_freeze_count() >= before + 10_000, len(gc.get_objects()) < 1_000)
frozen = gc.get_freeze_count()
live.clear()
print(gc.get_freeze_count() <= frozen - 10_000)
"""
    assert told_by(script) == ["True", "True", "True"]


@pytest.mark.parametrize(("held", "is_gone"), [(0, "True"), (2 * STRANGERS_MAX, "False")])
def test_garbage_among_what_outlived_goes_when_there_is_more_than_can_be_alive(held, is_gone):
    script = f"""
import gc, weakref
from coordinator.garbage import STRANGERS_MAX, Aside

class Ring:
    pass

Aside(lambda: {held}).spare_the_loop()
rings = [Ring() for _ in range(STRANGERS_MAX // 3)]
for ring in rings:
    ring.itself = ring
gc.collect()
gone = weakref.ref(rings[0])
rings.clear()
del ring
gc.collect()
print(gone() is None)
more = [[] for _ in range(STRANGERS_MAX)]
gc.collect()
gc.collect()
print(gone() is None)
"""
    assert told_by(script) == ["False", is_gone]


def test_memory_is_looked_at_anew_once_garbage_went_and_not_while_what_lives_explains_it():
    script = """
import gc
from coordinator.garbage import RECORDS_MAX, STRANGERS_MAX, Aside

class Ring:
    pass

def rings():
    for _ in range(STRANGERS_MAX + 1):
        ring = Ring()
        ring.itself = ring
        yield ring

unfrozen = []
unfreeze = gc.unfreeze
gc.unfreeze = lambda: (unfrozen.append(1), unfreeze())
aside = Aside()
for _ in range(3):
    kept = list(rings())
    aside.wrote(RECORDS_MAX)
    del kept
    aside.wrote(RECORDS_MAX)  # collects what was looked at again, and takes stock
print(len(unfrozen))
live = [[] for _ in range(STRANGERS_MAX + 1)]
aside._held = lambda: STRANGERS_MAX
aside.wrote(RECORDS_MAX)
print(len(unfrozen))
"""
    assert told_by(script) == ["3", "3"]
