"""A server that some peers need: started on a free loopback port, waited for until it answers, and always killed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import structs

from antiphon.bench.processes import BenchFailed
from antiphon.bench.work import Work

_START_S = 20.0
_KILLED_S = 10.0
_OUTPUT_SHOWN = 1_000


def free_port() -> int:
    """A port that nobody uses now. The server takes it a moment later; who else takes it meanwhile makes the server fail, loudly."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def program(name: str) -> str | None:
    """A program beside this Python or on the PATH."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name)


@contextmanager
def serving(work: Work, command: Callable[[int, str], Sequence[str]]) -> Iterator[Work]:
    """Runs the server whose command line is `command(port, folder)`, the folder being its own for the run, and yields the work with its
    address."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder, tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(command(port, folder), stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder)
        try:
            if not _answers(process, port):
                output.seek(0)
                told = output.read()[-_OUTPUT_SHOWN:].strip()
                raise BenchFailed(f"the server of {work.system} did not start within {_START_S:.0f} s", told)
            yield structs.replace(work, address=f"127.0.0.1:{port}", server_pid=process.pid)
        finally:
            process.kill()
            process.wait(_KILLED_S)


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    give_up_at = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < give_up_at:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False
