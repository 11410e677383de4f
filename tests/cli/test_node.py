"""`antiphon node`: real processes on loopback, from flags and from files."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import OK, UNUSABLE, main
from antiphon.cli.running import _visible
from antiphon.runtime import logs
from antiphon.runtime.configuration import EXAMPLE

WAIT_S = 60.0
PROGRAM = "import sys; from antiphon.cli.main import main; sys.exit(main())"


class Process:
    """One `antiphon node run`, whose output is read as it comes."""

    def __init__(self, folder: Path, name: str, *flags: str) -> None:
        self.name = name
        self._output, self._errors = folder / f"{name}.out", folder / f"{name}.err"
        command = [sys.executable, "-c", PROGRAM, "node", "run", "--name", name, "--transport", "tcp", "--json", *flags]
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=errors)

    def told(self) -> list[dict[str, Any]]:
        """What it has said so far, without a line that is not finished."""
        text = self._output.read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def errors(self) -> str:
        return self._errors.read_text(encoding="utf-8")

    def hears(self, **wanted: Any) -> dict[str, Any]:
        """Wait until it prints a line with these fields, and return the line. Members of a view count in any order: nodes that start at
        about the same time may found the group in either order."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            for line in self.told():
                if wanted.items() <= ({**line, "members": sorted(line["members"])} if "members" in line else line).items():
                    return line
            assert self.process.poll() is None, f"{self.name} has ended: {self.errors()}"
            time.sleep(0.02)
        raise AssertionError(f"{self.name} did not say {wanted}: {self.told()} {self.errors()}")

    def say(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(WAIT_S)


@pytest.fixture(autouse=True)
def own_logs() -> Iterator[None]:
    """A command that runs within this process configures its logs: they must not outlive the test."""
    handlers, level, propagate = logs.LOGGER.handlers[:], logs.LOGGER.level, logs.LOGGER.propagate
    yield
    logs.LOGGER.handlers[:], logs.LOGGER.propagate = handlers, propagate
    logs.LOGGER.setLevel(level)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts nodes, and ends those that are still there afterwards."""
    started: list[Process] = []

    def begin(name: str, *flags: str) -> Process:
        started.append(Process(tmp_path, name, *flags))
        return started[-1]

    yield begin
    for each in started:
        each.process.kill()
        each.process.wait(WAIT_S)


def test_two_nodes_talk_and_leave(start: Any) -> None:
    """The first thing that the documentation shows would not work."""
    ana = start("ana", "--bind", "127.0.0.1:0", "--group", "trip:semantic", "--print")
    address = ana.hears(event="started")["address"]
    ben = start("ben", "--seed", address, "--group", "trip:semantic", "--print", "--send", "trip")
    ana.hears(event="view", members=["ana", "ben"])
    ben.hears(event="view", members=["ana", "ben"])
    ben.say(b"hello\n")
    ben.say("Grüße \x1b[31mrot\r\n".encode())
    heard = ana.hears(event="message", text="hello")
    assert heard == {"event": "message", "group": "trip", "sender": "ben", "text": "hello", "id": "ben:1", "reply_to": None}
    assert ana.hears(event="message", id="ben:2")["text"] == "Grüße \x1b[31mrot"
    ben.hears(event="message", id="ben:2")
    assert ben.process.stdin is not None
    ben.process.stdin.close()  # as under a service manager: the node goes on
    assert ana.stop(signal.SIGINT) == OK
    assert ana.told()[-1] == {"event": "closed", "node": "ana"}
    assert "group.left node=ana group=trip reason=left" in ana.errors(), "it says that it goes, and is not missed only after a while"
    ben.hears(event="view", members=["ben"], left=["ana"])
    assert ben.stop(signal.SIGTERM) == OK
    assert "Traceback" not in ana.errors() + ben.errors()


def test_a_node_is_run_from_a_file(start: Any, tmp_path: Path) -> None:
    """What is set up once would have to be typed every time."""
    key, wrong = tmp_path / "node.key", tmp_path / "wrong.key"
    assert main(["doctor", "key", "--out", str(key)]) == main(["doctor", "key", "--out", str(wrong)]) == OK
    file = tmp_path / "ana.toml"
    file.write_text(
        """
        bind = "127.0.0.1:0"
        metrics = "127.0.0.1:0"
        security.key_file = "node.key"
        log = { json = true }
        groups.trip = { order = "total" }
        groups.work = { order = "causal" }
        """
    )
    ana = start("ana", "--config", str(file))
    address = ana.hears(event="started")["address"]
    ana.hears(event="view", group="work")
    ben = start("ben", "--seed", address, "--group", "trip:total", "--key-file", str(key), "--metrics", "0")
    ana.hears(event="view", group="trip", members=["ana", "ben"])
    eve = start("eve", "--seed", address, "--group", "trip:total", "--key-file", str(wrong))
    eve.hears(event="view", members=["eve"])  # nobody answers it, so it founds a group of its own
    assert not any("eve" in line.get("members", ()) for line in ana.told())
    logged = [json.loads(line) for line in ana.errors().splitlines()]
    assert {line["event"] for line in logged} >= {"node.started", "group.joined", "group.view"}
    assert [node.stop() for node in (ben, eve, ana)] == [OK] * 3


def test_a_group_on_a_store_from_flags(start: Any, tmp_path: Path) -> None:
    """Two nodes that have a file in common would need a file of settings each, to be in a group."""
    store = f"sqlite:{tmp_path / 'field.db'}"
    here = ("--bind", "127.0.0.1:0", "--store", store)
    ana = start("ana", *here, "--outbox", str(tmp_path / "ana.outbox"), "--group", "root:store", "--send", "root")
    ana.hears(event="view", group="root", members=["ana"])
    ben = start("ben", *here, "--group", "root:store", "--print")
    ana.hears(event="view", group="root", members=["ana", "ben"])
    ana.say(b"hello\n")
    ben.hears(event="message", group="root", sender="ana", text="hello")


def test_metrics_are_where_they_are_told_to_be(start: Any) -> None:
    """A node that runs as a service would be invisible."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ana = start("ana", "--bind", "127.0.0.1:0", "--group", "trip", "--metrics", str(port))
    ana.hears(event="view", members=["ana"])
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S) as page:
        assert 'antiphon_group_members{node="ana",group="trip"} 1' in page.read().decode()
    assert ana.stop() == OK


