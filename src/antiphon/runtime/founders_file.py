"""The founders of a node's groups, remembered in a small file across restarts.

A group with `partitions="majority"` is founded by a number of nodes together (`GroupOptions.expect`). A node with a directory writes down,
per group name, the group's id and options, and the names in each new view of it. After a restart `join(name, create=True)` takes what it
leaves out from there, and contradicting it is an error: the node would otherwise count another majority than the one it founded the group
with. The names say who may still be in the group: founders that were a minority of it do not found it again while they are cut off.

The file is JSON with a version, written to a temporary file, synced and renamed, so it is whole at any time. Keeps at most
`GROUPS_LIMIT` groups, the latest, in at most `BYTES_LIMIT` bytes. Costs a synced write for every view with other names than the last.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from antiphon.errors import BadFile, InvalidOption
from antiphon.model.ids import GroupId
from antiphon.model.options import GroupOptions

VERSION = 1
GROUPS_LIMIT = 1_024
BYTES_LIMIT = 4 << 20


class FoundedGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """What is remembered of one group."""

    id: GroupId
    options: GroupOptions
    members: tuple[str, ...] = ()
    """The names in the last view that the node was in, in join order."""


class _Content(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    groups: dict[str, FoundedGroup]


class FoundersFile:
    def __init__(self, directory: str | os.PathLike[str], node: str) -> None:
        """Nodes may share a directory: each has a file of its own."""
        self.path = Path(directory) / f"{quote(node, safe='')}.founders.json"
        self._groups: dict[str, FoundedGroup] = {}

    def open(self) -> None:
        """Read the file if there is one, and make the directory. Raises BadFile if the file is damaged or the directory cannot be
        written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._groups = self._read()
            self._write()
        except OSError as error:
            raise BadFile(str(self.path), 1, f"it cannot be read or written ({error.strerror}): give the node another directory") from None

    def complete(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a join, with remembered values for the group options that are left out. Raises InvalidOption if one that
        is given contradicts what is remembered."""
        known = self._groups.get(name)
        if known is None:
            return dict(options)
        remembered = msgspec.structs.asdict(known.options)
        given = {field: value for field, value in options.items() if field in remembered}
        wanted = {**remembered, **given, "expect": given.get("expect") or remembered["expect"]}
        if given.get("partitions", "majority") == "majority":
            wanted = msgspec.structs.asdict(GroupOptions(**wanted))
        for field, value in given.items():
            if wanted[field] != remembered[field]:
                why = f"this node was in {name} with {field}={remembered[field]!r}: write that, or remove {self.path} to found it anew"
                raise InvalidOption(field, value, why)
        return {**options, **wanted}

    def members(self) -> dict[str, tuple[str, ...]]:
        """Return the names in the last view of each group that this node was in, by group name."""
        return {name: group.members for name, group in self._groups.items()}

    def remember(self, name: str, id: GroupId, options: GroupOptions, members: tuple[str, ...]) -> bool:
        """Write down a group that this node is in, and the names in its view; return whether that succeeded."""
        group = FoundedGroup(id, options, members)
        if self._groups.get(name) == group:
            return True
        self._groups.pop(name, None)
        self._groups[name] = group
        while len(self._groups) > GROUPS_LIMIT or (len(self._groups) > 1 and len(self._encoded()) > BYTES_LIMIT):
            del self._groups[next(iter(self._groups))]
        try:
            self._write()
        except OSError:
            return False
        return True

    def _read(self) -> dict[str, FoundedGroup]:
        try:
            with self.path.open("rb") as file:
                raw = file.read(BYTES_LIMIT + 1)
        except FileNotFoundError:
            return {}
        remedy = "restore it, or remove it and give expect= again"
        if len(raw) > BYTES_LIMIT:
            raise BadFile(str(self.path), 1, f"it has more than {BYTES_LIMIT:,} bytes and was not written by a node: {remedy}")
        try:
            content = msgspec.json.decode(raw, type=_Content)
        except (msgspec.MsgspecError, InvalidOption, UnicodeDecodeError) as error:
            raise BadFile(str(self.path), 1, f"it is damaged ({error}): {remedy}") from None
        if content.version != VERSION:
            raise BadFile(str(self.path), 1, f"it is of version {content.version}, and this node reads version {VERSION}: {remedy}")
        return content.groups

    def _write(self) -> None:
        data = self._encoded()
        temporary = self.path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)

    def _encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(_Content(VERSION, self._groups)))
