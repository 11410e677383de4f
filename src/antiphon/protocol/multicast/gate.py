"""The gate of safe groups: nothing reaches the ordering before a majority of the view holds it.

Holding back below the ordering, not above it, keeps every order's own rule intact. A member counts as holding a message when it has
all of that sender's messages up to it; so a message beyond a gap waits until the gap is closed at a majority.

Keeps what is received and not yet safe: bounded by the window per sender. Every turn that brings something is acknowledged to all.
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
        self.accept, self._records, self._stability = accept, records, stability
        self._held_by_sender: dict[MemberId, deque[tuple[Batch, int, int]]] = {}
        self._safe_by_sender: dict[MemberId, int] = {}
        """How far each sender's messages have been let through."""
        self.pending = False
        """Whether anything may have become safe since the last release."""

    def hold(self, batch: Batch, low: int, high: int) -> None:
        self._held_by_sender.setdefault(batch.sender, deque()).append((batch, low, high))
        if low <= self._safe_by_sender.get(batch.sender, 0):
            # It comes late to what a majority has: its sender must be looked at even if nothing else becomes safe.
            self._safe_by_sender[batch.sender] = 0
        self.pending = True

    def holds(self, message: MessageId) -> bool:
        return any(low <= message.seqno <= high for _, low, high in self._held_by_sender.get(message.sender, ()))

    def pieces_of(self, sender: MemberId) -> list[tuple[Batch, int, int]]:
        """What of the sender's waits."""
        return list(self._held_by_sender.get(sender, ()))

    def first_of(self, sender: MemberId) -> int | None:
        """The lowest number of the sender's that is held."""
        return min((low for _, low, _ in self._held_by_sender.get(sender, ())), default=None)

    def drop(self) -> int:
        """Forgets what is held; says how many messages that were."""
        dropped = sum(high - low + 1 for held in self._held_by_sender.values() for _, low, high in held)
        self._held_by_sender.clear()
        self._safe_by_sender.clear()
        return dropped

    def release(self) -> bool:
        """Hands up what is safe now; whether there was any."""
        if not self.pending:
            return False
        self.pending = handed = False
        stability = self._stability
        for sender, held in list(self._held_by_sender.items()):
            if held:
                safe = stability.safe(stability.streams[stability.rank_by_member[sender]])
                if safe > self._safe_by_sender.get(sender, 0):
                    self._safe_by_sender[sender] = safe
                    handed |= self._release(held, safe)
        for stream in self._records.streams:
            if stream.high:
                handed |= self._records.hand_up(stream, stability.safe(stream))
        return handed

    def release_all(self) -> None:
        """The view ends: what its survivors hold, they all hold."""
        for held in list(self._held_by_sender.values()):
            while held:
                self.accept(*held.popleft())
        for stream in self._records.streams:
            self._records.hand_up(stream, stream.high)
        self._held_by_sender.clear()
        self._safe_by_sender.clear()

    def _release(self, held: deque[tuple[Batch, int, int]], safe: int) -> bool:
        handed = False
        # A round over all of them: beyond a gap they lie in the order they came, not in that of their numbers.
        for _ in range(len(held)):
            batch, low, high = held.popleft()
            if low <= safe:
                self.accept(batch, low, min(high, safe))
                handed = True
                low = safe + 1
            if low <= high:
                held.append((batch, low, high))
        return handed
