"""One Debian for all of this folder: it takes a minute or two to make."""

from pathlib import Path

import pytest

from tests.installed.debian import make


@pytest.fixture(scope="session")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is done to it stays: images are built before a machine is made of it."""
    return make(tmp_path_factory.mktemp("debian"))
