"""What a benchmark asks of a system, and what each member reports: the same for every system, so that rows can stand side by side.

Three kinds of work, always by `members` processes in one group, after `warmup_s` that does not count:

| kind    | who sends                                | what is measured                                     |
|---------|------------------------------------------|------------------------------------------------------|
| `flood` | every member, as fast as it is let       | deliveries per second, CPU, memory                   |
| `pace`  | `senders` members, `rate` messages/s in all | time from before the send to the delivery at others |
| `idle`  | nobody                                   | CPU                                                  |

Every payload begins with a stamp: who sent it, its number from 1, and the clock of the sending. Sender and number are what is verified;
processes of one machine share the clock.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

KINDS = ("flood", "pace", "idle")
SMALLEST, LARGEST = 16, 1 << 16
"""Sizes of a payload: it has to hold the stamp, and a batch of them a frame."""
MOST_MEMBERS = 64
POOL = 256
"""So many different payloads a flooding sender uses in turn."""
_STAMP = struct.Struct("<HIq")


class Work(Struct, frozen=True, kw_only=True):
    """The work of one run. `system` names who does it; `address` and `server_pid` are its server's, where it has one."""

    system: str
    kind: str = "flood"
    order: str = "total"
    multicast: str = "reliable"
    transport: str = "tcp"
    members: int = 4
    size: int = 100
    seconds: float = 5.0
    warmup_s: float = 1.0
    batch: int = 64
    window: int = 4_096
    """Own messages that a sender may have on their way, where the system itself sets no bound."""
    rate: float = 0.0
    senders: int = 0
    """How many of the members send, the first ones; 0: all."""
    iterate: str = "batches"
    timed: bool = False
    """Whether delays are written down: not in a soak, where they would be the memory that grows."""
    address: str = ""
    server_pid: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    trace: str = ""
    """The directory in which the members record what happens; empty: they do not."""

    @property
    def limit_s(self) -> float:
        """After this a member ends itself, whatever happens."""
        return self.warmup_s + self.seconds + 90.0

    def sends(self, member: int) -> bool:
        return self.kind != "idle" and (not self.senders or member < self.senders)


class Tally(Struct, frozen=True, kw_only=True):
    """What one member saw. Its window is from the end of the warm-up to the last delivery, so that what is still under way when the
    sending ends is waited for and counts neither more nor less than the rest."""

    member: int
    sent: int
    delivered: int
    seconds: float
    deliveries: int
    """Within the window."""
    cpu_s: float
    server_cpu_s: float
    rss_mb: float
    digest: str
    """Of the whole sequence of (sender, number), however it was cut into batches."""
    count_by_sender: list[int]
    complaints: list[str] = []
    delays_us: list[float] = []


class Stamp(NamedTuple):
    sender: int
    number: int
    sent_ns: int


def payload(sender: int, number: int, size: int, sent_ns: int = 0) -> bytes:
    return _STAMP.pack(sender, number, sent_ns).ljust(size, b".")


def stamp_of(data: bytes) -> Stamp:
    return Stamp._make(_STAMP.unpack_from(data))


class Pool:
    """The payloads of a flooding sender that leaves numbering to the system: `POOL` of them in turn, so that making them costs nothing
    and a receiver can still tell whether what came as number n is what was sent as number n."""

    def __init__(self, sender: int, size: int) -> None:
        once = [payload(sender, slot, size) for slot in range(POOL)]
        self._twice = once + once

    def slice(self, first: int, count: int) -> list[bytes]:
        """Payloads `first … first + count - 1`; at most `POOL`."""
        slot = first % POOL
        return self._twice[slot : slot + count]

    def holds(self, number: int, data: bytes) -> bool:
        return self._twice[number % POOL] == data


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, the nearest rank."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
