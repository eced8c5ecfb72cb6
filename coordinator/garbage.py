"""The garbage collector, kept from stopping the loop.

Decides when it looks at what. Must not know who makes the garbage.

What a node holds for long is either a shard, which the collector does not know (`core.types`), or
was there at the start: modules, classes, functions, some 100,000 objects that a full collection
would walk through each time, 30 to 50 ms. Those are taken out for good once they are loaded. What
is left are requests, connections and tasks, of which a full collection takes a few milliseconds.
Nothing is switched off: frameworks make cycles, and a node runs for months.
"""

import gc


def spare_the_loop() -> None:
    """Call it once, when all is loaded and before anything is served."""
    gc.collect()
    gc.freeze()
