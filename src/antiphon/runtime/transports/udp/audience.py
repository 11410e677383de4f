"""Who hears whose multicasts.

The nodes that a wire is for are an **audience**: the sender gives the set a random number and calls it by multicast now and then
(`RollCall`, which lists it). Who is listed remembers the number and answers by unicast (`Present`). From then on a multicast that names
the number reaches it, and whoever does not know the number drops it. An answer counts for `HEARD_S`, so the sender multicasts to those
who do hear it and sends the others their own copies, and both are true of this network now, in this direction, whatever it was before.

Two ways to be wrong, and what they cost. A node that stops hearing (its switch forgot it, it moved) misses multicasts for at most
`HEARD_S`; the protocol above asks for them again, by unicast. A node that starts anew at the same address within that time has forgotten
the numbers; the next call, after at most `CALL_S`, tells it. The numbers cannot be guessed, so who is not on the network cannot answer
for another; who is on it could already forge any datagram.

Calls are made only while there is something to send: an unused audience costs nothing. While nobody answers, calls become rare.
"""

from __future__ import annotations

import random
from collections import OrderedDict

from antiphon.model.ids import Address

CALL_FIRST_S, CALL_S, CALL_MAX_S = 0.1, 1.0, 30.0
"""The interval of calls: at first, while somebody answers, and while nobody does."""
HEARD_S = 3.5
"""How long an answer counts: three calls may be lost."""
AUDIENCES = 256
"""Audiences that a node speaks to by multicast; wires for others go by unicast until one of these is no longer used."""
SPEAKERS = 1_024
"""Senders whose audiences are remembered; the longest unused one is forgotten."""


class Audiences:
    """The sender's side: which audiences there are, and who of each hears."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._by_members: dict[frozenset[Address], Audience] = {}
        self._by_tuple: dict[tuple[Address, ...], Audience] = {}
        """The same again as callers spell them: groups with the same members share an audience, in whichever order they name it."""
        self._by_number: dict[int, Audience] = {}

    def of(self, now: float, to: tuple[Address, ...]) -> Audience | None:
        """The audience of these nodes; None when too many others are in use."""
        audience = self._by_tuple.get(to)
        if audience is None:
            members = frozenset(to)
            audience = self._by_members.get(members)
            if audience is None:
                if len(self._by_members) >= AUDIENCES and not self._forget_unused(now):
                    return None
                number = self._new_number()
                audience = self._by_members[members] = self._by_number[number] = Audience(number, tuple(sorted(members)))
            if len(self._by_tuple) >= 4 * AUDIENCES:
                self._by_tuple.clear()
            self._by_tuple[to] = audience
        audience.used_at = now
        return audience

    def heard(self, now: float, number: int, member: Address) -> bool:
        """A node says that it is of an audience and hears; False if it is not."""
        audience = self._by_number.get(number)
        return audience is not None and audience.heard(now, member)

    def silence(self) -> None:
        """Multicast has failed: nobody counts as hearing until it has answered again."""
        for audience in self._by_number.values():
            audience.silence()

    def stats(self, now: float) -> dict[str, object]:
        hearing = {member for audience in self._by_number.values() for member, until in audience.heard_until.items() if until > now}
        return {"audiences": len(self._by_number), "hearing": len(hearing)}

    def _forget_unused(self, now: float) -> bool:
        unused = [audience for audience in self._by_number.values() if now - audience.used_at > HEARD_S]
        for audience in unused:
            del self._by_number[audience.number], self._by_members[frozenset(audience.members)]
        if unused:
            self._by_tuple.clear()
        return bool(unused)

    def _new_number(self) -> int:
        while True:
            number = self._rng.randrange(1, 1 << 32)
            if number not in self._by_number:
                return number


class Audience:
    __slots__ = ("all_until", "call_at", "heard_until", "interval_s", "members", "number", "used_at")

    def __init__(self, number: int, members: tuple[Address, ...]) -> None:
        self.number, self.members = number, members
        self.used_at = 0.0
        self.silence()

    def silence(self) -> None:
        self.heard_until = dict.fromkeys(self.members, 0.0)
        self.all_until = 0.0
        self.call_at, self.interval_s = 0.0, CALL_FIRST_S

    def heard(self, now: float, member: Address) -> bool:
        if member not in self.heard_until:
            return False
        self.heard_until[member] = now + HEARD_S
        self.all_until = min(self.heard_until.values())
        self.call_at = min(self.call_at, now + CALL_S)
        return True

    def hearing(self, now: float) -> int:
        """How many hear."""
        if self.all_until > now:
            return len(self.members)
        return sum(until > now for until in self.heard_until.values())

    def deaf(self, now: float) -> tuple[Address, ...]:
        """Those that need a copy of their own."""
        if self.all_until > now:
            return ()
        return tuple(member for member, until in self.heard_until.items() if until <= now)

    def is_call_due(self, now: float) -> bool:
        """Whether the audience should be called now; the next call is planned as if it were."""
        if now < self.call_at:
            return False
        self.call_at = now + self.interval_s
        self.interval_s = min(2 * self.interval_s, CALL_S if self.hearing(now) else CALL_MAX_S)
        return True


class Invitations:
    """The receiver's side: which numbers of which senders mean this node."""

    def __init__(self) -> None:
        self._numbers_by_speaker: OrderedDict[Address, dict[int, None]] = OrderedDict()

    def accept(self, speaker: Address, number: int) -> None:
        numbers = self._numbers_by_speaker.setdefault(speaker, {})
        self._numbers_by_speaker.move_to_end(speaker)
        numbers.pop(number, None)
        numbers[number] = None
        if len(numbers) > AUDIENCES:
            del numbers[next(iter(numbers))]
        if len(self._numbers_by_speaker) > SPEAKERS:
            self._numbers_by_speaker.popitem(last=False)

    def include(self, speaker: Address, number: int) -> bool:
        """Whether a multicast to this audience is for this node."""
        numbers = self._numbers_by_speaker.get(speaker)
        if numbers is None or number not in numbers:
            return False
        self._numbers_by_speaker.move_to_end(speaker)
        return True
