"""What one member does in some rounds of a generated play (see `generate`), as a record batch. Runs on the executors."""

from __future__ import annotations

import json
from typing import Any

from antiphon.spark.tables import EVENTS

ROUND_NS = 1_000_000
EPOCH_NS = 1_700_000_000_000_000_000
_OPENING = 3
"""Rows before the first round: open, group, view."""
MARKERS = _OPENING + 1
"""And those after the last: close."""


class Piece:
    """Rounds `first … last` of one member: one row per column entry, made by numpy."""

    def __init__(self, piece: dict[str, Any]) -> None:
        self.run: str = piece["run"]
        self.group: str = f"{piece['name']}-{piece['number']}"
        self.order: str = piece["order"]
        self.n: int = piece["members"]
        self.rounds: int = piece["rounds"]
        self.batch: int = piece["batch"]
        self.chain: bool = bool(piece["chain"])
        self.me: int = piece["member"]
        self.first: int = piece["first"]
        self.last: int = piece["last"]
        self.names: list[str] = [f"m{place}@{self.group}" for place in range(self.n)]

    def rows(self) -> Any:
        import numpy as np
        import pyarrow as pa

        number, kind, sender = self._script()
        count = len(number)
        index = _OPENING + self._rows_before(self.first) + np.arange(count)
        first, position = self._numbers(number, sender)
        mine = kind == 0
        at = number * ROUND_NS + np.where(mine, 0, 1_000) + 1_000
        group = np.full(count, 0, np.int32)
        parts: dict[str, Any] = {
            "run": _words([self.run], group),
            "writer": _words([self.names[self.me]], group),
            "index": index,
            "kind": _words(["send", "receive", "deliver"], kind),
            "at": at,
            "wall": at + EPOCH_NS,
            "hlc": at + EPOCH_NS,
            "group": _words([self.group], group),
            "member": _words([self.names[self.me]], group),
            "view": np.full(count, 1, np.int64),
            "sender": _words(self.names, sender),
            "first": first,
            "last": first + self.batch - 1,
            "position": np.where(kind == 2, position, 0),
            "amount": np.where(mine, self.batch * 100, 0),
            "members": pa.nulls(count, pa.list_(pa.string())),
            "names": self._parents(number, mine),
            "checks": self._checks(kind, sender, first),
            "note": pa.nulls(count, pa.string()),
        }
        body = pa.RecordBatch.from_arrays([pa.array(value) for value in parts.values()], list(parts))
        around = ([self._opening()] if self.first == 0 else []), ([self._closing()] if self.last == self.rounds - 1 else [])
        whole = pa.Table.from_batches([*around[0], body, *around[1]], schema=body.schema).combine_chunks()
        return whole.to_batches()[0]

    def _script(self) -> tuple[Any, Any, Any]:
        """Per row: its round, its kind (0 send, 1 receive, 2 deliver), whose messages."""
        import numpy as np

        rounds = np.arange(self.first, self.last + 1)
        if self.chain:
            mine = rounds % self.n == self.me
            number = np.repeat(rounds, np.where(mine, 3, 2))
            place = np.arange(len(number)) - np.repeat(np.cumsum(np.where(mine, 3, 2)) - np.where(mine, 3, 2), np.where(mine, 3, 2))
            kind = np.where(number % self.n == self.me, place, place + 1).astype(np.int32)
            return number, kind, (number % self.n).astype(np.int32)
        turn = 0 if self.order == "total" else self.me
        order = (np.arange(self.n) + turn) % self.n
        kinds = np.concatenate([[0], np.full(self.n, 1), np.full(self.n, 2)]).astype(np.int32)
        senders = np.concatenate([[self.me], order, order]).astype(np.int32)
        return np.repeat(rounds, 2 * self.n + 1), np.tile(kinds, len(rounds)), np.tile(senders, len(rounds))

    def _rows_before(self, number: int) -> int:
        if not self.chain:
            return number * (2 * self.n + 1)
        own = number // self.n + (1 if number % self.n > self.me else 0)
        return 2 * number + own

    def _numbers(self, number: Any, sender: Any) -> tuple[Any, Any]:
        """The first message of each row's range, and its place in what this member delivers."""
        import numpy as np

        if self.chain:
            return number // self.n + 1, number
        turn = 0 if self.order == "total" else self.me
        return number * self.batch + 1, (number * self.n + (sender - turn) % self.n).astype(np.int64) * self.batch

    def _parents(self, number: Any, mine: Any) -> Any:
        """Of a semantic group: what the first message of each send answers."""
        import numpy as np
        import pyarrow as pa

        child = mine & (number > 0) if self.order == "semantic" else np.zeros(len(number), bool)
        rounds = number[child]
        if self.chain:
            whose, seqno, answered = (rounds - 1) % self.n, rounds // self.n + 1, (rounds - 1) // self.n + 1
        else:
            whose, seqno, answered = (self.me + rounds) % self.n, rounds * self.batch + 1, rounds * self.batch
        names = pa.StructArray.from_arrays(
            [pa.array(seqno, pa.int64()), _words(self.names, whose.astype(np.int32)).cast(pa.string()), pa.array(answered, pa.int64())],
            ["seqno", "sender", "number"],
        )
        offsets = np.concatenate([[0], np.cumsum(child)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), names, mask=pa.array(~child))

    def _checks(self, kind: Any, sender: Any, first: Any) -> Any:
        """Of every message that is sent, and of the last of those that are delivered."""
        import numpy as np
        import pyarrow as pa

        lengths = np.select([kind == 0, kind == 2], [self.batch, 1], 0)
        ends = np.cumsum(lengths)
        begins = np.repeat(np.where(kind == 0, first, first + self.batch - 1), lengths)
        seqno = begins + np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        values = (seqno * 2_654_435_761 + np.repeat(sender, lengths).astype(np.int64) * 40_503) & 0xFFFF_FFFF
        return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]).astype(np.int32)), pa.array(values), mask=pa.array(kind == 1))

    def _opening(self) -> Any:
        about = {"name": self.group, "order": self.order, "multicast": "reliable", "delivery": "agreed", "partitions": "continue"}
        view = json.dumps({"coordinator": self.names[0], "previous": 0})
        return _markers(
            [
                {"kind": "open", "note": json.dumps({"clock": "generated"})},
                {"kind": "group", "note": json.dumps({**about, "wants": "all"}), **self._here()},
                {"kind": "view", "members": self.names, "note": view, **self._here()},
            ],
            {"run": self.run, "writer": self.names[self.me]},
            0,
            0,
        )

    def _closing(self) -> Any:
        index = _OPENING + self._rows_before(self.rounds)
        return _markers([{"kind": "close"}], {"run": self.run, "writer": self.names[self.me]}, index, self.rounds * ROUND_NS)

    def _here(self) -> dict[str, object]:
        return {"group": self.group, "member": self.names[self.me], "view": 1}


def _words(words: list[str], codes: Any) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words)).cast(pa.string())


def _markers(rows: list[dict[str, Any]], common: dict[str, Any], index: int, at: int) -> Any:
    """Rows that come once, with every column."""
    import pyarrow as pa

    numbers = ("view", "first", "last", "position", "amount")
    clocks = {"at": at, "wall": at + EPOCH_NS, "hlc": at + EPOCH_NS}
    whole = [{**dict.fromkeys(numbers, 0), **clocks, **common, **row, "index": index + place} for place, row in enumerate(rows)]
    return pa.RecordBatch.from_pylist(whole, schema=_plain_schema())


def _plain_schema() -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(EVENTS)
