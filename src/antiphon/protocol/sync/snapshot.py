"""The application's state, from a member that has one to a newcomer that wants it instead of messages.

The newcomer chooses a provider among those who were there before, at random, and pulls the state from it, 32 pieces at a time, asking
again for those that do not arrive. When it is whole, everything the provider had delivered at that point counts as had here
(`History.adopt`), the application is told StateArrived and the messages that the provider's application had not taken by then (`unread`),
and synchronisation goes on from there.

A provider that is silent for `2 × change_s`, or gives no state, is replaced by another, with a new snapshot, until all have been asked. One
that says "not yet" gets the same time, the last one `join_s`. When none is left the application is told StateUnavailable, with what each of
them said, and the newcomer takes all messages instead. Either way `on_done` is called once.

Keeps one state on its way in, of at most `state_bytes`, and what comes before it, of at most `_HEAD_BYTES` and twice `inbox_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from antiphon.model.control import AskState, Holdings, Side, StatePiece
from antiphon.model.events import StateArrived, StateUnavailable
from antiphon.model.frames import Seqno
from antiphon.model.ids import MemberId, name_of
from antiphon.model.view import View
from antiphon.protocol.membership.port import Port
from antiphon.protocol.sync.history import History
from antiphon.protocol.sync.ledger import Ledger
from antiphon.protocol.sync.provider import NO_STATE, WINDOW, Provider
from antiphon.protocol.sync.unread import UnreadEvent, read
from antiphon.protocol.timers import Timer

_HEAD_BYTES = 16 << 20
"""The most that may be said about a snapshot beside it."""

_decode_preamble = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode
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
        self.unread = Ledger()
        """The messages that came with it."""
        self.provider = Provider(port, history, busy, guests)
        """This member as one who gives."""
        self._on_done, self._adopt_guests = on_done, adopt_guests
        self._number = 0
        self._reasons: dict[MemberId, str] = {}
        """What the providers said that gave no state."""
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
        self._put_off = False
        """Whether the provider has said that it will give the state later."""

    def provide(self, snapshot: int, state: bytes | None, unread: Sequence[UnreadEvent] = (), reason: str = "") -> None:
        """Take the application's answer to StateWanted; see `Provider.provide`."""
        self.provider.provide(snapshot, state, unread, reason)

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
            self._reasons.clear()
        self._next_provider()

    def stop(self) -> None:
        """The view is ending."""
        self._rest()

    def _next_provider(self) -> None:
        self._begin_snapshot()
        self._provider = self._providers.pop(0) if self._providers else None
        if self._provider is None:
            self._rest()
            if not self.arrived:
                self.fail()
            self._on_done()
        else:
            self._number += 1
            self._ask()

    def fail(self) -> None:
        """Tell the application that there is no state, and why."""
        told = "; ".join(f"{name_of(member)}: {reason}" for member, reason in self._reasons.items())
        self.port.tell(StateUnavailable(f"no member gives its state: {told or 'those that had it are gone'}"))

    def _ask(self) -> None:
        """Asks for the pieces of the window that have not come, or for a snapshot; again and again."""
        port, settings = self.port, self.port.settings
        assert self._provider is not None, "only who has chosen a provider asks"
        patience_s = 2 * settings.change_s
        if self._put_off and not self._providers:
            patience_s = max(patience_s, settings.join_s)
        if port.now - self._heard_at >= patience_s:
            self._reasons.setdefault(self._provider, f"it did not answer within {patience_s:g} s")
            self._next_provider()
            return
        ask = AskState(port.group, port.me, self._view, self._number, self._snapshot, tuple(self._window))
        port.send((self._provider,), ask)
        self._timer = port.call_in(settings.retry_s, self._ask)

    def receive_piece(self, frame: StatePiece, member: MemberId) -> None:
        if member != self._provider or frame.number != self._number or frame.view != self._view:
            self.port.drops["late_piece"] += 1
            return
        if not frame.count:
            self._reasons[member] = frame.piece.decode(errors="replace") or NO_STATE
            if frame.index:
                self._put_off = True
            else:
                self._give_up()
            return
        self._heard_at = self.port.now
        if frame.snapshot and frame.snapshot == (self._snapshot or frame.snapshot):
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
        limit = self.port.settings.state_bytes + _HEAD_BYTES + 2 * self.port.settings.inbox_bytes
        if self._bytes > limit or self._count > limit:
            self.port.drops["state_too_large"] += 1
            assert self._provider is not None, "pieces are taken from the provider alone"
            self._reasons[self._provider] = f"its state is larger than state_bytes={self.port.settings.state_bytes:,}"
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
        head, unread = None, None
        with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            encoded, behind = _decode_preamble(b"".join(pieces[: self._heads]))
            head, unread = _decode(encoded), read(behind, self.port.group)
        if head is None or unread is None or Ledger.read(head[0]) is None or Ledger.read(head[2]) is None:
            self.port.drops["malformed"] += 1
            assert self._provider is not None, "pieces are taken from the provider alone"
            self._reasons[self._provider] = "what it sent makes no sense"
            self._give_up()
            return
        state = b"".join(pieces[self._heads :])
        self._rest()
        self.arrived = True
        have, live_from, guests = head
        for event in unread:
            self.unread.add(event.batch.sender, event.low, event.high)
        self.history.adopt(have, live_from, self.unread)
        self._adopt_guests(guests)
        self.port.tell(StateArrived(state))
        for event in unread:
            self.port.tell(event)
        self._on_done()
