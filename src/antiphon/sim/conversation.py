"""Real conversations: who said what, in answer to what.

A conversation is JSON lines, gzipped or not. Each line is an object with `id`, `author`, `parents` (the ids it answers, most
important first) and `text`; other fields, such as `time`, are ignored. File order is the order in which the lines arrived.

    {"id": "12", "author": "femi", "parents": ["9", "11"], "text": "Hugo is right about the lag."}

Promised: what `load` returns is closed. Every parent is an earlier line of the same conversation, so it can be replayed by
answering only what has been read. What does not fit is left out and counted, never guessed: a line whose author is null (servers
write such lines) is skipped, and a parent that is not an earlier line (unknown, later, the line itself, or skipped) is dropped.
A file that is not this format is refused with the number of the line. Limits: `FILE_BYTES`, `LINES` and `LINE_BYTES`, all after
unpacking. Cost: one pass, 7 µs a line; the whole conversation is in memory.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import IO, Annotated

import msgspec
from msgspec import Meta, Struct

from antiphon.errors import BadFile, InvalidOption

FILE_BYTES = 256 << 20
LINES = 1_000_000
LINE_BYTES = 64 << 10
_GZIP_MAGIC = b"\x1f\x8b"

Name = Annotated[str, Meta(min_length=1, max_length=256)]


class Line(Struct, frozen=True):
    """One message. The first parent is what it answers, the others are what it also comes after."""

    id: str
    author: str
    parents: tuple[str, ...]
    text: str


class Conversation(Struct, frozen=True):
    """Lines in the order of their arrival. `skipped` counts lines without an author, `dropped_parents` links that led nowhere."""

    name: str
    lines: tuple[Line, ...]
    skipped: int = 0
    dropped_parents: int = 0

    @property
    def authors(self) -> tuple[str, ...]:
        """Everyone who says something, in the order of first appearance."""
        return tuple(dict.fromkeys(line.author for line in self.lines))

    def seats(self, members: int) -> dict[str, int]:
        """Which of `members` members speaks for each author: round robin by first appearance, so the load is even."""
        if members < 1:
            raise InvalidOption("members", members, "a conversation needs at least one member to speak for its authors")
        return {author: place % members for place, author in enumerate(self.authors)}

    def part(self, start: int, stop: int) -> Conversation:
        """Lines `start … stop - 1`; links to lines before `start` are dropped and counted."""
        if not 0 <= start < stop:
            raise InvalidOption("part", f"{start}:{stop}", "a part starts at 0 or later and stops after its start")
        kept: dict[str, Line] = {}
        dropped = self.dropped_parents
        for line in self.lines[start:stop]:
            inside = tuple(parent for parent in line.parents if parent in kept)
            dropped += len(line.parents) - len(inside)
            kept[line.id] = line if len(inside) == len(line.parents) else Line(line.id, line.author, inside, line.text)
        return Conversation(self.name, tuple(kept.values()), self.skipped, dropped)


def load(path: str | Path, limit: int | None = None) -> Conversation:
    """Reads a conversation from a file, at most its first `limit` lines that have an author."""
    file = Path(path)
    try:
        with file.open("rb") as raw:
            packed = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    return _parse(unpacked, file.name, limit)
            return _parse(raw, file.name, limit)
    except OSError as error:
        # gzip.BadGzipFile is an OSError as well; both say what is wrong with the file as a whole.
        why = f"it cannot be read ({error.strerror or error}); give a file of JSON lines, plain or gzipped"
        raise InvalidOption("conversation", str(path), why) from None


def shipped() -> Conversation:
    """The project's own conversation: eight singers plan a concert in the mountains, in 120 lines and a dozen threads."""
    with (resources.files("antiphon.sim") / "data" / "choir.jsonl").open("rb") as raw:
        return _parse(raw, "choir.jsonl", None)


class _Row(Struct):
    """A line of the file, as far as we look at it."""

    id: Name
    author: Name | None
    parents: Annotated[list[Name], Meta(max_length=256)]
    text: str


_decode = msgspec.json.Decoder(_Row).decode


def _parse(source: IO[bytes] | gzip.GzipFile, name: str, limit: int | None) -> Conversation:
    if limit is not None and limit < 1:
        raise InvalidOption("limit", limit, "take at least one line, or leave the limit out to take all")
    lines: list[Line] = []
    known: set[str] = set()
    spoken: set[str] = set()
    skipped = dropped = 0
    for number, text in _numbered(source, name):
        if not text.strip():
            continue
        try:
            row = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadFile(name, number, f"{error}; a line is an object with id, author, parents and text") from None
        if row.id in known:
            raise BadFile(name, number, f"the id {row.id!r} was used before; every line needs its own")
        known.add(row.id)
        if row.author is None:
            skipped += 1
            continue
        parents = tuple(dict.fromkeys(parent for parent in row.parents if parent in spoken))
        dropped += len(set(row.parents)) - len(parents)
        spoken.add(row.id)
        lines.append(Line(row.id, row.author, parents, row.text))
        if limit is not None and len(lines) == limit:
            break
    if not lines:
        raise InvalidOption("conversation", name, "no line in it has an author; nothing could be replayed")
    return Conversation(name, tuple(lines), skipped, dropped)


def _numbered(source: IO[bytes] | gzip.GzipFile, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers. Reads at most a line beyond a limit, so a packed file cannot unpack into all memory."""
    number = size = 0
    while True:
        try:
            text = source.readline(LINE_BYTES + 1)
        except (EOFError, zlib.error) as error:
            raise BadFile(name, number + 1, f"the gzip data is damaged here ({error}); fetch the file again") from None
        if not text:
            return
        number += 1
        size += len(text)
        if len(text) > LINE_BYTES:
            raise BadFile(name, number, f"the line has more than {LINE_BYTES:,} bytes; shorten it")
        if number > LINES or size > FILE_BYTES:
            raise BadFile(name, number, f"a conversation may have {LINES:,} lines and {FILE_BYTES:,} bytes; split the file")
        yield number, text
