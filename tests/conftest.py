"""What all tests share: properties are tried with the same examples everywhere."""

from hypothesis import settings

# A run that fails must fail again for whoever looks at it, and none may depend on luck. Deadlines
# measure the machine, not the code. `--hypothesis-profile=explore` looks further by chance.
settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile("same")
