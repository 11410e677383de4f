"""The application's state, from a member that has one to a newcomer that wants it instead of messages.

The newcomer chooses a provider among those who were there before, at random, and pulls the state from it, 32 pieces at a time, asking
again for those that do not arrive. When it is whole, everything the provider had delivered at that point counts as had here
(`History.adopt`), the application is told StateArrived, and synchronisation goes on from there.

A provider that is silent for `2 × change_s`, or gives no state, is replaced by another, with a new snapshot; after four of them, or when
there is nobody, the newcomer takes all messages instead. Either way `on_done` is called once.

Keeps one state on its way in, of at most `state_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from antiphon.model.control import AskState, Holdings, Side, StatePiece
from antiphon.model.events import StateArrived
from antiphon.model.frames import Seqno
from antiphon.model.ids import MemberId
from antiphon.model.view import View
from antiphon.protocol.membership.port import Port
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.ledger import Ledger
from antiphon.protocol.sync.provider import WINDOW, Provider
from antiphon.protocol.timers import Timer

_PROVIDERS = 4
_HEAD_BYTES = 16 << 20
"""The most that may be said about a snapshot beside it."""

_decode = msgspec.msgpack.Decoder(tuple[Holdings, dict[MemberId, Seqno], Holdings]).decode


class Snapshot:
    def __init__(
        self,
        port: Port,
        history: History,
        *,
        on_done: Callable[[], None],
        busy: Callable[[], bool] = lambda: False,
        guests: Callable[[], Holdings] = dict,
        adopt_guests: Callable[[Holdings], None] = lambda _: None,
    ) -> None:
        """`busy` says whether this member is itself catching up: then it gives no state yet. `guests` tells what outsiders sent that a
        state of this member stands for, `adopt_guests` is told the same of a state that comes."""
        self.port, self.history = port, history
        self.arrived = False
        """Whether this member was given a state."""
        self.provider = Provider(port, history, busy, guests)
        """This member as one who gives."""
        self._on_done, self._adopt_guests = on_done, adopt_guests
        self._number = 0
        self._timer: Timer | None = None
        self._rest()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._view = 0
        self._providers: list[MemberId] = []
        self._provider: MemberId | None = None
        self._begin_snapshot()

    def _begin_snapshot(self) -> None:
        self._snapshot = self._count = self._heads = self._bytes = 0
        self._pieces: dict[int, bytes] = {}
        self._window: list[int] = []
        """Pieces that were asked for and have not come."""
        self._heard_at = self.port.now

    def provide(self, snapshot: int, state: bytes | None) -> None:
        """The application's answer to StateWanted; None: it has no state to give."""
        self.provider.provide(snapshot, state)

    def receive_ask(self, frame: AskState, member: MemberId) -> None:
        self.provider.receive(frame, member)

    # -- the newcomer ----------------------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        return self._provider is not None

    def begin(self, view: View, sides: tuple[Side, ...]) -> None:
        """Looks for a state; `on_done` says that it has arrived, or that there is none to be had."""
        self.stop()
        if not self.arrived:
            self._view = view.id
            self._providers = [member for side in sides if side.view for member in side.members if member != self.port.me]
            self.port.rng.shuffle(self._providers)
            del self._providers[_PROVIDERS:]
        self._next_provider()

    def stop(self) -> None:
        """The view is ending."""
        self._rest()

    def _next_provider(self) -> None:
        self._begin_snapshot()
        self._provider = self._providers.pop(0) if self._providers else None
        if self._provider is None:
            self._rest()
            self._on_done()
        else:
            self._number += 1
            self._ask()

    def _ask(self) -> None:
        """Asks for the pieces of the window that have not come, or for a snapshot; again and again."""
        port, settings = self.port, self.port.settings
        if port.now - self._heard_at >= 2 * settings.change_s:
            self._next_provider()
            return
        assert self._provider is not None, "only who has chosen a provider asks"
        ask = AskState(port.group, port.me, self._view, self._number, self._snapshot, tuple(self._window))
        port.send((self._provider,), ask)
        self._timer = port.call_in(settings.retry_s, self._ask)

    def receive_piece(self, frame: StatePiece, member: MemberId) -> None:
        if member != self._provider or frame.number != self._number or frame.view != self._view:
            self.port.drops["late_piece"] += 1
            return
        self._heard_at = self.port.now
        if not frame.count:
            self._give_up()
        elif frame.snapshot and frame.snapshot == (self._snapshot or frame.snapshot):
            self._take(frame)

    def _take(self, frame: StatePiece) -> None:
        if not self._snapshot:
            self._snapshot, self._count, self._heads = frame.snapshot, frame.count, frame.head
            self._window = list(range(min(frame.count, WINDOW)))
        if frame.count != self._count or frame.head != self._heads or frame.index not in self._window:
            return
        self._window.remove(frame.index)
        self._pieces[frame.index] = frame.piece
        self._bytes += len(frame.piece)
        if self._bytes > self.port.settings.state_bytes + _HEAD_BYTES or self._count > self.port.settings.state_bytes + _HEAD_BYTES:
            self.port.drops["state_too_large"] += 1
            self._give_up()
            return
        if len(self._pieces) == self._count:
            self._complete()
        elif not self._window:
            first = len(self._pieces)
            self._window = list(range(first, min(first + WINDOW, self._count)))
            if self._timer is not None:
                self._timer.cancel()
            self._ask()

    def _give_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_provider()

    def _complete(self) -> None:
        pieces = [self._pieces[index] for index in range(self._count)]
        try:
            head = _decode(b"".join(pieces[: self._heads]))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            head = None
        if head is None or Ledger.read(head[0]) is None or Ledger.read(head[2]) is None:
            self.port.drops["malformed"] += 1
            self._give_up()
            return
        state = b"".join(pieces[self._heads :])
        self._rest()
        self.arrived = True
        have, live_from, guests = head
        self.history.adopt(have, live_from)
        self._adopt_guests(guests)
        self.port.tell(StateArrived(state))
        self._on_done()
