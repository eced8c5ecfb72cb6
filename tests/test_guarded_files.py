"""Whose files with keys and tokens are good enough, and with which permissions."""

import os
from pathlib import Path

import pytest

from coordinator.guarded_files import (
    SEEN_BY_OTHERS,
    WRITABLE_BY_OTHERS,
    FileRefused,
    forbidden_in,
    read_guarded,
)

ROOTS = pytest.mark.skipif(os.geteuid() != 0, reason="only root owns files of root's")


def written(tmp_path: Path, mode: int) -> str:
    path = tmp_path / "file"
    path.write_bytes(b"secret")
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_of_ones_own_that_others_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(FileRefused, match=r"chmod 600"):
        read_guarded(written(tmp_path, mode), forbidden=SEEN_BY_OTHERS, bytes_max=100)


@ROOTS
def test_a_key_of_roots_may_be_read_by_a_group_but_not_by_root_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kubernetes hands secrets out: root's, mode 0440, in the group of the pod."""
    path = written(tmp_path, 0o440)
    with pytest.raises(FileRefused):
        read_guarded(path, forbidden=SEEN_BY_OTHERS, bytes_max=100)
    monkeypatch.setattr(os, "geteuid", lambda: 10_001)
    assert read_guarded(path, forbidden=SEEN_BY_OTHERS, bytes_max=100) == b"secret"
    for mode in (0o460, 0o444, 0o644):
        with pytest.raises(FileRefused):
            read_guarded(written(tmp_path, mode), forbidden=SEEN_BY_OTHERS, bytes_max=100)


def test_a_file_of_hashes_may_be_read_by_a_group_whoever_owns_it(tmp_path: Path) -> None:
    assert read_guarded(written(tmp_path, 0o640), forbidden=WRITABLE_BY_OTHERS, bytes_max=6)
    seen = Path(written(tmp_path, 0o640)).stat()
    assert forbidden_in(seen, WRITABLE_BY_OTHERS) == WRITABLE_BY_OTHERS
