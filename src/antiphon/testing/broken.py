"""Protocols that break one promise each, on purpose: what never says no to these has proved nothing about the good ones.

Orderings stand in `antiphon.protocol.registry.ORDERS`, under a name of their own or in the place of a good one; `skip_the_flush` and
`forgetful` stand in the place of a method of the membership. None of them raises, waits or draws by chance: a seed that shows a promise
broken shows it every time. `broken_in` puts one in a place for as long as a block lasts.

    >>> from antiphon.protocol.registry import ORDERS
    >>> with broken_in(ORDERS, "fifo", Hasty):
    ...     print(ORDERS["fifo"].__name__)
    Hasty
    >>> print(ORDERS["fifo"].__name__)
    Fifo
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

from antiphon.model.events import Delivery
from antiphon.model.frames import Batch, Record
from antiphon.protocol.membership.catching_up import CatchingUp
from antiphon.protocol.membership.change import Change, Phase
from antiphon.protocol.ordering.causal import Causal
from antiphon.protocol.ordering.fifo import Fifo
from antiphon.protocol.ordering.semantic import Semantic
from antiphon.protocol.ordering.total import Total
from antiphon.protocol.ordering.unordered import Unordered
from antiphon.protocol.stage import Ordering

Recover = Callable[[CatchingUp, Batch, int, int], None]


@contextmanager
def broken_in(place: MutableMapping[str, Any] | type, name: str, broken: Any) -> Iterator[None]:
    """In this table or class `broken` stands under `name`; what stood there comes back at the end of the block."""
    before = place[name] if isinstance(place, MutableMapping) else getattr(place, name)
    _put(place, name, broken)
    try:
        yield
    finally:
        _put(place, name, before)


class Hasty(Unordered):
    """Delivers on receipt and promises the order of `fifo`."""

    promises = Fifo.promises


class HastyReplies(Unordered):
    """Delivers on receipt and promises the order of `semantic`."""

    promises = Semantic.promises


class Timeless(Causal):
    """Forgets to say what it had delivered."""

    def stamp(self, first: int, last: int) -> None:
        return None


class Democratic(Total):
    """Everybody delivers as soon as the data is there, sequencer or not."""

    def accept(self, batch: Batch, low: int, high: int) -> None:
        self.deliver((batch, low, high))

    def accept_record(self, record: Record) -> None:
        pass

    def flush(self) -> None:
        pass


class Stutter(Fifo):
    """Delivers every tenth message twice."""

    def accept(self, batch: Batch, low: int, high: int) -> None:
        super().accept(batch, low, high)
        if low % 10 == 0:
            self.deliver((batch, low, low))


class Timid(Semantic):
    """Keeps every message for a turn longer than it need."""

    _kept: tuple[Delivery, ...] = ()
    _older: tuple[Delivery, ...] = ()

    def accept(self, batch: Batch, low: int, high: int) -> None:
        self._kept += ((batch, low, high),)

    def flush(self) -> None:
        older, self._older, self._kept = self._older, self._kept, ()
        for delivery in older:
            super().accept(*delivery)
        super().flush()


BROKEN_ORDERS: tuple[tuple[type[Ordering], str, str], ...] = (
    (Hasty, "fifo", "fifo"),
    (HastyReplies, "semantic", "parent_before_child"),
    (Timeless, "causal", "causal"),
    (Democratic, "total", "total"),
    (Stutter, "fifo", "no_duplication"),
    (Timid, "semantic", "minimality"),
)
"""Each with the order whose promises it gives, and the one of them that must be seen broken where frames are lost and overtake."""


def skip_the_flush(self: Change) -> None:
    """For `Change._flush`. Whoever holds less than the others goes on without it: `virtual_synchrony` breaks where senders die."""
    self.phase = Phase.FLUSHING
    self._install()


def forgetful(recover: Recover) -> Recover:
    """For `CatchingUp._recover`. Every third batch that a member catches up with is dropped: `agreement` breaks where sides meet."""
    counts: dict[str, int] = {}

    def forget(self: CatchingUp, batch: Batch, low: int, high: int) -> None:
        me = self.sync.port.me
        counts[me] = counts.get(me, 0) + 1
        if counts[me] % 3:
            recover(self, batch, low, high)

    return forget


def _put(place: MutableMapping[str, Any] | type, name: str, thing: Any) -> None:
    if isinstance(place, MutableMapping):
        place[name] = thing
    else:
        setattr(place, name, thing)
