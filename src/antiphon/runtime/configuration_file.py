"""A node's configuration in a TOML file.

The whole file is checked before anything is opened: a key that does not exist, a value of the wrong kind, an option that cannot work is
one `BadFile` with the file, the line and what to write instead. Paths in the file are relative to it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from antiphon.errors import BadFile, InvalidOption
from antiphon.model.options import Settings
from antiphon.runtime.configuration import Log, Membership, NodeConfiguration, Security

_FILE_LIMIT = 1 << 20
_PATH = re.compile(r" - at `(?P<path>[^`]*)`$")
_INDEX = re.compile(r"\[[^\]]*\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<field>.*)`$")

T = TypeVar("T")


def read(path: Path) -> NodeConfiguration:
    """The configuration in a file. Raises BadFile."""
    try:
        with path.open("rb") as file:
            raw = file.read(_FILE_LIMIT + 1)
    except OSError as error:
        raise BadFile(str(path), 1, f"it cannot be read ({error.strerror}): `antiphon node config` prints one to begin with") from None
    if len(raw) > _FILE_LIMIT:
        raise BadFile(str(path), 1, f"it has more than {_FILE_LIMIT:,} bytes, so it is no configuration")
    try:
        text = raw.decode()
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise BadFile(str(path), raw.count(b"\n", 0, error.start) + 1, "it is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        line = int(found[1]) if found else text.count("\n") + 1
        raise BadFile(str(path), line, f"it is not TOML: {str(error).partition(' (at ')[0]}") from None
    return _Reader(path, text).configuration(table)


class _Reader:
    """Turns a parsed file into a configuration, part by part, so that every complaint knows its place."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def configuration(self, table: dict[str, Any]) -> NodeConfiguration:
        # An option's complaint about itself does not say where it is. So what has options is read on its own first.
        groups = table.get("groups", {})
        if isinstance(groups, dict):
            for name, group in groups.items():
                self._read(Membership, group, ("groups", name))
        for key, kind in (("settings", _Settings), ("security", Security), ("log", Log)):
            if key in table:
                self._read(kind, table[key], (key,))
        configuration = self._read(NodeConfiguration, table, ())
        security = configuration.security
        beside: dict[str, Any] = {
            "store": self._store_beside(configuration.store),
            "outbox": self._beside(configuration.outbox),
            "trace": self._beside(configuration.trace),
            "directory": self._beside(configuration.directory),
            "security": msgspec.structs.replace(
                security,
                **{field: self._beside(getattr(security, field)) for field in ("key_file", "certificate", "private_key", "authority")},
                groups={group: self._beside(path) for group, path in security.groups.items()},
            ),
        }
        return msgspec.structs.replace(configuration, **beside)

    def _beside(self, path: str) -> str:
        return str(self._path.parent / path) if path else ""

    def _store_beside(self, address: str) -> str:
        """A store in a file is beside this one too, unless its path is absolute."""
        scheme, _, path = address.partition(":")
        return f"{scheme}:{self._beside(path)}" if scheme == "sqlite" and path else address

    def _read(self, kind: type[T], value: Any, where: tuple[str, ...]) -> T:
        try:
            return msgspec.convert(value, kind)
        except InvalidOption as error:
            place = (*where, error.option)
            raise BadFile(str(self._path), _line_of(self._text, place), f"{'.'.join(place)} = {error.value!r}: {error.why}") from None
        except msgspec.ValidationError as error:
            sentence, inside = _place(str(error))
            place = (*where, *inside)
            unknown = _UNKNOWN.match(sentence)
            if unknown:
                place = (*place, unknown["field"])
                sentence = f"there is no such key{_near(unknown['field'], kind, inside)}"
            raise BadFile(str(self._path), _line_of(self._text, place), f"{'.'.join(place) or 'the file'}: {sentence}") from None


class _Settings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings, without unknown ones."""


def _place(sentence: str) -> tuple[str, tuple[str, ...]]:
    """A complaint of msgspec's without the place, and the place: `$.groups[...].order` is ("groups", "order")."""
    found = _PATH.search(sentence)
    if found is None:
        return sentence, ()
    keys = _INDEX.sub("", found["path"]).removeprefix("$").split(".")
    return sentence[: found.start()], tuple(key for key in keys if key)


def _near(field: str, kind: Any, inside: tuple[str, ...]) -> str:
    fields = kind.__struct_fields__ if not inside else ()
    near = difflib.get_close_matches(field, fields, 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(fields)}" if fields else ""


def _line_of(text: str, path: tuple[str, ...]) -> int:
    """The line of a key, or of the innermost table around it that has one."""
    best_line, best_depth, table = 1, 0, tuple[str, ...]()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = here = _keys(stripped)
        else:
            key, mark, _ = stripped.partition("=")
            here = (*table, *_keys(f"{key} = 0")) if mark and not stripped.startswith("#") else ()
        depth = len(here)
        if here and here == path[:depth] and depth > best_depth:
            best_line, best_depth = number, depth
    return best_line


def _keys(line: str) -> tuple[str, ...]:
    """`[a."b c"]` and `a."b c" = 0` are ("a", "b c")."""
    try:
        value: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    keys: list[str] = []
    while isinstance(value, Mapping) and len(value) == 1:
        ((key, value),) = value.items()
        keys.append(key)
    return tuple(keys)
