"""The last n messages of a history that is read from its beginning: what a newcomer wants that wants no more."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from antiphon.model.events import Delivery


class Newest:
    """Keeps `count` messages, of however many batches."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._messages = 0
        self._deliveries: deque[Delivery] = deque()

    def add(self, delivery: Delivery) -> None:
        _, low, high = delivery
        self._deliveries.append(delivery)
        self._messages += high - low + 1
        while self._messages > self._count:
            batch, low, high = self._deliveries.popleft()
            dropped = min(high - low + 1, self._messages - self._count)
            self._messages -= dropped
            if low + dropped <= high:
                self._deliveries.appendleft((batch, low + dropped, high))

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._deliveries)
