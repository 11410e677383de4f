"""Where the file is and what was said about it: `sqlite:PATH?max_bytes=…&busy_s=…`, or just the path.

Refuses what can be seen to be wrong before SQLite is asked: a directory, a missing folder, a network file system (whose locks and shared
memory do not hold between machines, so that two writers would destroy the file).
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

from antiphon.errors import BadStore
from antiphon.store.sqlite.mounts import NETWORK, file_system

_LEAST_BYTES = 1 << 20
_BUSY_LIMIT_S = 3_600.0


class SqliteAddress(Struct, frozen=True, kw_only=True):
    url: str
    path: str
    max_bytes: int = 0
    """The file may have this size and no more; 0: as much as the disk has."""
    busy_s: float = 10.0
    """How long a transaction waits for those of other processes."""

    @property
    def wake_directory(self) -> str:
        return self.path + "-wake"

    def check(self) -> None:
        path = Path(self.path)
        try:
            if path.is_dir():
                raise BadStore(self.url, "it is a directory; name a file in it")
            if not path.parent.is_dir():
                raise BadStore(self.url, f"there is no directory {str(path.parent)!r}; make it first")
        except OSError as error:
            raise BadStore(self.url, f"this user may not look there ({error.strerror}); change its permissions") from None
        kind = file_system(os.path.realpath(path.parent))
        if kind in NETWORK:
            raise BadStore(self.url, f"it is on a network file system ({kind}) whose locks do not hold; use a local disk, or a nats: store")


def parse(url: str | os.PathLike[str], max_bytes: int | None = None, busy_s: float | None = None) -> SqliteAddress:
    """Reads an address; the arguments win over what it says."""
    text = os.fspath(url)
    shown = text if text.startswith("sqlite:") else f"sqlite:{text}"
    options: dict[str, str] = {}
    path = text
    if text.startswith("sqlite:"):
        path, _, query = text.removeprefix("sqlite:").partition("?")
        path = unquote(path)
        options = dict(parse_qsl(query, keep_blank_values=True))
    if not path or path == ":memory:" or "\0" in path:
        raise BadStore(shown, "it names no file; say sqlite:PATH, or memory: for a store without a file")
    try:
        room = int(options.pop("max_bytes", "0")) if max_bytes is None else max_bytes
        patience = float(options.pop("busy_s", "10")) if busy_s is None else busy_s
    except ValueError as error:
        raise BadStore(shown, f"max_bytes and busy_s are numbers ({error})") from None
    if options:
        raise BadStore(shown, f"{sorted(options)[0]!r} is not an option of it; there are max_bytes and busy_s")
    if room and room < _LEAST_BYTES:
        raise BadStore(shown, f"max_bytes={room} is too little to work with; give it {_LEAST_BYTES:,} or more, or leave it out")
    if not 0 < patience <= _BUSY_LIMIT_S:
        raise BadStore(shown, f"busy_s={patience} is no time to wait; give it seconds above 0 and up to {_BUSY_LIMIT_S:.0f}")
    if path.startswith("//"):  # as in sqlite:///path
        path = "/" + path.lstrip("/")
    return SqliteAddress(url=shown, path=os.path.abspath(os.path.expanduser(path)), max_bytes=room, busy_s=patience)
