"""The chat line by line: in this process, and as the command that people run."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from time import monotonic
from typing import Any

import pytest

from antiphon.apps.chat.console import COMMANDS, Console, reader, typed

_WAIT_S = 60.0
_TOGETHER = "ben came|here with ben|are one group"
"""What ana prints when she is in one group with ben, whoever of the two founded it."""


class Script:
    """A console whose input the test writes, and whose output it reads."""

    def __init__(self, lobby: Any, until: Any) -> None:
        self.printed: list[str] = []
        self._until = until
        self.console = Console(lobby, self.printed.append)

    async def do(self, line: str) -> None:
        async def one() -> AsyncIterator[str]:
            yield line

        await self.console.run(one(), None)

    async def prints(self, pattern: str) -> str:
        """Waits for a line like this, and returns it."""
        found: list[str] = []
        await self._until(
            lambda: found.extend(line for line in self.printed if re.search(pattern, line)) or found,
            f"{pattern!r} is printed",
            lambda: "\n".join(self.printed),
        )
        return found[0]


async def test_a_conversation_line_by_line(chats: Any, until: Any) -> None:
    """A script could not take part: it could not say which line it answers, or see which line was answered."""
    async with chats("ana", "ben") as town:
        ana, ben = Script(town["ana"], until), Script(town["ben"], until)
        await ana.do("/join trip")
        assert ana.printed[-1].startswith("* "), "a group that nobody has founded cannot be joined"
        await ana.do("/create trip")
        await ana.prints("alone so far")
        await ben.do("/join trip")
        await ana.prints("ben came")
        await ana.do("Did you visit Delhi?")
        question = await ben.prints("ana: Did you visit Delhi")
        await ben.do(f"/answer {question.split()[0]} Yes")
        await ana.prints("^2 ben answers 1: Yes$")
        await ana.do("//members is a command")
        await ben.prints("ana: /members is a command")
        await ben.do("/members")
        await ben.prints(r"^\* here: ana, ben$")
        await ben.do("/create music")
        await ben.do("/groups")
        await ben.prints("group music: 1 there, you are here")
        await ben.prints("group trip: 2 there, joined")
        await ana.do("hello there")
        await ben.prints(r"^\(trip\) \d+ ana: hello there$")
        await ben.do("/leave")
        await ben.prints("you left music")
        await ben.do("in trip again")
        await ana.prints("ben: in trip again")
        await ben.do("/leave")
        await ana.prints("ben left")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("hello", "you are in no group"),
        ("/answer", r"there is no line \?"),
        ("/answer 99 yes", "there is no line 99"),
        ("/answer ½ yes", "there is no line ½"),
        ("/dance", "there is no command /dance"),
        ("/create a#b", "cannot be a name"),
        ("/create", "cannot be a name"),
        ("/reject nothing", "there is no group nothing to reject"),
        ("/leave", "you are in no group"),
        ("/join nowhere", "cannot join nowhere"),
    ],
)
async def test_what_cannot_be_done_is_explained(chats: Any, until: Any, line: str, complaint: str) -> None:
    """A script that makes a mistake would end the chat, or go on without knowing."""
    async with chats("ana") as town:
        ana = Script(town["ana"], until)
        await ana.do(line)
        await ana.prints(complaint)


async def test_help_names_every_command_and_every_command_works(chats: Any, until: Any) -> None:
    """Help would promise what there is not."""
    async with chats("ana") as town:
        ana = Script(town["ana"], until)
        await ana.do("/create trip")
        await ana.do("/why")
        await ana.prints("nothing waits")
        await ana.do("/help")
        for command in COMMANDS:
            await ana.prints(f"^. {command} ")
            await ana.do(command)
        assert not any("there is no command" in line for line in ana.printed)


async def test_reading_ends_with_the_input_and_keeps_a_bound() -> None:
    """A file of a million lines would be read into memory at once, or a script would never come to its end."""
    asked = 0
    held = threading.Event()

    def read() -> str:
        nonlocal asked
        asked += 1
        if asked > 20:
            held.set()
        return f"{asked}\n" if asked <= 200 else ""

    reading = typed(read, limit=10)
    assert await anext(reading) == "1\n"
    await asyncio.sleep(0.2)
    assert not held.is_set(), "it reads no further ahead than it may"
    assert [line async for line in reading][-1] == "200\n"


def test_lines_are_read_whole_and_endless_ones_in_pieces() -> None:
    """A file without line ends would fill the memory, or the last line of a file would be lost."""
    source, sink = os.pipe()
    os.write(sink, "one\n\ntwo é".encode() + b"\xff\n" + b"x" * 25 + b"\nend")
    os.close(sink)
    read = reader(source, limit=10)
    assert list(iter(read, "")) == ["one\n", "\n", "two é\ufffd\n", "x" * 10, "x" * 10, "x" * 5 + "\n", "end"]
    os.close(source)


class Process:
    """`antiphon chat` as a process of its own."""

    def __init__(self, *arguments: str) -> None:
        program = "import sys; from antiphon.cli.main import main; sys.exit(main())"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, "chat", "--transport", "tcp", "--bind", "127.0.0.1:0", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.printed: list[str] = []
        self._lines: Queue[str] = Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def prints(self, pattern: str) -> str:
        deadline = monotonic() + _WAIT_S
        while monotonic() < deadline:
            found = next((line for line in self.printed if re.search(pattern, line)), None)
            if found is not None:
                return found
            try:
                self.printed.append(self._lines.get(timeout=0.2))
            except Empty:
                assert self.process.poll() is None or not self._lines.empty(), f"it has ended without {pattern!r}: {self.printed}"
        raise AssertionError(f"{pattern!r} was not printed: {self.printed}")

    @property
    def address(self) -> str:
        return self.prints(r" at \S+;").partition(" at ")[2].partition(";")[0]


@contextmanager
def processes(*arguments: tuple[str, ...]) -> Iterator[list[Process]]:
    running: list[Process] = []
    try:
        for each in arguments:
            seeds = ("--seed", running[0].address) if running else ()
            running.append(Process(*each, *seeds))
        yield running
    finally:
        for each in running:
            each.process.kill()
            each.process.wait(_WAIT_S)


def test_two_processes_talk_over_tcp() -> None:
    """The command would not do what its help says: two terminals of one machine would not find each other."""
    with processes(("--name", "ana", "--group", "trip"), ("--name", "ben", "--group", "trip")) as (ana, ben):
        ana.prints(_TOGETHER)
        ana.say("Did you visit Delhi?")
        number = ben.prints("ana: Did you visit Delhi").split()[0]
        ben.say(f"/answer {number} Yes")
        ana.prints("ben answers 1: Yes")
        ben.say("/quit")
        assert ben.process.wait(_WAIT_S) == 0
        ana.prints("ben left")
        assert ana.process.stdin is not None
        ana.say("alone again")
        ana.process.stdin.close()
        ana.prints("ana: alone again")
        assert ana.process.wait(_WAIT_S) == 0


def test_a_process_that_is_told_to_go_leaves() -> None:
    """The others would have to find out by themselves that somebody's machine was shut down."""
    with processes(("--name", "ana", "--group", "trip"), ("--name", "ben", "--group", "trip")) as (ana, ben):
        ana.prints(_TOGETHER)
        ben.process.terminate()
        assert ben.process.wait(_WAIT_S) == 0
        ana.prints("ben left")


