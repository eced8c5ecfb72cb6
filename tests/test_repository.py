"""What is handed out with the source: no secret that once was one."""

import re
import subprocess
from pathlib import Path

import pytest


def test_no_secret_is_in_the_repository():
    root = Path(__file__).parents[1]
    listed = subprocess.run(
        ["/usr/bin/env", "git", "ls-files", "-z"], cwd=root, capture_output=True, check=False
    ).stdout.split(b"\0")
    if not any(listed):
        pytest.skip("this is no checkout")
    token = re.compile(rb"shc_[A-Za-z0-9_-]{43}")
    private = b"-----BEGIN " + b"PRIVATE KEY"
    found = [
        name.decode()
        for name in listed
        if name and (path := root / name.decode()).is_file()
        if private in (data := path.read_bytes()) or token.search(data)
    ]
    assert found == []