def test_lines_that_cannot_be_sent_are_told_and_the_rest_is(start: Any) -> None:
    """One line that is too long would end the sending, silently."""
    ana = start("ana", "--bind", "127.0.0.1:0", "--group", "trip", "--print", "--send", "trip")
    ana.hears(event="view", members=["ana"])
    ana.say(b"a" * (3 << 20) + b"\n")
    ana.say(b"b\n")
    ana.say(b"\n")
    ana.say(b"no line end")
    assert ana.process.stdin is not None
    ana.process.stdin.close()
    ana.hears(event="message", text="no line end")
    assert [line["text"] for line in ana.told() if line["event"] == "message"] == ["b", "", "no line end"]
    assert "1,048,576 bytes was not sent" in ana.errors()
    assert ana.stop() == OK


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("node run", "--group"),
        ("node run --group trip", "--name"),
        ("node run --name a --group trip:sideways", "unordered, fifo"),
        ("node run --name a --group :fifo", "NAME:ORDER with an order"),
        ("node run --name a --group root:store", "the group root needs one"),
        ("node run --name a --group trip --outbox a.outbox", "it keeps what a store does not take"),
        ("node run --name a --group root:store --store paper:field", "an address begins with one of"),
        ("node run --name a --group trip --transport pigeon", "choose udp or tcp"),
        ("node run --name a --group trip --transport tcp --bind here", "host:port"),
        ("node run --name a --group trip --transport tcp --seed here", "host:port"),
        ("node run --name a --group trip --transport tcp --metrics here", "host:port"),
        ("node run --name a --group trip --transport tcp --interface eth0", "where to multicast"),
        ("node run --name a --group trip --send work", "the node is in trip"),
        ("node run --name a --group trip --log-level loud", "DEBUG, INFO"),
        ("node run --name a --group trip --key-file missing.key", "missing.key:1: the key cannot be read"),
        ("node run --name a --group trip --key-file weak.key", "weak.key:1: a key has at least 16"),
        ("node run --name a --group trip --certificate missing.pem", "needs all of"),
        ("node run --name a --group trip --group-key trip", "GROUP=FILE"),
        ("node run --config missing.toml", "missing.toml:1: it cannot be read"),
        ("node run --config wrong.toml", "wrong.toml:2: groups.trip.order"),
        ("node run --name a#b --group trip --transport tcp", "cannot be a name"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(
    line: str, hint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typing mistake would start a node that nobody asked for, or end in a traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weak.key").write_text("secret")
    (tmp_path / "wrong.toml").write_text('name = "a"\ngroups.trip.order = "sideways"\n')
    assert main(line.split()) == UNUSABLE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("antiphon: ")
    assert hint in " ".join(told.err.split())


def test_the_example_file_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed to begin with would not be what the tests have read."""
    assert main(["node", "config"]) == OK
    assert capsys.readouterr().out == EXAMPLE


def test_other_peoples_text_cannot_command_the_terminal() -> None:
    """A message could clear the screen, or write what its reader never said."""
    assert _visible("plain, grüß dich") == "plain, grüß dich"
    assert _visible("a\x1b[2Jb\nc\u202ed\x9b") == r"a\x1b[2Jb\nc\u202ed\x9b"
