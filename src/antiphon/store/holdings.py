"""What a node still needs of the store: for every reader the time of the oldest value it has taken and is not done with, for the outbox the
store time at which its oldest value began to wait.

The ring asks for the lowest such time, not only now but over a stretch: `mark` begins the stretch, `lowest` is the lowest time held at any
moment since, also if it has been given back meanwhile. Without that a value handed from one node to another between two visits of the
token would be seen at neither (see `token.py`).

A reader says what it needs *before* it has it. While it waits for `take`, it holds the time of the newest value it has taken, or, when it
had taken all there were, the `time` of that chunk: times never fall with the numbers, so nothing it can be given is older. Said only after
`take` has returned, a value would be on its way and in nobody's hands just when the token comes by.

Costs: `set` is O(1) and made for once per chunk, `mark` O(owners). An owner that is garbage holds nothing.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from antiphon.store.records import Moment


class Holdings:
    def __init__(self) -> None:
        self._oldest_by_owner: WeakKeyDictionary[object, Moment] = WeakKeyDictionary()
        self._lowest: Moment | None = None
        self.seen: Moment = 0
        """The store's time when somebody here last heard of it; 0 before that."""

    def set(self, owner: object, oldest: Moment | None) -> None:
        """`owner` needs nothing older than this from now on; None: nothing at all."""
        if oldest is None:
            self._oldest_by_owner.pop(owner, None)
            return
        self._oldest_by_owner[owner] = oldest
        if self._lowest is None or oldest < self._lowest:
            self._lowest = oldest

    def saw(self, now: Moment) -> None:
        """Somebody here has heard the store's time."""
        self.seen = max(self.seen, now)

    @property
    def oldest(self) -> Moment | None:
        """The time of the oldest value that is needed now."""
        return min(self._oldest_by_owner.values(), default=None)

    @property
    def lowest(self) -> Moment | None:
        """The lowest time that was needed at any moment since the last `mark`."""
        return self._lowest

    def mark(self) -> None:
        self._lowest = self.oldest
