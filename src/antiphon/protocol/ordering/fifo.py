"""fifo: each sender's messages in the order it sent them.

Keeps what arrived beyond a gap, per sender, keyed by its first number. Cost: one dictionary look-up per range in order.
"""

from __future__ import annotations

from typing import ClassVar

from antiphon.model.events import Delivery, Why
from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId, MessageId
from antiphon.model.recording import Waiting
from antiphon.model.view import View
from antiphon.protocol.stage import Context, Ordering


class Fifo(Ordering):
    promises: ClassVar[tuple[str, ...] | None] = ("fifo",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._next_by_sender = {sender: cut + 1 for sender, cut in context.cut.items()}
        self._held_by_sender: dict[MemberId, dict[int, Delivery]] = {}
        self._held = 0

    def accept(self, batch: Batch, low: int, high: int) -> None:
        sender = batch.sender
        number = self._next_by_sender.get(sender, 1)
        if low != number:
            self._held_by_sender.setdefault(sender, {})[low] = (batch, low, high)
            self._held += high - low + 1
            return
        self.deliver((batch, low, high))
        number = high + 1
        if self._held:
            held = self._held_by_sender.get(sender, {})
            while (piece := held.pop(number, None)) is not None:
                self.deliver(piece)
                self._held -= piece[2] - number + 1
                number = piece[2] + 1
        self._next_by_sender[sender] = number

    def on_view(self, view: View, previous: View, starts: dict[MemberId, int]) -> None:
        # What still waits, waits for a message that no survivor holds: all survivors drop it alike.
        self.context.drops["lost_predecessor"] += self._held
        self._held_by_sender.clear()
        self._held = 0
        kept = self._next_by_sender
        self._next_by_sender = {member: starts[member] + 1 if member in starts else kept.get(member, 1) for member in view.members}

    def why(self, message: MessageId) -> Why | None:
        for _, low, high in self._held_by_sender.get(message.sender, {}).values():
            if low <= message.seqno <= high:
                missing = MessageId(message.sender, self._next_by_sender.get(message.sender, 1))
                return Why("held", f"waits for {missing}, the next of its sender", (missing,))
        return None

    def waits(self, batch: Batch, low: int, high: int) -> list[Waiting]:
        sender = batch.sender
        if low not in self._held_by_sender.get(sender, {}):
            return []
        return [(low, high, (MessageId(sender, self._next_by_sender.get(sender, 1)),))]

    @property
    def held(self) -> int:
        return self._held

    def held_heads(self) -> list[MessageId]:
        return [MessageId(sender, min(held)) for sender, held in self._held_by_sender.items() if held]

    def state(self) -> dict[str, object]:
        return {"held": self._held, "next_by_sender": dict(self._next_by_sender)}