def test_who_has_no_key_hears_nothing(tmp_path: Path) -> None:
    """A chat that is meant to be private would be open to everybody who knows an address."""
    key = tmp_path / "key"
    key.write_text("vY3rT0pG-dk2_Qx9LmZbN7uW1sHcE5aJ\n")
    keyed = ("--group", "trip", "--key-file", str(key))
    with processes(("--name", "ana", *keyed), ("--name", "eve", "--group", "trip"), ("--name", "ben", *keyed)) as (ana, eve, ben):
        ana.prints(_TOGETHER)
        eve.prints("alone so far")
        ana.say("the secret")
        ben.prints("ana: the secret")
        eve.say("/groups")
        eve.prints("group trip: 1 there, you are here")
        assert not any("secret" in line or "ben" in line for line in eve.printed)


def test_the_program_in_the_document_takes_part(tmp_path: Path) -> None:
    """Whoever copies the example would get something that does not work."""
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with processes(("--name", "ana", "--group", "trip")) as (ana,):
        script = tmp_path / "clerk.py"
        script.write_text(program.replace("127.0.0.1:4000", ana.address), encoding="utf-8")
        clerk = subprocess.Popen([sys.executable, str(script)])
        try:
            ana.prints("clerk came|here with clerk|are one group")
            ana.say("Who is here?")
            ana.prints("clerk answers 1: Here are ana, clerk")
        finally:
            clerk.kill()
            clerk.wait(_WAIT_S)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--transport", "pigeon"), "choose udp or tcp"),
        (("--name", "a#b"), "cannot be a name"),
        (("--key-file", "nowhere.key"), "nowhere.key"),
        (("--bind", "nonsense"), "nonsense"),
    ],
)
def test_a_command_that_cannot_work_says_why(arguments: tuple[str, ...], complaint: str) -> None:
    """The user would see a traceback, or nothing."""
    process = Process(*arguments)
    assert process.process.stdin is not None
    process.process.stdin.close()
    process.prints(complaint)
    assert process.process.wait(_WAIT_S) == 2
    assert not any("Traceback" in line for line in process.printed)
