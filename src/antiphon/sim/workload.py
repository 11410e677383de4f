"""A random conversation from a seed: who sends when, and who answers whom.

Members send bursts at random moments. Some messages answer one that their sender has delivered, some follow two or more, some
follow what their sender has just sent, and some are sent in the very moment something is delivered, as a program that reacts
does. Payloads are small; a few are larger than a frame. A send that is refused for want of credit, or meant for a time when its
member is paused, waits, in order, and goes out when the member is told that it may, or goes on.

Keeps the last messages each member delivered (`MEMORY`), and what was refused: at most the messages that were planned.
"""

from __future__ import annotations

import random
from collections import deque
from functools import partial

from antiphon.errors import WouldBlock
from antiphon.model.ids import MessageId
from antiphon.sim.view_world import ViewWorld

MEMORY = 32
"""How many of the messages it delivered last a member may answer."""
BURST_LIMIT = 8


class Workload:
    def __init__(
        self,
        world: ViewWorld,
        seed: int,
        *,
        messages: int,
        span_s: float,
        answers: float = 0.4,
        several: float = 0.1,
        reactions: float = 0.2,
        large: float = 0.0,
        own: float = 0.0,
        names_limit: int = 3,
    ) -> None:
        """Plans `messages` within `span_s` from now. The shares: of messages that answer one, of answers that name several (at most
        `names_limit`), of all messages that are sent at a delivery, of payloads larger than a frame, and of messages that
        follow the one their sender sent before."""
        self.world = world
        self.sent = self.refused = 0
        self._rng = random.Random(f"{seed}/workload")
        self._answers, self._several, self._large = answers, several, large
        self._own, self._names_limit = own, names_limit
        self._heard_by_name: dict[str, deque[MessageId]] = {name: deque(maxlen=MEMORY) for name in world.names}
        self._waiting_by_name: dict[str, deque[bytes]] = {name: deque() for name in world.names}
        self._last_by_name: dict[str, MessageId] = {}
        self._reactions_left = 0
        self._reaction_share = reactions
        self.plan(messages, span_s)
        for name in world.names:
            world.on_deliver(name, partial(self._listen, name))
            world.on_writable(name, partial(self._retry, name))

    @property
    def waiting(self) -> int:
        """Messages of living members that were refused and not sent yet."""
        return sum(len(waiting) for name, waiting in self._waiting_by_name.items() if self.world.alive(name))

    def plan(self, messages: int, span_s: float) -> None:
        """Plans so many more messages within `span_s` from now."""
        self._reactions_left = int(messages * self._reaction_share)
        messages -= self._reactions_left
        rng, world = self._rng, self.world
        while messages > 0:
            burst = min(messages, rng.choice((1, 1, 1, 2, 3, BURST_LIMIT)))
            messages -= burst
            name = rng.choice(world.names)
            world.at(world.now + rng.uniform(0.0, span_s), partial(self.say, name, burst))

    def say(self, name: str, count: int = 1) -> None:
        """Lets a member send `count` messages now, or when it is no longer paused; with 0, what waits."""
        if self.world.alive(name):
            self._waiting_by_name[name].extend(self._payload(name) for _ in range(count))
            self._retry(name)

    def begin_anew(self, name: str) -> None:
        """The member has restarted: it knows nothing of what its predecessor heard, sent or had to say."""
        self._heard_by_name[name].clear()
        self._waiting_by_name[name].clear()
        self._last_by_name.pop(name, None)

    def stop(self) -> None:
        """Ends the reactions, so that the conversation can end."""
        self._reactions_left = 0

    def _listen(self, name: str, message: MessageId, payload: bytes, reply_to: MessageId | None) -> None:
        self._heard_by_name[name].append(message)
        if self._reactions_left > 0 and self._rng.random() < self._reaction_share:
            self._reactions_left -= 1
            self.say(name)

    def _payload(self, name: str) -> bytes:
        size = self._rng.randint(0, 40)
        if self._large and self._rng.random() < self._large:
            size = self.world.settings.frame_bytes * self._rng.randint(1, 4)
        return name.encode() + self._rng.randbytes(size)

    def _retry(self, name: str) -> None:
        waiting = self._waiting_by_name[name]
        while waiting and not self.world.paused(name):
            names = self._names(name)
            answers = names and self._rng.random() < 0.8
            try:
                message = self.world.send(name, waiting[0], names[0] if answers else None, names[1:] if answers else names)
            except WouldBlock:
                self.refused += 1
                return
            waiting.popleft()
            self._last_by_name[name] = message
            self.sent += 1

    def _names(self, name: str) -> tuple[MessageId, ...]:
        heard, rng = self._heard_by_name[name], self._rng
        own = (self._last_by_name[name],) if self._own and name in self._last_by_name and rng.random() < self._own else ()
        if not heard or rng.random() >= self._answers:
            return own
        count = rng.randint(2, self._names_limit) if rng.random() < self._several else 1
        return own + tuple(rng.sample(heard, min(count, len(heard))))
