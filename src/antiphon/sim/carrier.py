"""Carries frames from one process to another: through the debugger's rules, over the links, and through the rules again.

A frame passes the rules twice: `out`, before it is put on its link, and `in`, when it has come out of it and before the process
sees it. Every frame put on a link by a member is counted in `frames`; copies made by the rules or by the network are not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

from antiphon.debugger.pattern import Pattern
from antiphon.debugger.rule import Rule
from antiphon.debugger.tap import Passage, Tap
from antiphon.model import codec
from antiphon.model.frames import Batch, Digest, Fragment, Nack, Record
from antiphon.model.ids import MemberId, MessageId, name_of
from antiphon.sim.network import FrameKey, Network, NetworkModel
from antiphon.sim.scheduler import Scheduler

_MATTERING = frozenset(("data", "fragment", "record", "nack"))
"""Frames that can still change what somebody delivers. Digests go on for ever."""
_NO_KEY: FrameKey = ("", "", 0, 0)


class Carrier:
    def __init__(self, model: NetworkModel, seed: int, scheduler: Scheduler, arrive: Callable[[Passage], None]) -> None:
        self.network = Network(model, seed)
        self.frames: Counter[tuple[str, str, str]] = Counter()
        self.rules: list[Rule] = []
        self.tap = Tap(self.rules, random.Random(f"{seed}/rules").random)
        self.in_flight = 0
        """Frames that matter and have not reached their process; those that the rules hold are not among them."""
        self._scheduler, self._arrive = scheduler, arrive

    def cast(self, source: MemberId, destinations: Iterable[MemberId], wire: bytes) -> None:
        kind = codec.kind_of(wire)
        name = name_of(source)
        # Looked at once per frame, not once per link: every copy of a frame has the same key.
        key = key_of(wire) if self.network.model.keyed else _NO_KEY
        for destination in destinations:
            self.frames[name, name_of(destination), kind] += 1
            passage = Passage(source, destination, kind, wire)
            if self.rules:
                for passed, delay_s in self.tap.passing("out", passage):
                    self._put_later(passed, delay_s)
            else:
                self._put(passage, key)

    def release(self, pattern: Pattern | None, message: MessageId | None, count: int | None) -> int:
        """Lets held frames go on; says how many."""
        released = self.tap.release(pattern, message, count)
        for point, passage in released:
            if point == "out":
                self._put_later(passage, 0.0)
            else:
                self._fly(passage, self._scheduler.now, True)
        return len(released)

    def _put_later(self, passage: Passage, delay_s: float) -> None:
        if delay_s:
            self._count(passage, 1)
            self._scheduler.at(self._scheduler.now + delay_s, self._put_delayed, passage)
        else:
            self._put(passage, key_of(passage.wire) if self.network.model.keyed else _NO_KEY)

    def _put_delayed(self, passage: Passage, _: None) -> None:
        self._count(passage, -1)
        self._put_later(passage, 0.0)

    def _put(self, passage: Passage, key: FrameKey) -> None:
        source, destination = name_of(passage.source), name_of(passage.destination)
        for arrival in self.network.arrivals(self._scheduler.now, source, destination, len(passage.wire), key):
            self._fly(passage, arrival, False)

    def _fly(self, passage: Passage, arrival: float, tapped: bool) -> None:
        self._count(passage, 1)
        self._scheduler.at(arrival, self._land, passage, tapped)

    def _land(self, passage: Passage, tapped: bool) -> None:
        self._count(passage, -1)
        if tapped or not self.rules:
            self._arrive(passage)
            return
        for passed, delay_s in self.tap.passing("in", passage):
            if delay_s:
                self._fly(passed, self._scheduler.now + delay_s, True)
            else:
                self._arrive(passed)

    def _count(self, passage: Passage, by: int) -> None:
        if passage.kind in _MATTERING:
            self.in_flight += by


def key_of(wire: bytes) -> FrameKey:
    """Which frame it is, apart from what its order wrote into it. Digests and requests have no number: they count per member."""
    frame = codec.decode(wire)
    kind = codec.kind_of(wire)
    if isinstance(frame, (Digest, Nack)):
        return (kind, frame.member, 0, 0)
    if isinstance(frame, Fragment):
        return (kind, frame.sender, frame.first, frame.index)
    assert isinstance(frame, (Batch, Record))
    return (kind, frame.sender, frame.first, 0)
