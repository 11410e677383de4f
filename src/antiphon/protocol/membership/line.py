"""The line between two members: private messages from one to the other, in order, once.

What goes out is numbered for the life of the two member ids, whatever views come and go; a message that is too large for a frame takes
several numbers, its own is the last. At most `WINDOW` frames are under way; what is not acknowledged is sent again after `retry_s`, then
twice as late each time. What comes in is taken in order, and what is ahead of its time is held: at most `WINDOW` frames.

When a receiver drops out of the view, what it had not acknowledged is abandoned. If it comes back (two sides have merged), numbers go on
after the abandoned ones, and `floor` tells it not to wait for them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from antiphon.model.control import Private, Tone
from antiphon.model.frames import MESSAGE_LIMIT
from antiphon.model.ids import MemberId
from antiphon.protocol.membership.port import Port
from antiphon.protocol.timers import Timer

WINDOW = 64
"""Frames that may be ahead of what the receiver has taken."""
_AGAIN = 16
"""Frames sent again at a time."""
RETRY_MAX_S = 2.0
_HEADER_BYTES = 96
"""More than a frame's fields take beside its ids and data."""


class Letter(NamedTuple):
    """A message on its way."""

    number: int
    size: int
    kind: Tone
    question: int


class Outgoing:
    def __init__(self, port: Port, to: MemberId, last: int) -> None:
        """`last` is the last number that was used before."""
        self._port, self._to = port, to
        self.last = self.acknowledged = self._sent = last
        self._floor = last + 1
        self.letters: deque[Letter] = deque()
        """What was accepted and is not acknowledged."""
        self._frames: deque[Private] = deque()
        """Their frames: number `acknowledged + 1` and so on."""
        self._room = max(port.settings.frame_bytes - _HEADER_BYTES - len(port.me.encode()) - len(to.encode()) - len(port.group.encode()), 1)
        self._wait_s = port.settings.retry_s
        self._timer: Timer | None = None
        self._seen = last
        """What was acknowledged when the timer was set."""

    def add(self, view: int, after: int, data: bytes, kind: Tone, question: int) -> int:
        """Takes a message and puts it on its way; returns its number."""
        me, to, group, room, floor = self._port.me, self._to, self._port.group, self._room, self._floor
        for low in range(0, max(len(data), 1), room):
            self.last += 1
            more = low + room < len(data)
            self._frames.append(Private(group, me, to, view, self.last, after, data[low : low + room], kind, question, floor, more))
        self.letters.append(Letter(self.last, len(data), kind, question))
        self._send()
        return self.last

    def acknowledge(self, number: int) -> list[Letter]:
        """The receiver has everything up to `number`; returns the messages that are done with."""
        while self._frames and self._frames[0].number <= number:
            self._frames.popleft()
        self.acknowledged = max(self.acknowledged, number)
        self._sent = max(self._sent, number)
        done: list[Letter] = []
        while self.letters and self.letters[0].number <= number:
            done.append(self.letters.popleft())
        self._send()
        return done

    def abandon(self) -> list[Letter]:
        """The receiver is gone: returns what it had not acknowledged, and is silent."""
        lost = list(self.letters)
        self.letters.clear()
        self._frames.clear()
        if self._timer is not None:
            self._timer.cancel()
        return lost

    def _send(self, window: int = WINDOW) -> None:
        for frame in islice(self._frames, self._sent - self.acknowledged, window):
            self._port.send((self._to,), frame)
            self._sent = frame.number
        if self._frames and self._timer is None:
            self._seen = self.acknowledged
            self._timer = self._port.call_in(self._wait_s, self._wait_is_over)

    def _wait_is_over(self) -> None:
        self._timer = None
        if self.acknowledged > self._seen:
            self._wait_s = self._port.settings.retry_s
            self._send()
        else:
            self._wait_s = min(2 * self._wait_s, RETRY_MAX_S)
            # What follows those sent now may be lost as well: it goes again as they are acknowledged.
            self._sent = self.acknowledged
            self._send(_AGAIN)


class Incoming:
    def __init__(self, taken: int, drops: Counter[str], begun: bytes | None = b"") -> None:
        """Go on after number `taken`, with the `begun` part of the message that comes next; None if that is too long to be kept."""
        self.taken = taken
        """Up to which number everything was taken, or will never come."""
        self.excused = 0
        """Up to which of the sender's group messages nobody waits any more."""
        self._drops = drops
        self._held: dict[int, Private] = {}
        self._begun = bytearray(begun or b"")
        """The message whose last frame has not been taken."""
        self._overlong = begun is None

    @property
    def begun(self) -> bytes | None:
        """The part of a message whose last frame has not been taken; None if it is too long to be kept."""
        return None if self._overlong else bytes(self._begun)

    @property
    def head(self) -> Private | None:
        """The frame that is next, if it is here."""
        return self._held.get(self.taken + 1)

    @property
    def latest(self) -> int:
        """The last group message that a held frame waits for."""
        return max((frame.after for frame in self._held.values()), default=0)

    def receive(self, frame: Private) -> None:
        """Holds a frame until its turn."""
        if frame.floor > self.taken + 1:
            # What was begun and not finished has been abandoned.
            self.taken = frame.floor - 1
            self._held = {number: held for number, held in self._held.items() if number > self.taken}
            self._begun, self._overlong = bytearray(), False
        if frame.number <= self.taken or frame.number in self._held:
            self._drops["duplicate_private"] += 1
        elif frame.number > self.taken + WINDOW:
            self._drops["early_private"] += 1
        else:
            self._held[frame.number] = frame

    def take(self, ready: Callable[[Private], bool]) -> Iterator[tuple[Private, bytes]]:
        """The messages whose turn it is, each as its last frame and its whole data."""
        while (frame := self.head) is not None and ready(frame):
            del self._held[frame.number]
            self.taken = frame.number
            # No member accepts a message that is longer; from one that does it is not kept.
            self._overlong = self._overlong or len(self._begun) + len(frame.data) > MESSAGE_LIMIT
            if self._overlong:
                self._begun.clear()
            else:
                self._begun += frame.data
            if frame.more:
                continue
            data, overlong = bytes(self._begun), self._overlong
            self._begun, self._overlong = bytearray(), False
            if overlong:
                self._drops["overlong_private"] += 1
            else:
                yield frame, data
