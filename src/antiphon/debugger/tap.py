"""A tap: the place where frames pass, and where rules act on them.

Every frame that passes is shown to the rules in their order; each may drop it, keep it, add to its delay or double it, until none
is left. What passes is handed back with the delay its driver must wait. What is held stays, oldest first, until it is released.

Bound: at most `limit` frames are held; one more that should be held is dropped and counted in `overflow`. A released frame does
not meet the rules again at the same place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from antiphon.debugger.pattern import Pattern, Point
from antiphon.debugger.rule import Rule
from antiphon.errors import BadFrame
from antiphon.model import codec
from antiphon.model.frames import Batch, Fragment
from antiphon.model.ids import Address, MemberId, MessageId, name_of

HELD_LIMIT = 10_000


class Passage(NamedTuple):
    """A frame on its way from one member, or node, to another."""

    source: MemberId | Address
    destination: MemberId | Address
    kind: str
    wire: bytes

    def carries(self, message: MessageId) -> bool:
        """Whether this is a batch, or a fragment, with that message."""
        try:
            frame = codec.decode(self.wire)
        except BadFrame:
            return False
        if isinstance(frame, Batch):
            return frame.sender == message.sender and frame.first <= message.seqno <= frame.last
        return isinstance(frame, Fragment) and frame.sender == message.sender and frame.first == message.seqno


class Held(NamedTuple):
    """A frame that waits, where it was stopped, and the rule that stopped it."""

    point: Point
    passage: Passage
    rule: Rule


class Tap:
    def __init__(self, rules: list[Rule], chance: Callable[[], float], limit: int = HELD_LIMIT) -> None:
        """`rules` is looked at anew for each frame; `chance` draws from 0 to 1."""
        self.rules = rules
        self.held: list[Held] = []
        self.overflow = 0
        self._chance, self._limit = chance, limit

    def passing(self, point: Point, passage: Passage) -> list[tuple[Passage, float]]:
        """What goes on instead of this frame, in this order, and how many seconds later each."""
        source, destination = name_of(passage.source), name_of(passage.destination)
        delays_s = [0.0]
        swapped: list[tuple[Passage, float]] = []
        for rule in self.rules:
            waiting = self._swap_partner(rule, point, passage) if rule.action == "reorder" else None
            if waiting is not None:
                # This is the next frame: it overtakes the one that waits, and is not itself a new one to be overtaken.
                self.held.remove(waiting)
                swapped.append((waiting.passage, 0.0))
            elif rule.acts(point, source, destination, passage.kind, self._chance):
                if rule.action == "drop":
                    return swapped
                if rule.action == "delay":
                    delays_s = [delay_s + rule.delay_s for delay_s in delays_s]
                elif rule.action == "duplicate":
                    delays_s += delays_s
                else:
                    self._hold(Held(point, passage, rule))
                    return swapped
        return [*((passage, delay_s) for delay_s in delays_s), *swapped]

    def release(
        self, pattern: Pattern | None = None, message: MessageId | None = None, count: int | None = None
    ) -> list[tuple[Point, Passage]]:
        """Takes held frames out, oldest first: those that match `pattern` and carry `message`, at most `count`."""
        taken: list[tuple[Point, Passage]] = []
        left: list[Held] = []
        for held in self.held:
            passage = held.passage
            if (
                (count is None or len(taken) < count)
                and (pattern is None or pattern.matches(held.point, name_of(passage.source), name_of(passage.destination), passage.kind))
                and (message is None or passage.carries(message))
            ):
                taken.append((held.point, passage))
            else:
                left.append(held)
        self.held = left
        return taken

    def drop_held(self, pattern: Pattern | None = None, message: MessageId | None = None) -> int:
        """Forgets held frames; says how many."""
        return len(self.release(pattern, message))

    def _hold(self, held: Held) -> None:
        if len(self.held) >= self._limit:
            self.overflow += 1
        else:
            self.held.append(held)

    def _swap_partner(self, rule: Rule, point: Point, passage: Passage) -> Held | None:
        source, destination = name_of(passage.source), name_of(passage.destination)
        if not rule.pattern.matches(point, source, destination, passage.kind):
            return None
        for held in self.held:
            waiting = held.passage
            if held.rule is rule and (waiting.source, waiting.destination) == (passage.source, passage.destination):
                return held
        return None
