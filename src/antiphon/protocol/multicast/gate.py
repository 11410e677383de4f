"""The gate of safe groups: nothing reaches the ordering before a majority of the view holds it.

Holding back below the ordering, not above it, keeps every order's own rule intact: what one message waits for never makes
another wait. Keeps what is received and not yet safe: bounded by the window per sender. Every turn with news is acknowledged to all.
"""

from __future__ import annotations

from collections import deque

from antiphon.model.frames import Batch
from antiphon.model.ids import MemberId, MessageId
from antiphon.protocol.multicast.records import Records
from antiphon.protocol.multicast.stability import Stability
from antiphon.protocol.stage import OnAccept


class Gate:
    def __init__(self, accept: OnAccept, records: Records, stability: Stability) -> None:
        self._accept, self._records, self._stability = accept, records, stability
        self._held_by_sender: dict[MemberId, deque[tuple[Batch, int, int]]] = {}
        self.pending = False
        """Whether anything may have become safe since the last release."""

    def hold(self, batch: Batch, low: int, high: int) -> None:
        held = self._held_by_sender.get(batch.sender)
        if held is None:
            held = self._held_by_sender[batch.sender] = deque()
        held.append((batch, low, high))
        self.pending = True

    def holds(self, message: MessageId) -> bool:
        return any(low <= message.seqno <= high for _, low, high in self._held_by_sender.get(message.sender, ()))

    def release(self) -> bool:
        """Hands up what is safe now; whether there was any."""
        if not self.pending:
            return False
        self.pending = handed = False
        for sender, held in self._held_by_sender.items():
            if held:
                handed |= self._release(held, self._stability.safe(self._stability.rank_by_member[sender]))
        for stream in self._records.streams:
            if stream.high:
                handed |= self._records.hand_up(stream, self._stability.safe(stream.index))
        return handed

    def release_all(self) -> None:
        """The view ends: what its survivors hold, they all hold."""
        for held in self._held_by_sender.values():
            while held:
                self._accept(*held.popleft())
        self._held_by_sender.clear()
        for stream in self._records.streams:
            self._records.hand_up(stream, stream.high)

    def _release(self, held: deque[tuple[Batch, int, int]], safe: int) -> bool:
        handed = False
        # A round over all of them: beyond a gap they lie in the order they came, not in that of their numbers.
        for _ in range(len(held)):
            batch, low, high = held.popleft()
            if low <= safe:
                self._accept(batch, low, min(high, safe))
                handed = True
                low = safe + 1
            if low <= high:
                held.append((batch, low, high))
        return handed
