"""The parent of a benchmark: starts one process per member, lets them meet, collects their tallies, and leaves none behind.

`Crew` is a context manager: whatever happens inside, every process is dead afterwards. A member that fails or falls silent ends the
run with a BenchFailed that carries the end of what it wrote to stderr.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO, Any

import msgspec

from antiphon.bench.seat import MARK
from antiphon.bench.work import Tally, Work
from antiphon.errors import WorldError

_STDERR_SHOWN = 2_000
_KILLED_S = 10.0
_TRACED_S = 15.0


class BenchFailed(WorldError):
    """A system could not do the work. The message ends with the last line that its process wrote, `output` is more of it."""

    def __init__(self, sentence: str, output: str = "") -> None:
        super().__init__(f"{sentence}: {output.splitlines()[-1]}" if output else sentence)
        self.output = output


class Crew:
    """The members of one run. `command(member)` gives the command line of each; without it they are Python processes of this package.
    After `limit_s`, the work's own without it, the run has failed."""

    def __init__(self, work: Work, command: Callable[[int], Sequence[str]] | None = None, limit_s: float | None = None) -> None:
        self.work = work
        self._limit_s = work.limit_s if limit_s is None else limit_s
        self._command = command or self._python
        self._members: list[subprocess.Popen[str]] = []
        self._stderrs: list[IO[str]] = []
        self._readers: list[threading.Thread] = []
        self._lines: queue.Queue[tuple[int, str | None]] = queue.Queue()

    def __enter__(self) -> Crew:
        try:
            for member in range(self.work.members):
                stderr = tempfile.TemporaryFile("w+", errors="replace")
                self._stderrs.append(stderr)
                pipe = subprocess.PIPE
                process = subprocess.Popen(self._command(member), stdin=pipe, stdout=pipe, stderr=stderr, text=True, errors="replace")
                self._members.append(process)
                reader = threading.Thread(target=self._read, args=(member, process), daemon=True)
                self._readers.append(reader)
                reader.start()
        except OSError as error:
            self.__exit__(None, None, None)
            raise BenchFailed(f"a process of {self.work.system} could not be started: {error}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # Whoever records closes its trace before it ends.
        self._end(_TRACED_S if self.work.trace and kind is None else 0.0)
        for stderr in self._stderrs:
            stderr.close()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._members]

    def tallies(self, every_s: float = 60.0, look: Callable[[list[int]], None] | None = None) -> list[Tally]:
        """Runs the work to its end. Meanwhile `look` is called with the pids every so often, from the first meeting on."""
        said: dict[int, Any] = {}
        tallies: dict[int, Tally] = {}
        give_up_at = time.monotonic() + self._limit_s
        look_at = float("inf")
        while len(tallies) < self.work.members:
            now = time.monotonic()
            if look is not None and now >= look_at:
                look_at += every_s
                look(self.pids)
            if now >= give_up_at:
                silent = sorted(set(range(self.work.members)) - tallies.keys() - said.keys())
                raise self._failure(silent[0] if silent else 0, f"did not finish within {self._limit_s:g} s")
            with contextlib.suppress(queue.Empty):
                member, line = self._lines.get(timeout=min(give_up_at, look_at) - now)
                if line is None:
                    if member not in tallies:
                        raise self._failure(member, "ended early")
                    continue
                told = _decoded(line)
                if "tally" in told:
                    tallies[member] = msgspec.convert(told["tally"], Tally)
                elif "meet" in told:
                    said[member] = told["meet"]
            if len(said) == self.work.members:
                self._answer([said[member] for member in range(self.work.members)])
                said.clear()
                look_at = min(look_at, time.monotonic()) if look is not None else look_at
        return [tallies[member] for member in range(self.work.members)]

    def _answer(self, values: list[Any]) -> None:
        line = msgspec.json.encode(values).decode() + "\n"
        for process in self._members:
            assert process.stdin is not None
            with contextlib.suppress(OSError):  # that it has ended is seen on its stdout
                process.stdin.write(line)
                process.stdin.flush()

    def _python(self, member: int) -> list[str]:
        return [sys.executable, "-m", "antiphon.bench.seat", msgspec.json.encode(self.work).decode(), str(member)]

    def _read(self, member: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(MARK):
                self._lines.put((member, line[len(MARK) :]))
        self._lines.put((member, None))

    def _failure(self, member: int, what: str) -> BenchFailed:
        self._end()
        stderr = self._stderrs[member]
        stderr.seek(0)
        told = stderr.read()[-_STDERR_SHOWN:].strip()
        return BenchFailed(f"member {member} {what}", told)

    def _end(self, grace_s: float = 0.0) -> None:
        give_up_at = time.monotonic() + grace_s
        for process in self._members:
            with contextlib.suppress(subprocess.TimeoutExpired):
                if grace_s:
                    process.wait(max(give_up_at - time.monotonic(), 0.0))
        for process in self._members:
            process.kill()
        for process in self._members:
            process.wait(_KILLED_S)
        for reader in self._readers:
            reader.join(_KILLED_S)
        for process in self._members:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError, ValueError):
                        pipe.close()


def _decoded(line: str) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return {}
    return told if isinstance(told, dict) else {}
