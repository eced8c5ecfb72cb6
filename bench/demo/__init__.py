"""`make demo`: the whole system on one machine, with real load, real faults and a verdict."""
