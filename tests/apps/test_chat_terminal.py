"""The chat on real terminals: two processes, each with a pseudo-terminal, typed into like a keyboard."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

_WAIT_S = 90.0
_PROGRAM = "import sys; from antiphon.cli.main import main; sys.exit(main())"


class Terminal:
    """A process on a terminal of 110 × 30, and everything that it has written there."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "chat", "--transport", "tcp", "--bind", "127.0.0.1:0", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            start_new_session=True,
        )
        os.close(slave)
        self.written = ""
        # Always read: a terminal that nobody reads would hold the process up, and the others would take it for dead.
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def shows(self, pattern: str) -> str:
        """Waits until this was written, and returns what of it is in brackets."""
        deadline = monotonic() + _WAIT_S
        while monotonic() < deadline:
            found = re.search(pattern, _without_escapes(self.written))
            if found is not None:
                return found[found.lastindex or 0]
            if not self._reading.is_alive():
                break
            sleep(0.05)
        raise AssertionError(f"{pattern!r} was not shown: {_without_escapes(self.written)[-3_000:]}")

    def ends(self) -> int:
        """Waits for its end, and for the last of what it wrote."""
        code = self.process.wait(_WAIT_S)
        self._reading.join(_WAIT_S)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait(_WAIT_S)
        self._reading.join(_WAIT_S)
        os.close(self._master)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            try:
                data = os.read(self._master, 65_536)
            except OSError:
                return  # the other end is closed
            if not data:
                return
            self.written += decoder.decode(data)


def _without_escapes(text: str) -> str:
    return re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[PX^_].*?\x1b\\|.)", "", text)


@contextmanager
def terminals(*names: str) -> Iterator[list[Terminal]]:
    running: list[Terminal] = []
    try:
        for name in names:
            seeds = ("--seed", running[0].shows(r"at tcp (127\.0\.0\.1:\d+)")) if running else ()
            running.append(Terminal("--name", name, "--group", "trip", *seeds))
            running[-1].shows("New thread in trip")
        yield running
    finally:
        for each in running:
            each.close()


def test_two_terminals_talk_and_give_the_terminal_back() -> None:
    """The command would fail where people use it, or leave a terminal behind in which nothing can be typed."""
    with terminals("ana", "ben") as (ana, ben):
        ana.shows("ben came|here with ben|are one group")
        ana.type("Did you visit Delhi?\r")
        ben.shows("Did you visit Delhi")
        ben.type("\x1b[A")
        ben.shows("Answer to ana")
        ben.type("Yes, in spring\r")
        ana.shows("└─ ")
        ana.shows("Yes, in spring")
        ben.type("\x11")
        assert ben.ends() == 0
        assert "\x1b[?1049l" in ben.written, "the screen from before is back"
        assert "Traceback" not in ben.written, _without_escapes(ben.written)[-5_000:]
        ana.shows("ben left")
        ana.process.send_signal(signal.SIGTERM)
        assert ana.ends() == 0
        assert "\x1b[?1049l" in ana.written
