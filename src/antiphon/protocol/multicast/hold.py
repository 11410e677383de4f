"""Everything received waits here, below the ordering, until this member has caught up with what was sent before.

Batches and records keep the order in which they came, so at the end the ordering sees what it would have seen. Bounded: while
`waiting_messages` wait, no further batch of others is taken (it is asked for again later, and so senders slow down), nor one of the own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from antiphon.model.events import Delivery
from antiphon.model.frames import Batch, Record
from antiphon.model.ids import MemberId, MessageId
from antiphon.protocol.stage import OnAccept


class Hold:
    def __init__(self, accept: OnAccept, accept_record: Callable[[Record], None], limit: int) -> None:
        self._accept, self._accept_record, self._limit = accept, accept_record, limit
        self._waiting: deque[Delivery | Record] = deque()
        self.messages = 0

    def accept(self, batch: Batch, low: int, high: int) -> None:
        self._waiting.append((batch, low, high))
        self.messages += high - low + 1

    def accept_record(self, record: Record) -> None:
        self._waiting.append(record)

    @property
    def full(self) -> bool:
        return self.messages >= self._limit

    def hand_over(self) -> None:
        """Hands everything to the ordering. What that makes this member send comes here too, and goes the same way at its turn."""
        waiting = self._waiting
        while waiting:
            piece = waiting.popleft()
            if isinstance(piece, Record):
                self._accept_record(piece)
            else:
                self.messages -= piece[2] - piece[1] + 1
                self._accept(*piece)

    def drop(self) -> int:
        """Forgets everything; says how many messages that were."""
        dropped, self.messages = self.messages, 0
        self._waiting.clear()
        return dropped

    def first_of(self, sender: MemberId) -> int | None:
        """The lowest number of the sender's that waits."""
        return min((low for _, low, _ in self.pieces_of(sender)), default=None)

    def holds(self, message: MessageId) -> bool:
        return any(low <= message.seqno <= high for _, low, high in self.pieces_of(message.sender))

    def pieces_of(self, sender: MemberId) -> list[Delivery]:
        """What of the sender's waits."""
        return [piece for piece in self._waiting if not isinstance(piece, Record) and piece[0].sender == sender]
