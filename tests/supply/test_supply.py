import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from coordinator import __version__
from tests.supply.bill import bill_of
from tests.supply.lock import LOCK, PROJECT, ROOT, Pin, asked_for, faults, read

A_HASH = "a" * 64


def pin(name: str = "aiohttp", version: str = "3.14.5", **changed: object) -> Pin:
    fields = {"marker": "", "hashes": (A_HASH,), "via": (PROJECT,)} | changed
    return Pin(name, version, **fields)  # type: ignore[arg-type]


def test_the_lock_installs_what_the_project_asks_for():
    pins = read(LOCK.read_text())
    assert faults(pins, asked_for()) == []
    assert {"aiohttp", "pysyncobj", "uvloop", "click", "multidict"} <= {each.name for each in pins}


@pytest.mark.parametrize(
    ("pins", "fault"),
    [
        ([], "aiohttp is not pinned"),
        ([pin(version="3.13.0")], "aiohttp is 3.13.0 where aiohttp"),
        ([pin(hashes=())], "aiohttp has no hash"),
        ([pin(), pin("left-pad", via=())], "nobody asks for left-pad"),
        ([pin(), pin("left-pad", via=("right-pad",))], "right-pad, which is not pinned"),
        ([pin(), pin()], "a package stands twice"),
    ],
)
def test_a_lock_that_cannot_be_trusted_says_why(pins: list[Pin], fault: str):
    (told,) = faults(pins, [Requirement("aiohttp>=3.14,<4")])
    assert fault in told


def test_a_lock_is_read_as_it_is_written():
    text = f"""
uvloop==0.23.0 ; sys_platform != 'win32' \\
    --hash=sha256:{A_HASH} \\
    --hash=sha256:{A_HASH}
    # via shard-coordinator (pyproject.toml)
Multi_Dict==1.0 \\
    --hash=sha256:{A_HASH}
    # via
    #   uvloop
    #   shard-coordinator (pyproject.toml)
"""
    assert read(text) == [
        pin("uvloop", "0.23.0", marker="sys_platform != 'win32'", hashes=(A_HASH, A_HASH)),
        pin("multi-dict", "1.0", via=("uvloop", PROJECT)),
    ]


@pytest.mark.parametrize("line", ["aiohttp>=3", "-e .", "--index-url http://evil", "git+https://x"])
def test_whatever_is_no_pin_is_no_lock(line: str):
    with pytest.raises(ValueError, match="neither a pin nor a hash"):
        read(line)


def test_the_bill_names_every_package_of_the_lock_with_its_files_and_who_brings_it():
    pins = read(LOCK.read_text())
    bill = json.loads(bill_of(pins, __version__))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {each["purl"]: each for each in bill["components"]}
    assert len(listed) == len(pins)
    for each in pins:
        component = listed[f"pkg:pypi/{each.name}@{each.version}"]
        (files,) = component["externalReferences"]
        assert [told["content"] for told in files["hashes"]] == list(each.hashes)
    brought = {other for told in bill["dependencies"] for other in told["dependsOn"]}
    assert brought == set(listed)
    assert bill_of(pins, __version__) == bill_of(pins, __version__)
    assert bill_of(pins, "9.9") != bill_of(pins, __version__)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_wheel_is_the_same_wherever_and_whenever_it_is_built(tmp_path: Path):
    """Other folder, other times of files, other umask: the same bytes."""
    digests = []
    for number, umask in enumerate((0o022, 0o077)):
        source = tmp_path / f"source-{number}"
        source.mkdir()
        for name in ("coordinator", "client"):
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source / name)
        for path in source.rglob("*"):
            os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
        made = tmp_path / f"wheel-{number}"
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(made), str(source)],
            check=True,
            umask=umask,
            env={**os.environ, "SOURCE_DATE_EPOCH": "1767225600"},
        )
        (wheel,) = made.iterdir()
        digests.append((wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()))
    assert digests[0] == digests[1]
