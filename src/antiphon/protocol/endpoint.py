"""One member of one group, without I/O: the heart that both drivers run.

A driver calls, always with its clock's `now`:

    submit / submit_many   the application sends              receive   bytes came from the network
    tick                   `deadline` has passed              install   there is a new view

and after each input, or after all inputs of one turn of its loop, `drain`: it closes the open batch, lets the stages finish the
turn, and returns what must happen outside (writes, then sends, then events). Then the driver arms one timer for `deadline`.

Messages submitted in one turn leave as one batch; an idle member's message leaves at once. Nothing received can raise: bytes
that are no frame, or make no sense, are counted in `drops` and forgotten.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from antiphon.errors import BadFrame, InvalidOption, TooLarge, UnknownParent, WouldBlock
from antiphon.model import codec
from antiphon.model.events import Installed, Why, Writable
from antiphon.model.frames import NAMES_LIMIT, SEQNO_LIMIT
from antiphon.model.ids import ID_LIMIT, GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.draft import Draft
from antiphon.protocol.outbox import Effects
from antiphon.protocol.registry import stages
from antiphon.protocol.stage import Context, OnAccept

_FRAME_BYTES = 128
"""The smallest frame that is of any use, the ids of member and group aside."""


class Endpoint:
    def __init__(
        self,
        me: MemberId,
        group: GroupId,
        view: View,
        options: GroupOptions,
        *,
        rng: random.Random,
        settings: Settings | None = None,
        now: float = 0.0,
        cut: dict[MemberId, int] | None = None,
        on_accept: OnAccept | None = None,
    ) -> None:
        """`cut` says up to which number each sender's messages lie before this member's time. `on_accept` is told of every range
        that the ordering accepts, for logs and traces."""
        if me not in view:
            raise InvalidOption("view", str(view), f"{me} is not in it")
        order, multicast = stages(options)
        settings = settings or Settings()
        ids = len(me.encode()) + len(group.encode())
        if settings.frame_bytes < ids + _FRAME_BYTES:
            raise InvalidOption(
                "frame_bytes", settings.frame_bytes, f"these names leave no room for a message: choose {ids + _FRAME_BYTES} or more"
            )
        self.me, self.group, self.options = me, group, options
        self.context = context = Context(me, group, view, options, settings, rng, now, cut)
        context.close_batch = self._close
        self.ordering = order(context)
        context.multicast = self.multicast = multicast(context, self.ordering, on_accept)
        self._handlers = self.multicast.handlers
        self._draft = Draft(group, me, settings.frame_bytes, settings.batch_messages)
        self._last = 0
        self._installing = False
        self._refused = False
        """Whether a message was refused since the last Writable."""

    # -- inputs ----------------------------------------------------------------------------------------------------------------

    def submit(self, now: float, payload: bytes, reply_to: MessageId | None = None, after: Sequence[MessageId] = ()) -> MessageId:
        """Accepts one message, or raises WouldBlock or a UsageError and changes nothing. What a reliable kind accepted it never drops."""
        self.context.now = now
        self._check_payload(payload)
        seqno = self._last + 1
        names: tuple[MessageId, ...] = ()
        if reply_to is not None or after:
            names = tuple(after) if reply_to is None else (reply_to, *after)
            self._check_names(names)
            self.ordering.check(seqno, names)
        self._check_credit()
        if not self._draft.fits(payload, names, self.ordering.stamp_bytes()):
            self._close()
        self._draft.add(seqno, payload, reply_to, after)
        self._last = seqno
        return MessageId(self.me, seqno)

    def submit_many(self, now: float, payloads: Sequence[bytes]) -> int:
        """Accepts as many of the payloads as there is credit for, in order, and says how many; raises WouldBlock for none."""
        self.context.now = now
        for payload in payloads:
            self._check_payload(payload)
        accepted = 0
        for payload in payloads:
            try:
                self.submit(now, payload)
            except WouldBlock:
                if not accepted:
                    raise
                break
            accepted += 1
        return accepted

    def receive(self, now: float, source: MemberId | None, wire: bytes) -> None:
        """Takes bytes that `source` handed over (None: not known)."""
        context = self.context
        context.now = now
        try:
            frame = codec.decode(wire)
        except BadFrame as bad:
            context.drops[bad.reason] += 1
            return
        if frame.group != self.group:
            context.drops["other_group"] += 1
        elif frame.view != context.view.id:
            context.drops["other_view"] += 1
        else:
            self._handlers[type(frame)](frame, wire, source)

    def tick(self, now: float) -> None:
        """Runs the timers that are due."""
        self.context.now = now
        self.context.timers.run(now)

    def pause(self, now: float) -> None:
        """Sends what was accepted and accepts no more until the next view: the start of a flush."""
        self.context.now = now
        self._close()
        self.context.flushing = True

    def install(self, now: float, view: View, cut: dict[MemberId, int] | None = None) -> None:
        """Goes on in `view`. The caller has made sure that all who come along from the old view hold the same messages of it."""
        context = self.context
        context.now = now
        previous = context.view
        if view.id <= previous.id:
            raise InvalidOption("view", view.id, f"the installed view {previous.id} is not older")
        if self.me not in view:
            raise InvalidOption("view", str(view), f"{self.me} is not in it")
        missing = self.multicast.first_missing(view.members)
        if missing is not None:
            raise InvalidOption("view", str(view), f"{missing} is missing here and its sender stays: flush the old view first")
        self._installing = True
        self.multicast.before_view()
        context.view = view
        self.ordering.on_view(view, previous, cut or {})
        self.multicast.on_view(view, cut or {})
        self._installing = False
        context.deliver(Installed(view, previous))
        context.flushing = False

    # -- outputs ---------------------------------------------------------------------------------------------------------------

    def drain(self, now: float) -> Effects:
        """Ends the turn and returns its effects."""
        self.context.now = now
        self._close()
        self.ordering.flush()
        while self.multicast.release():
            self.ordering.flush()
        self.multicast.flush()
        if self._refused and self.credit > 0:
            self._refused = False
            self.context.deliver(Writable())
        return self.context.outbox.drain()

    @property
    def deadline(self) -> float | None:
        """When `tick` wants to be called next."""
        return self.context.timers.deadline

    # -- questions -------------------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        return self.context.view

    @property
    def credit(self) -> int:
        """How many messages would be accepted now."""
        return 0 if self.context.flushing else self.multicast.credit(self._last)

    def why(self, message: MessageId) -> Why:
        """Where a message is and what it waits for."""
        sender, seqno = message
        if sender == self.me and seqno > self._last - len(self._draft.payloads):
            state = "held" if seqno <= self._last else "unknown"
            return Why(state, "is in the open batch, which leaves at the end of this turn" if state == "held" else "has not been sent")
        return self.ordering.why(message) or self.multicast.why(message)

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values."""
        return {
            "view": self.context.view.id,
            "sent": self._last,
            "credit": self.credit,
            "drops": dict(sorted(self.context.drops.items())),
            **self.ordering.state(),
            **self.multicast.stats(),
        }

    # -- the open batch --------------------------------------------------------------------------------------------------------

    def _check_payload(self, payload: bytes) -> None:
        limit = self.context.settings.message_bytes
        if type(payload) is not bytes:
            raise InvalidOption("data", type(payload).__name__, "payloads are bytes")
        if len(payload) > limit:
            raise TooLarge(len(payload), limit)

    def _check_names(self, names: tuple[MessageId, ...]) -> None:
        # Receivers would not take a frame with such a name, and then nothing of this member any more.
        if len(names) > NAMES_LIMIT:
            raise InvalidOption("after", len(names), f"a message may name at most {NAMES_LIMIT} others")
        for name in names:
            if not isinstance(name, MessageId) or not isinstance(name.sender, str) or not isinstance(name.seqno, int):
                raise InvalidOption("reply_to", name, "a message is named by its MessageId")
            if not 1 <= name.seqno <= SEQNO_LIMIT or len(name.sender) > ID_LIMIT:
                raise UnknownParent(name, "there can be no such message")

    def _check_credit(self) -> None:
        if self.credit <= 0:
            self._refused = True
            raise WouldBlock("the view is changing" if self.context.flushing else self.multicast.congestion())

    def _close(self) -> None:
        count = len(self._draft.payloads)
        # While a view is being installed the draft stays open: it leaves in the new one.
        if count and not self._installing:
            first = self._last - count + 1
            stamp = self.ordering.stamp(first, self._last)
            self.multicast.cast(self._draft.close(self.context.view.id, first, stamp, self.context.now))
