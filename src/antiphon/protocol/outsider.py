"""Somebody who sends to an open group without being in it.

Messages are numbered and handed to one member at a time, one batch under way, so that what piles up meanwhile leaves together. A batch
that is not answered is sent again after `retry_s`, then twice as late each time; after `TRIES` the next contact gets it.

Promises: what is accepted is handed over in order, each message to at least one member (`taken` says how far); or else `GuestRefused`
says that it is over: the group takes nothing from outside, or no contact answered for `GIVE_UP_S`. At the group's members each message
is delivered at most once. An outsider receives nothing of what the group says.

Keeps at most `private_messages` messages and `window_bytes` bytes. A message must fit into one frame.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence

from antiphon.errors import InvalidOption, JoinFailed, TooLarge, WouldBlock
from antiphon.model.codec import Frame
from antiphon.model.control import GUEST_LIMIT, Guest, Taken
from antiphon.model.events import Event, GuestRefused, Writable
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import Settings
from antiphon.protocol.timers import Timer, Timers

TRIES = 3
RETRY_MAX_S = 2.0
GIVE_UP_S = 30.0
_HEADER_BYTES = 32
"""More than a frame's fields take beside its ids and payloads."""
_PAYLOAD_BYTES = 5
"""What the length of a payload takes at most."""
_FINAL = {
    "closed": "only its members may send to it: join it",
    "too large": "the next message is larger than its members take: split it",
}
"""The refusals that asking another member cannot change."""


class Outsider:
    def __init__(
        self,
        me: MemberId,
        group: GroupId,
        contacts: Sequence[Address],
        *,
        rng: random.Random,
        settings: Settings,
        now: float,
        send: Callable[[tuple[Address, ...], Frame], None],
        tell: Callable[[Event], None],
        timers: Timers,
        drops: Counter[str] | None = None,
    ) -> None:
        """`contacts` are nodes of members; the owner runs `timers`, and may count what is dropped together with others."""
        if not contacts:
            raise JoinFailed(group, "no member of it is known: advertise, or ask a name server")
        self._room = settings.frame_bytes - _HEADER_BYTES - len(me.encode()) - len(group.encode())
        if self._room < _HEADER_BYTES:
            least = settings.frame_bytes - self._room + _HEADER_BYTES
            raise InvalidOption("frame_bytes", settings.frame_bytes, f"these names leave no room for a message: choose {least} or more")
        self.me, self.group = me, group
        self.now = now
        self.taken = 0
        """Up to which number members have taken the messages."""
        self.why_failed = ""
        self.drops: Counter[str] = Counter() if drops is None else drops
        self._settings, self._send, self._tell, self._timers = settings, send, tell, timers
        self._contacts = tuple(contacts)
        # Outsiders begin at different contacts, so that not all of them lean on the group's first member.
        self._contact = rng.randrange(len(self._contacts))
        self._waiting: deque[bytes] = deque()
        """Messages `taken + 1` and so on."""
        self._bytes = 0
        self._refused = False
        self._under_way = 0
        """The last number that was sent."""
        self._tries = 0
        self._wait_s = settings.retry_s
        self._timer: Timer | None = None
        self._heard_at = now

    def submit(self, now: float, payload: bytes) -> int:
        """Accepts a message and returns its number; or raises WouldBlock, JoinFailed or a UsageError and changes nothing."""
        self.now = now
        if self.why_failed:
            raise JoinFailed(self.group, self.why_failed)
        if type(payload) is not bytes:
            raise InvalidOption("data", type(payload).__name__, "payloads are bytes")
        limit = min(self._settings.message_bytes, self._room - _PAYLOAD_BYTES)
        if len(payload) > limit:
            raise TooLarge(len(payload), limit)
        if len(self._waiting) >= self._settings.private_messages or self._bytes >= self._settings.window_bytes:
            self._refused = True
            raise WouldBlock("the members have not taken enough of what was sent before")
        if not self._waiting:
            self._heard_at = now
        self._waiting.append(payload)
        self._bytes += len(payload)
        return self.taken + len(self._waiting)

    def use(self, now: float, contacts: Sequence[Address]) -> None:
        """There is news of where members are. The present contact stays as long as it is one of them."""
        self.now = now
        if not contacts:
            return
        present = self._contacts[self._contact]
        self._contacts = tuple(contacts)
        self._contact = self._contacts.index(present) if present in self._contacts else 0

    def receive_taken(self, now: float, frame: Taken, source: Address) -> None:
        """Takes what a member says of the messages handed to it."""
        self.now = now
        if frame.group != self.group or frame.member != self.me or source not in self._contacts or self.why_failed:
            self.drops["taken_of_stranger"] += 1
            return
        if frame.number > self._under_way:
            self.drops["impossible_receipt"] += 1
            return
        news = frame.number > self.taken
        if news:
            self._heard_at = now
        self._take(frame.number)
        if frame.refused in _FINAL:
            self._fail(_FINAL[frame.refused])
        elif frame.refused:
            self._next_contact(source)
        elif source == self._contacts[self._contact]:
            # It lives. If it took nothing it is busy: the timer asks it again, and it is not given up.
            self._heard_at = now
            self._tries = 0
            if news:
                self._wait_s = self._settings.retry_s
                if self.taken >= self._under_way:
                    self._put()

    def end_turn(self, now: float) -> None:
        """What was accepted in this turn leaves together, unless a batch is under way."""
        self.now = now
        if self._timer is None:
            self._put()

    @property
    def waiting(self) -> int:
        """How many accepted messages no member has taken."""
        return len(self._waiting)

    def _take(self, number: int) -> None:
        while self.taken < number:
            self._bytes -= len(self._waiting.popleft())
            self.taken += 1
        room = len(self._waiting) < self._settings.private_messages and self._bytes < self._settings.window_bytes
        if self._refused and room:
            self._refused = False
            self._tell(Writable())

    def _put(self) -> None:
        """Sends the batch that begins after what was taken, and waits for the answer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        payloads: list[bytes] = []
        free = self._room
        for payload in self._waiting:
            free -= len(payload) + _PAYLOAD_BYTES
            if free < 0 or len(payloads) >= GUEST_LIMIT:
                break
            payloads.append(payload)
        self._under_way = max(self._under_way, self.taken + len(payloads))
        self._send((self._contacts[self._contact],), Guest(self.group, self.me, self.taken + 1, tuple(payloads)))
        when = self.now + self._wait_s
        self._timer = self._timers.at(when, lambda: self._wait_is_over(when))

    def _wait_is_over(self, when: float) -> None:
        self._timer = None
        self.now = max(self.now, when)
        if self.now - self._heard_at >= GIVE_UP_S:
            self._fail(f"no member has answered for {GIVE_UP_S:g} s: look for it again, or join it")
            return
        self._tries += 1
        self._wait_s = min(2 * self._wait_s, RETRY_MAX_S)
        if self._tries >= TRIES:
            self._turn()
        self._put()

    def _next_contact(self, source: Address) -> None:
        """`source` is no member any more. The next one is asked after a pause: all may have gone."""
        if source == self._contacts[self._contact]:
            self._turn()

    def _turn(self) -> None:
        self._contact = (self._contact + 1) % len(self._contacts)
        self._tries = 0
        self._wait_s = self._settings.retry_s

    def _fail(self, why: str) -> None:
        self.why_failed = why
        self._waiting.clear()
        self._bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tell(GuestRefused(self.group, self.taken, why))
