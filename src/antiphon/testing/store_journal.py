"""What processes that work on a store write down: what they meant to do, what was acknowledged, what they read, how far they are.

A journal is a file of lines, each written with one call to the operating system, so that it survives the process at any point: an event
that is in it has happened, and the last line may be torn. The oracle (`store_oracle.py`) judges a store by the journals of all.

Values say whose they are: `payload(publisher, number, size)` is checked byte by byte when it is read.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple
from zlib import crc32

import msgspec

from antiphon.store.records import Moment, Value


class Event(msgspec.Struct, tag=True, frozen=True, kw_only=True):
    topic: str
    name: str
    """Of the publisher, subscriber or collector."""


class Began(Event, frozen=True, kw_only=True):
    """A process began to work on the topic, at this time of the store."""

    time: Moment


class Intended(Event, frozen=True, kw_only=True):
    """Is about to publish its own numbers `first … last`."""

    first: int
    last: int


class Acknowledged(Event, frozen=True, kw_only=True):
    """They are in the store, at `seq_first … seq_last` (0: the store did not say where)."""

    first: int
    last: int
    seq_first: int = 0
    seq_last: int = 0


class Erased(Event, frozen=True, kw_only=True):
    seqs: list[int]


class Subscribed(Event, frozen=True, kw_only=True):
    """Reads on after `position`, with what it has made of everything before; `anew` where it begins there."""

    position: int
    lease: Moment
    count: int
    digest: int
    anew: bool


class Seen(NamedTuple):
    """A value as it was read; one whose bytes are not what its publisher wrote has no publisher."""

    seq: int
    time: Moment
    publisher: str
    number: int


class Read(Event, frozen=True, kw_only=True):
    values: list[Seen]


class Missed(Event, frozen=True, kw_only=True):
    """The store said, by not giving them, that `first … last` are gone; at this time, with this floor."""

    first: int
    last: int
    floor: int
    time: Moment


class Done(Event, frozen=True, kw_only=True):
    """The continuation is in the store: done up to `position`, after `count` values with this digest."""

    position: int
    count: int
    digest: int


class Collected(Event, frozen=True, kw_only=True):
    floor: int
    removed: int


AnyEvent = Began | Intended | Acknowledged | Erased | Subscribed | Read | Missed | Done | Collected

_decoder = msgspec.json.Decoder(AnyEvent)


class Journal:
    """Appends events to a file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(self._file, b"\n\n")  # an empty line begins a life, after whatever the one before left torn

    def write(self, event: AnyEvent) -> None:
        line = msgspec.json.encode(event) + b"\n"
        if os.write(self._file, line) != len(line):
            raise OSError("the journal could not be written: the disk is full, and what follows would be judged by a torn page")

    def close(self) -> None:
        os.close(self._file)


def read_journal(path: Path) -> list[AnyEvent]:
    """The events in the order in which they were written; of a line that was torn by a kill nothing."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    events: list[AnyEvent] = []
    for number, (line, following) in enumerate(pairwise([*lines, b""]), 1):
        try:
            if line:
                events.append(_decoder.decode(line))
        except msgspec.DecodeError as error:
            if following:
                raise ValueError(f"{path}:{number} is no event of a journal: {error}") from error
    return events


def payload(publisher: str, number: int, size: int) -> bytes:
    """`size` bytes or a few more, which are the same whoever writes them."""
    head = f"{publisher}\n{number}\n".encode()
    return head + Random(f"{publisher}/{number}").randbytes(max(0, size - len(head)))


def seen(value: Value) -> Seen:
    data = bytes(value.data)
    try:
        publisher, number, _ = data.split(b"\n", 2)
        if payload(publisher.decode(), int(number), len(data)) == data:
            return Seen(value.seq, value.time, publisher.decode(), int(number))
    except ValueError:
        pass
    return Seen(value.seq, value.time, "", 0)


def digest(before: int, value: Seen) -> int:
    """What a subscriber makes of a value: another one, or another order, gives another digest."""
    return crc32(f"{value.seq}:{value.publisher}/{value.number}".encode(), before)
