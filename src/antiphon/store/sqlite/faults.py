"""What SQLite complains about, in the words of `antiphon.errors`."""

from __future__ import annotations

import sqlite3

from antiphon.errors import AntiphonError, BadStore, InvalidName, InvalidOption, StoreFull, StoreUnreachable

_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
_DAMAGED = "SQLite says that it is damaged or no database ({}); restore it from a copy, or name another file"
_BAD = {
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
    "SQLITE_FORMAT": _DAMAGED,
    "SQLITE_READONLY": "this user may not write to it ({}); change its permissions, or name another file",
    "SQLITE_CANTOPEN": "it cannot be opened ({}); see whether this user may write to the file and to its directory",
    "SQLITE_PERM": "this user may not use it ({}); change its permissions",
    "SQLITE_ERROR": "it does not have the tables it should have ({}); restore it from a copy, or name another file",
}


class Damaged(Exception):
    """What was read cannot be, though SQLite did not complain."""


def told(error: Exception, url: str) -> Exception:
    """The error to raise in the place of this one."""
    if isinstance(error, AntiphonError):
        return error
    if isinstance(error, FileNotFoundError):
        return BadStore(url, "the file was removed while it was opened; open it again")
    if isinstance(error, UnicodeEncodeError):
        return InvalidName(error.object, "it cannot be written as UTF-8")
    if isinstance(error, OverflowError):
        return InvalidOption("number", "too large", "numbers, positions and leases have at most 63 bits")
    if isinstance(error, Damaged):
        return BadStore(url, _DAMAGED.format(error))
    if not isinstance(error, sqlite3.Error):
        return error
    name = _primary(error)
    if name == "SQLITE_FULL":
        return StoreFull(url, str(error))
    if name in _BAD:
        return BadStore(url, _BAD[name].format(error))
    if name in _BUSY:
        return StoreUnreachable(url, "another process has kept it locked for too long")
    if isinstance(error, sqlite3.OperationalError):  # a disk that fails, memory that is short, a call that was interrupted
        return StoreUnreachable(url, str(error))
    return error


def is_full(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and _primary(error) == "SQLITE_FULL"


def is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and _primary(error) in _BUSY


def _primary(error: sqlite3.Error) -> str:
    """The name of the primary result code: SQLITE_READONLY_DBMOVED is a SQLITE_READONLY. Empty where the module itself raised it."""
    return "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
