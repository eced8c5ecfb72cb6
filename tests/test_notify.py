"""Words to the service manager, heard on a real datagram socket."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordinator.notify import STATUS_CHARACTERS_MAX, Notifier


@dataclass
class Manager:
    """Stands for the service manager: a socket, and what came in."""

    address: str
    socket: socket.socket

    def heard(self) -> list[str]:
        words: list[str] = []
        while True:
            try:
                words.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return words


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.setblocking(False)
        listening.bind(path if request.param == "file" else f"\0{path}")
        yield Manager(path if request.param == "file" else f"@{path}", listening)


def test_each_word_is_one_datagram_of_the_protocol(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address})
    assert notifier.is_heard
    notifier.ready()
    notifier.alive()
    notifier.reloading()
    notifier.stopping()
    words = manager.heard()
    assert words[:2] == ["READY=1", "WATCHDOG=1"]
    first, second = words[2].split("\n")
    assert first == "RELOADING=1"
    assert second.startswith("MONOTONIC_USEC=")
    assert int(second.partition("=")[2]) > 0
    assert words[3:] == ["STOPPING=1"]
    notifier.close()
    notifier.ready()  # a late word opens the socket anew rather than failing
    assert manager.heard() == ["READY=1"]
    notifier.close()


def test_a_status_stays_one_line_whatever_is_in_it(manager: Manager) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.address})
    notifier.status("n1: leader\nREADY=1\x00" + "x" * 1000)
    (word,) = manager.heard()
    assert word.startswith("STATUS=n1: leader READY=1 x")
    assert "\n" not in word
    assert len(word) == len("STATUS=") + STATUS_CHARACTERS_MAX
    notifier.close()


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1"}])
def test_without_a_manager_nothing_is_said(environ: dict[str, str]) -> None:
    notifier = Notifier(environ)
    assert not notifier.is_heard
    notifier.ready()
    notifier.status("n1")
    assert notifier.watchdog_s is None


def test_a_manager_that_is_gone_stops_nobody_and_is_mentioned_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    for _ in range(3):
        notifier.alive()
    assert [record.getMessage().split()[0] for record in caplog.records] == ["manager_unheard"]
    notifier.close()


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"WATCHDOG_USEC": "10000000"}, 10.0),
        ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "77"}, 10.0),
        ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "78"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_PID": "77"}, None),
    ],
)
def test_the_watchdog_is_for_the_process_it_names(
    variables: dict[str, str], seconds: float | None
) -> None:
    assert Notifier(variables, pid=77).watchdog_s == seconds
