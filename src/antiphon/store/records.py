"""The nouns of durable topics: what is written, what is read, who may write, where a reader is.

All of them are plain values; a back end gives them their place on disk. Times are store time in nanoseconds (`Moment`), which is nobody's
wall clock and never goes back. Numbers of values (`seq`) begin with 1 in every topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from antiphon.errors import InvalidName, InvalidOption, UsageError

Moment = int
"""Store time in nanoseconds."""

Start = int | Literal["earliest", "latest"]
"""Where a new subscriber begins: after this number (0 up to the newest one published), at the oldest value that is still there, or at the
next one to be published."""

SECOND: Moment = 1_000_000_000
NAME_BYTES = 128
KEY_BYTES = 256
SEQ_LIMIT = 1 << 62
LEASE_LIMIT_S = 100 * 365 * 86_400.0


class Entry(NamedTuple):
    """One value to be published; in a mutable topic `key` says which object it is the new value of."""

    data: bytes
    key: str = ""


class Value(Struct, frozen=True, gc=False):
    """One value as it is read. `data` is bytes below the facade and of the topic's type above it. Values come by the thousand, so Python's
    collector is not told of them: it would look at each again and again."""

    seq: int
    time: Moment
    data: Any
    key: str = ""
    place: int = 0
    """The back end's own hint of where the value lies; means nothing to anybody else."""


class Gap(NamedTuple):
    """The values `first … last` are no longer in the store: `collected` because nobody who was subscribed needed them any more, or
    `removed` one by one (by their publisher, or because all who were subscribed had marked them done)."""

    first: int
    last: int
    why: Literal["collected", "removed"]


class Chunk(NamedTuple):
    """What one read found: values in order, and what the reader must know to see what is not there."""

    values: Sequence[Value]
    floor: int
    """Every value up to here has been collected."""
    last: int
    """The newest number published when this was read."""
    time: Moment
    gone: int = 0
    """Of a chunk without values: no number up to here will ever be given, since those that were not have been removed."""


class Grant(NamedTuple):
    """The right to write to a topic. A grant of an earlier epoch is worth nothing: its holder is fenced."""

    topic: str
    publisher: str
    epoch: int
    number: int
    """The publisher's own number of its newest value in the topic; its next must be greater."""
    last: int
    """The newest number published when the grant was given."""


class Receipt(NamedTuple):
    """The values of a publish are `first … last`. `synced`: they survive a loss of power."""

    first: int
    last: int
    synced: bool


class Publication(NamedTuple):
    """Values that a step of an agent publishes: entry k has the publisher's own number `first + k`."""

    grant: Grant
    first: int
    entries: Sequence[Entry]


class Subscriber(Struct, frozen=True, kw_only=True):
    """The continuation: where a subscriber is, and what it has made of what it has read."""

    topic: str
    id: str
    lease: Moment
    position: int
    """Done with everything up to here."""
    marks: tuple[tuple[int, int], ...] = ()
    """Ranges beyond the position that are done one by one; sorted, disjoint, not touching."""
    state: bytes = b""
    epoch: int = 1
    """Raised whenever somebody comes back as this subscriber: who held it before is fenced."""
    place: int = 0
    """The back end's hint of where the position lies."""
    revision: int = 0
    """Of the record in the store: an update states which revision it replaces."""


class TopicOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a topic is, said by whoever writes first, and the same for everybody from then on."""

    shared: bool = False
    """Many may publish; the store alone decides the order. Otherwise one publisher has the topic to itself."""
    mutable: bool = False
    """Values have keys, and a new value of a key replaces the one before. The newest value of a key is never collected."""
    retention_s: float = 7 * 86_400.0
    """How long values are kept while nobody is subscribed."""

    def __post_init__(self) -> None:
        if not 0 <= self.retention_s <= LEASE_LIMIT_S:
            raise InvalidOption("retention_s", self.retention_s, f"say how long values are kept, from 0 to {LEASE_LIMIT_S:.0f} seconds")

    @property
    def retention(self) -> Moment:
        return round(self.retention_s * SECOND)


class TopicInfo(Struct, frozen=True, kw_only=True):
    name: str
    options: TopicOptions
    publisher: str
    """Who has the topic; empty where nobody has, or where it is shared."""
    epoch: int
    floor: int
    last: int
    values: int
    size: int
    """Bytes of data, as near as the back end knows."""


class Record(NamedTuple):
    """A small thing that changes only by compare-and-set: a group, a node of the ring, who runs an agent."""

    key: str
    data: bytes
    revision: int


class Collected(NamedTuple):
    floor: int
    removed: int


def checked_name(name: object, what: str = "topic") -> str:
    """Any text may name a topic, a publisher, a subscriber or a key of a record, in so far as it can be seen and is short."""
    if not isinstance(name, str) or not name:
        raise InvalidName(name, f"a {what} has a name of one character or more")
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES:
        raise InvalidName(name[:40] + "…", f"the name of a {what} has at most {NAME_BYTES} bytes")
    if not name.isprintable() or name != name.strip():
        raise InvalidName(name, f"the name of a {what} is printable and has no spaces around it")
    return name


def checked_lease(lease_s: object) -> Moment:
    """A lease in seconds as store time; refuses what cannot be an age."""
    if isinstance(lease_s, bool) or not isinstance(lease_s, int | float) or not 0 < lease_s <= LEASE_LIMIT_S:
        raise InvalidOption("lease", lease_s, f"a lease is an age in seconds, above 0 and up to {LEASE_LIMIT_S:.0f} (a hundred years)")
    return max(1, round(lease_s * SECOND))


def checked_seq(seq: object) -> int:
    """The number of a value."""
    if isinstance(seq, bool) or not isinstance(seq, int) or seq < 1:
        raise InvalidOption("seq", seq, "the numbers of values begin with 1")
    if seq >= SEQ_LIMIT:
        raise UsageError(f"{seq} is no number of a value")
    return seq


def checked_seqs(seqs: object) -> list[int]:
    """The number of one value, or the numbers of several; sorted, each once."""
    return sorted({checked_seq(seq) for seq in (seqs if isinstance(seqs, Iterable) else (seqs,))})


def start_position(topic: str, start: object, floor: int, last: int) -> int:
    """Return the position of a new subscriber of a topic with this floor and newest number. Raises InvalidOption for a number that has not
    been published yet: the values up to it would be passed over in silence when they come."""
    if start == "earliest":
        return floor
    if start == "latest":
        return last
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        raise InvalidOption("start", start, "choose 'earliest', 'latest', or the number after which to begin")
    if start > last:
        what = (
            f"{last:,} {'value has' if last == 1 else 'values have'} been published in {topic!r}"
            if last
            else f"{topic!r} has no values yet"
        )
        raise InvalidOption("start", start, f"{what}: choose a number up to {last:,}, or 'latest' to begin with the next one")
    return max(start, floor)


def check_keys(topic: str, options: TopicOptions, keyed: bool) -> None:
    """Raises InvalidOption for values with keys in a topic that is not mutable, and for values without in one that is."""
    if keyed and not options.mutable:
        raise InvalidOption(
            "key", "a key", f"{topic!r} is not mutable, so nothing is replaced by key: leave it out, or register(mutable=True) a new topic"
        )
    if not keyed and options.mutable:
        raise InvalidOption("key", "no key", f"{topic!r} is mutable: say with key=… which object each value belongs to")
