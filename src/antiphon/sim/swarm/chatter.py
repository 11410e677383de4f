"""What nodes say to each other during a run: to the group, in answer to what they heard, and now and then to one member alone.

A node whose group does not take its message now (a view is changing, the window is full, there is no majority) keeps it and tries
again when it is told that it may, and after every change of the view. What a node has yet to say is forgotten when it crashes, or is
somebody new. Every payload is another one, so that what arrives can be told from what was sent.

A share of the messages may answer ids that do not exist in the group (`strange_parents`). A node's ordering may refuse such a message; then
it is sent without them, or as a faulty node would send it, unchecked.

Keeps the last messages each node delivered (`MEMORY`), and what was refused: at most the messages that were planned.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from functools import partial

from antiphon.errors import UnknownParent, WorldError
from antiphon.model.events import Departed, Event, Installed
from antiphon.model.ids import GroupId, MemberId, MessageId, name_of
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.swarm.strange_parents import StrangeParents

MEMORY = 16
"""How many of the messages it delivered last a node may answer."""
GROUP = "g"


class Chatter:
    def __init__(
        self,
        world: NodeWorld,
        seed: int,
        *,
        messages: int,
        private: int,
        span_s: float,
        large: float = 0.0,
        strange: StrangeParents | None = None,
    ) -> None:
        """Plans `messages` to the group and `private` ones to single members within `span_s` from now; a share of `large` is larger than
        a frame. `strange` lets some of them name messages that do not exist."""
        self.world, self._strange = world, strange
        self.sent_by_name: Counter[str] = Counter()
        self.sent = self.refused = 0
        self._rng = rng = random.Random(f"{seed}/chatter")
        self._large = large
        self._counter = 0
        self._heard_by_name: dict[str, deque[MessageId]] = {name: deque(maxlen=MEMORY) for name in world.names}
        self._waiting_by_name: dict[str, deque[bytes]] = {name: deque() for name in world.names}
        self._reactions_left = messages // 5
        for name in world.names:
            world.on_deliver(name, partial(self._listen, name))
            world.on_writable(name, partial(self._retry, name))
            world.on_event(name, partial(self._on_event, name))
        for _ in range(messages - self._reactions_left):
            world.at(world.now + rng.uniform(0.0, span_s), partial(self.say, rng.choice(world.names), rng.choice((1, 1, 2))))
        for _ in range(private):
            world.at(world.now + rng.uniform(0.0, span_s), partial(self._whisper, *rng.sample(world.names, 2)))

    @property
    def waiting(self) -> dict[str, int]:
        """Messages of members that were refused and not sent yet, by name."""
        return {name: len(waiting) for name, waiting in self._waiting_by_name.items() if waiting and self._is_in(name)}

    def say(self, name: str, count: int = 1) -> None:
        """Lets a member send `count` messages now, or when it can."""
        if self._is_in(name):
            self._waiting_by_name[name].extend(self._payload(name) for _ in range(count))
            self._retry(name)

    def begin_anew(self, name: str) -> None:
        """The node is somebody new: it knows nothing of what its predecessor heard or had to say."""
        self._heard_by_name[name].clear()
        self._waiting_by_name[name].clear()

    def forget(self, name: str) -> None:
        """The node does not say any more what it has not been able to say yet."""
        self._waiting_by_name[name].clear()

    def stop(self) -> None:
        """Ends the reactions, so that the conversation can end."""
        self._reactions_left = 0

    def _is_in(self, name: str) -> bool:
        return self.world.is_member(name, GROUP)

    def _listen(self, name: str, message: MessageId, payload: bytes, reply_to: MessageId | None) -> None:
        self._heard_by_name[name].append(message)
        if self._reactions_left > 0 and self._rng.random() < 0.2:
            self._reactions_left -= 1
            self.say(name)

    def _on_event(self, name: str, group: GroupId | None, event: Event) -> None:
        if group is not None and name_of(group) != GROUP:
            return
        if type(event) is Departed:
            self.begin_anew(name)
        elif type(event) is Installed:
            self._retry(name)

    def _payload(self, name: str) -> bytes:
        self._counter += 1
        size = self._rng.randint(0, 40)
        if self._large and self._rng.random() < self._large:
            size = self.world.settings.frame_bytes * self._rng.randint(1, 3)
        return f"{name} {self._counter} ".encode() + self._rng.randbytes(size)

    def _retry(self, name: str) -> None:
        waiting, rng = self._waiting_by_name[name], self._rng
        while waiting and self._is_in(name) and not self.world.paused(name):
            heard = self._heard_by_name[name]
            names = tuple(rng.sample(heard, min(len(heard), rng.choice((1, 1, 1, 2))))) if heard and rng.random() < 0.4 else ()
            answers = names and rng.random() < 0.8
            try:
                if self._strange is None or not self._strange.send(name, waiting[0], names):
                    self._send(name, waiting[0], names[0] if answers else None, names[1:] if answers else names)
            except WorldError:
                self.refused += 1
                return
            waiting.popleft()
            self.sent += 1
            self.sent_by_name[name] += 1

    def _send(self, name: str, payload: bytes, reply_to: MessageId | None, after: tuple[MessageId, ...]) -> None:
        try:
            self.world.send(name, payload, reply_to, after, group=GROUP)
        except UnknownParent:
            # Where frames are corrupted, what a node heard may not exist.
            self.world.send(name, payload, group=GROUP)

    def _whisper(self, name: str, to: str) -> None:
        if not self._is_in(name) or self.world.paused(name):
            return
        view = self.world.view_of(name, GROUP)
        receiver = next((member for member in view.members if member.startswith(f"{to}#")), None) if view is not None else None
        if receiver is not None:
            try:
                self.world.send_to(name, MemberId(receiver), self._payload(name), group=GROUP)
            except WorldError:
                self.refused += 1
