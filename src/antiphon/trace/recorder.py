"""The recorder of one writer: rows as tuples, numbered, in a queue that a writer empties.

It promises that rows keep the order in which things happened, and that a row which finds no room is missed: its number is used up and
`dropped` counts it, so the trace shows that something is not there. Recording never waits and never fails.

Keeps at most `limit` rows, and those of one turn more. Cost: about 0.3 µs per row, one row per run of consecutive messages and turn.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeAlias

from antiphon.errors import InvalidOption
from antiphon.model.control import Wants
from antiphon.model.ids import GroupId, MemberId
from antiphon.model.options import GroupOptions
from antiphon.trace.row import Name, Row, Taken
from antiphon.trace.store_transcript import StoreTranscript
from antiphon.trace.transcript import Transcript

Clock: TypeAlias = Callable[[], tuple[int, int]]
"""Tells the monotonic and the wall clock, in nanoseconds."""

ROWS_LIMIT = 100_000


class Recorder:
    def __init__(
        self,
        run: str,
        writer: str,
        clock: Clock,
        *,
        checks: str = "some",
        limit: int = ROWS_LIMIT,
        about: Mapping[str, object] | None = None,
    ) -> None:
        """`checks` says of which messages a checksum is taken: of `some`, as the schema says, or of `each`. `about` is told in the
        trace's first row."""
        if checks not in ("some", "each"):
            raise InvalidOption("checks", checks, "choose 'some', or 'each' for every message")
        if limit < 1:
            raise InvalidOption("limit", limit, "a recorder needs room for at least one row")
        self.run, self.writer, self.clock = run, writer, clock
        self.each, self.limit = checks == "each", limit
        self.rows: deque[Taken] = deque()
        self.index = 0
        """The number of the next row."""
        self.dropped = 0
        """Rows for which there was no room."""
        self.about = dict(about or {})
        self.open = False
        self._transcripts: list[Transcript] = []

    def begin(self, writer: str) -> None:
        """Recording begins, under this name, if it has not."""
        if not self.open:
            self.writer, self.open = writer, True
            self.add("open", note=json.dumps(self.about))

    def transcript(
        self, group: GroupId, member: MemberId, options: GroupOptions, wants: Wants | None, promises: tuple[str, ...]
    ) -> Transcript:
        transcript = Transcript(self, group, member, options, wants, promises)
        self._transcripts.append(transcript)
        return transcript

    def store(self) -> StoreTranscript:
        return StoreTranscript(self)

    def forget(self, transcript: Transcript) -> None:
        """The membership is over."""
        self._transcripts.remove(transcript)

    def close(self) -> None:
        """Recording ends in order."""
        self._end("close")

    def crash(self) -> None:
        """The writer dies here: only a simulator can know."""
        self._end("crash")

    def _end(self, kind: str) -> None:
        if self.open:
            for transcript in self._transcripts:
                transcript.flush()
            self.add(kind)
            self.open = False

    def add(
        self,
        kind: str,
        hlc: int = 0,
        group: str | None = None,
        member: str | None = None,
        view: int = 0,
        sender: str | None = None,
        first: int = 0,
        last: int = 0,
        amount: int = 0,
        position: int = 0,
        members: list[str] | None = None,
        names: list[Name] | None = None,
        checks: list[int] | None = None,
        note: str | None = None,
    ) -> None:
        """Adds a row of any kind. What comes in great numbers is written out in `Transcript.end_turn`."""
        if not self.open:
            return
        at, wall = self.clock()
        number = self.index
        self.index = number + 1
        if len(self.rows) >= self.limit and kind not in ("close", "crash"):
            self.dropped += 1
            return
        numbers = (first, last, position, amount)
        self.rows.append((number, kind, at, wall, hlc or wall, group, member, view, sender, *numbers, members, names, checks, note))

    def whole(self) -> list[Row]:
        """The rows that are in the queue, with every column."""
        run, writer = self.run, self.writer
        return [Row(run, writer, *row) for row in list(self.rows)]
