"""A node's recording: its recorder, and the thread that writes files of it."""

from __future__ import annotations

import os
import socket
from importlib import metadata
from random import SystemRandom

from antiphon.errors import InvalidOption
from antiphon.model.ids import new_member_id
from antiphon.trace.recorder import Recorder
from antiphon.trace.trace import Trace
from antiphon.trace.writer import Writer


class Recording:
    """Begins with `start`; `end` closes the trace without waiting, `wait` waits until it is on the disk."""

    def __init__(self, trace: Trace, name: str) -> None:
        about: dict[str, object] = {"version": _version(), "host": socket.gethostname(), "process": os.getpid(), "clock": "system"}
        self.recorder: Recorder = trace.recorder(about)
        self._directory, self._name = trace.path, name
        self._writer = Writer(
            self.recorder, trace.path, rotate_s=trace.rotate_s, rotate_rows=trace.rotate_rows, rotate_bytes=trace.rotate_bytes
        )

    def start(self) -> None:
        """Raises InvalidOption where nothing can be written."""
        try:
            self._writer.start()
            self.recorder.begin(new_member_id(self._name, SystemRandom()))
        except OSError as error:
            raise InvalidOption("trace", str(self._directory), f"no trace can be written there: {error}") from error

    def end(self) -> None:
        self.recorder.close()
        self._writer.stop()

    def wait(self, timeout: float) -> bool:
        """Whether all was written within `timeout` seconds."""
        return self._writer.close(timeout)

    def stats(self) -> dict[str, object]:
        return self._writer.stats()


def _version() -> str:
    try:
        return metadata.version("antiphon")
    except metadata.PackageNotFoundError:
        return "unknown"
