"""A subscription without await: values of a topic in order, each once, and the continuation.

A fetch brings what is there, up to `_FETCH` values, so that reading costs two switches of threads per fetch and none per value. What was
fetched lies here, shared by all threads that read; whoever is interrupted leaves it to the next. What has lain here for longer than
`clock_s` is judged by its lease once more before it is given out.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from antiphon.store import Subscription as AsyncSubscription
from antiphon.store.contact import ContactEvent
from antiphon.store.subscription import checked_limit
from antiphon.store.succession import Item
from antiphon.sync.background import Background
from antiphon.sync.shelf import Reading, Stream

_FETCH = 256


class Subscription:
    def __init__(self, subscription: AsyncSubscription, background: Background) -> None:
        """Made by `Topic.subscribe`."""
        self._subscription, self._background = subscription, background
        self._fetched: deque[Item] = deque()
        self._judged_at = 0.0
        self._lock = threading.Lock()

    # -- where it is -----------------------------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        return self._subscription.topic

    @property
    def id(self) -> str:
        """Come back with `topic.subscribe(id=…)`."""
        return self._subscription.id

    @property
    def epoch(self) -> int:
        """1 where this subscriber is new; one more each time that somebody came back as it."""
        return self._subscription.epoch

    @property
    def position(self) -> int:
        """Everything up to this number is done, and the store knows it."""
        return self._subscription.position

    @property
    def state(self) -> bytes:
        """As it was last written with `done`, by whoever was this subscriber."""
        return self._subscription.state

    @property
    def lease(self) -> float:
        """In seconds."""
        return self._subscription.lease

    @property
    def lag(self) -> int:
        """How many numbers are published, as far as is known here, and not done."""
        return self._subscription.lag

    @property
    def expired(self) -> int:
        """How many values were skipped because they were older than the lease."""
        return self._subscription.expired

    @property
    def prefetched(self) -> int:
        """How many values and gaps are read ahead."""
        return self._subscription.prefetched + len(self._fetched)

    @property
    def reachable(self) -> bool:
        """Whether the store answers this subscription. While it does not, only what was read ahead is delivered."""
        return self._subscription.reachable

    def events(self) -> Stream[ContactEvent]:
        """`StoreLost` when the store has not answered for `lost_s`, `StoreRestored` when it answers again; from now on, beginning with a
        loss that lasts. Each listener has its own stream, which ends with the subscription; reading values is not affected."""
        return Stream(self._background.call(self._subscription.events))

    # -- reading ---------------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        """The next value or gap. Ends when the subscription or its store is closed; raises Fenced when somebody came in its place."""
        return self._take(1)[0]

    def batches(self, limit: int = 1_024) -> Reading[list[Item]]:
        """The same, as many at once as there are: cheaper per value."""
        checked_limit(limit)
        return Reading(lambda: self._take(limit))

    def read(self, timeout: float | None = None) -> Item:
        """The next value or gap; raises TimedOut when there is none for so long."""
        return self.read_many(1, timeout)[0]

    def read_many(self, limit: int, timeout: float | None = None) -> list[Item]:
        """The next ones, at least one; raises TimedOut when there is none for so long."""
        checked_limit(limit)
        until, left = None if timeout is None else time.monotonic() + timeout, timeout
        while not (taken := self._out_of_fetched(limit)):
            self._background.run(self._fill(max(limit, _FETCH), left))
            left = None if until is None else max(until - time.monotonic(), 0.0)  # another thread may have taken it
        return taken

    def _take(self, limit: int) -> list[Item]:
        while not (taken := self._out_of_fetched(limit)):
            if not self._background.run(self._fill_or_end(max(limit, _FETCH))):
                raise StopIteration
        return taken

    def _out_of_fetched(self, limit: int) -> list[Item]:
        with self._lock:
            fetched = self._fetched
            if fetched and time.monotonic() - self._judged_at > self._subscription.settings.clock_s:
                self._background.run(self._judge_again())
            return [fetched.popleft() for _ in range(min(limit, len(fetched)))]

    async def _fill(self, limit: int, timeout: float | None) -> None:
        """On the loop. What is taken is laid here in the same step, so that an interrupt does not lose it."""
        self._lay(await self._subscription.read_many(limit, timeout))

    async def _fill_or_end(self, limit: int) -> bool:
        try:
            self._lay(await anext(self._subscription.batches(limit)))
        except StopAsyncIteration:
            return False
        return True

    def _lay(self, items: list[Item]) -> None:
        self._fetched.extend(items)
        self._judged_at = time.monotonic()

    async def _judge_again(self) -> None:
        items = list(self._fetched)
        self._fetched.clear()
        try:
            items = await self._subscription.still_due(items)
            self._judged_at = time.monotonic()
        finally:
            self._fetched.extendleft(reversed(items))  # before what others have fetched meanwhile

    # -- the continuation ------------------------------------------------------------------------------------------------------

    def done(self, seq: int, state: bytes | None = None, *, timeout: float | None = None) -> None:
        """Done with everything up to `seq`, and this is the state now (None: as it was): written together. Never goes back."""
        self._background.run(self._subscription.done(seq, state, timeout=timeout))

    def done_one(self, seqs: int | Iterable[int], state: bytes | None = None, *, timeout: float | None = None) -> None:
        """Done with these single values, in any order; they are not delivered again. The position follows when all before it are."""
        chosen = list(seqs) if isinstance(seqs, Iterable) else seqs
        self._background.run(self._subscription.done_one(chosen, state, timeout=timeout))

    def renew(self, lease: float, *, timeout: float | None = None) -> None:
        """From now on values are due to this subscriber for so many seconds."""
        self._background.run(self._subscription.renew(lease, timeout=timeout))

    def unsubscribe(self, *, timeout: float | None = None) -> None:
        """The store forgets this subscriber, its position and its state; nothing is kept for it any more."""
        self._background.run(self._subscription.unsubscribe(timeout=timeout))

    # -- the end ---------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stops reading. The store keeps the position, the state and what is not done, until the lease is over."""
        self._background.run(self._subscription.close())
        self._fetched.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._subscription)
