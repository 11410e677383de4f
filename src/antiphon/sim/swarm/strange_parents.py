"""Messages that answer or follow what does not exist in the group: ids of other groups, of members that are gone, of numbers never sent.

A correct node may refuse such a message with UnknownParent. Then it goes without strange parents, or, half of the time, as a faulty node
would send it: the frame arrives at the others, and all of them must deliver it, marked as an orphan.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from antiphon.errors import UnknownParent
from antiphon.model.ids import MemberId, MessageId
from antiphon.sim.log import Sent
from antiphon.sim.node_world import NodeWorld

NEVER_SENT = 10_000
"""Numbers from here on do not occur in a run."""
CLASSES = ("other_group", "never_sent", "own_future", "gone_never_sent", "gone")


class StrangeParents:
    def __init__(self, world: NodeWorld, group: str, seed: int, share: float, *, existing: bool) -> None:
        """`existing`: also messages of members that are gone which their new sender may not have delivered. Only an order that waits for
        parents alone promises anything about those."""
        self._world, self._group, self._share, self._existing = world, group, share, existing
        self._rng = random.Random(f"{seed}/strange-parents")
        self.sent: Counter[str] = Counter()
        """Messages that were accepted, by the class of their strange parent."""
        self.refused: Counter[str] = Counter()

    def send(self, name: str, payload: bytes, others: Sequence[MessageId]) -> bool:
        """Perhaps sends a message with a strange parent beside `others`; whether it did. Raises what a send without it would raise, too."""
        rng = self._rng
        if rng.random() >= self._share:
            return False
        kind, parent = self._choose(name)
        answers = rng.random() < 0.7
        names = (parent, *others) if rng.random() < 0.5 else (*others, parent)
        reply_to, after = (names[0], names[1:]) if answers else (None, names)
        try:
            self._world.send(name, payload, reply_to, after, group=self._group)
        except UnknownParent:
            self.refused[kind] += 1
            if rng.random() < 0.5:
                return False
            self._world.send(name, payload, reply_to, after, group=self._group, unchecked=True)
        self.sent[kind] += 1
        return True

    def _choose(self, name: str) -> tuple[str, MessageId]:
        rng, membership = self._rng, self._world.member(name, self._group)
        here = () if membership.view is None else membership.view.members
        gone = [log for log in self._world.logs_of(self._group) if log.member not in here]
        classes = [kind for kind in CLASSES if (gone or not kind.startswith("gone")) and (self._existing or kind != "gone")]
        kind = rng.choice(classes)
        if kind == "other_group":
            return kind, MessageId(MemberId(f"z#{rng.getrandbits(64):016x}"), rng.randint(1, 5))
        if kind == "own_future":
            return kind, MessageId(membership.me, NEVER_SENT + rng.randint(0, 9))
        if kind == "never_sent":
            return kind, MessageId(rng.choice(here or (membership.me,)), NEVER_SENT + rng.randint(0, 9))
        log = rng.choice(gone)
        sent = [event.id for event in log.events if type(event) is Sent]
        if kind == "gone" and sent:
            return kind, rng.choice(sent)
        return "gone_never_sent", MessageId(log.member, NEVER_SENT + rng.randint(0, 9))
