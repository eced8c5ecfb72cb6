"""What all tests share: properties are tried with the same examples everywhere."""

import pytest
from hypothesis import settings

# A run that fails must fail again for whoever looks at it, and none may depend on luck. Deadlines
# measure the machine, not the code. `--hypothesis-profile=explore` looks further by chance.
settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile("same")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the tests in a browser may be told; they are skipped where there is none."""
    parser.addoption("--screenshots", metavar="DIR", help="write pictures of the dashboard there")
    parser.addoption("--axe", metavar="FILE", help="axe.min.js of axe-core, for accessibility")
