"""One member of one group, without I/O: the heart that both drivers run.

A driver calls, always with its clock's `now`:

    submit / submit_many   the application sends              receive          bytes came from the network
    tick                   `deadline` has passed              install          there is a new view

and after each input, or after all inputs of one turn of its loop, `drain`: it closes the open batch, lets the stages finish the
turn, and returns what must happen outside (writes, then sends, then events). Then the driver arms one timer for `deadline`.

A membership that changes the view calls `freeze` (nothing more of the view is taken), reads `holdings`, says with `aim` what those who
go on have agreed to hold, waits until this member is `flushed`, and calls `install`. Around a merge it calls `hold` and `release`: what is
received in between waits below the ordering until synchronisation has brought what was sent before. While the application does not take
what is delivered (`stop_reading`), nothing is taken from others and nothing is accepted from it.

Messages submitted in one turn leave as one batch; a driver that does not want the first of them to wait submits it `at_once`. Nothing
received can raise: bytes that are no frame, or make no sense, are counted in `drops` and forgotten.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from operator import countOf

from antiphon.errors import BadFrame, InvalidOption, TooLarge, UnknownParent, WouldBlock
from antiphon.model.codec import decode
from antiphon.model.events import Event, Installed, Why, Writable
from antiphon.model.frames import NAMES_LIMIT, SEQNO_LIMIT, Batch
from antiphon.model.ids import ID_LIMIT, GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.recording import Transcript, Waits
from antiphon.model.view import View
from antiphon.protocol.draft import Draft
from antiphon.protocol.outbox import Effects
from antiphon.protocol.registry import stages
from antiphon.protocol.stage import CLOCK_STEP_S, Context, OnAccept, Ordering

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
        transcript: Transcript | None = None,
    ) -> None:
        """`cut` says up to which number each sender's messages lie before this member's time. `on_accept` is told of every range
        that the ordering accepts, for logs. `transcript` takes down what happens."""
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
        self.transcript = transcript
        context.multicast = self.multicast = multicast(context, self.ordering, _both(on_accept, transcript))
        self.handlers = self.multicast.handlers
        """Who takes which frame of the view."""
        self._flushes, self._stamps = order.flush is not Ordering.flush, order.stamp is not Ordering.stamp
        """What of an ordering need be called at all: an idle member's message is mostly a matter of calls."""
        self._draft = Draft(group, me, settings.frame_bytes, settings.batch_messages)
        self._last = 0
        self._unsent: deque[tuple[bytes, MessageId | None, tuple[MessageId, ...], tuple[MemberId, int] | None]] = deque()
        """What was accepted during a hold, the last of it under number `_last`. A member that has not caught up sends nothing: others would
        deliver in this view what it, cut off before the end, would have to send again in the next."""
        self._safe, self._message_bytes = options.delivery == "safe", settings.message_bytes
        self._installing = False
        self._refused = False
        """Whether a message was refused since the last Writable."""

    # -- inputs ----------------------------------------------------------------------------------------------------------------

    def submit(
        self,
        now: float,
        payload: bytes,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        guest: tuple[MemberId, int] | None = None,
        at_once: bool = False,
    ) -> MessageId:
        """Accepts one message, or raises WouldBlock or a UsageError and changes nothing. What a reliable kind accepted it never drops.
        `guest` is the outsider whose message it is, and the outsider's number for it. `at_once`: it is in the outbox now, and not at the
        end of the turn, with all that was accepted before it; but what is accepted during a hold waits for its end."""
        context = self.context
        context.now = now
        if type(payload) is not bytes or len(payload) > self._message_bytes:
            self._check_payload(payload)  # raises
        seqno = self._last + 1
        names: tuple[MessageId, ...] = ()
        if reply_to is not None or after:
            names = tuple(after) if reply_to is None else (reply_to, *after)
            self._check_names(names)
            self.ordering.check(seqno, names)
        multicast, draft, alone = self.multicast, self._draft, False
        if multicast.held is not None or multicast.credit(self._last) <= 0 or context.flushing or not multicast.reading:
            if self.credit <= 0:
                raise self._refusal()
            self._unsent.append((payload, reply_to, tuple(after), guest))
        elif draft.payloads:
            self._write(seqno, payload, reply_to, after, guest, names)
        elif at_once and not names and guest is None:
            alone = True
        else:
            draft.add(seqno, payload, reply_to, after, guest)
        self._last = seqno
        if self.transcript is not None:
            note = "guest" if guest is not None else "after" if reply_to is None and after else None
            self.transcript.sent(now, context.view.id, seqno, (payload,), 1, len(payload), names, note)
        if at_once:
            if alone:  # what `_close` would make of a draft with this message
                stamp = self.ordering.stamp(seqno, seqno) if self._stamps else None
                context.latest = max(now, context.latest + CLOCK_STEP_S)
                multicast.cast(Batch(self.group, self.me, context.view.id, seqno, (payload,), None, stamp, context.latest))
            else:
                self._close()
            if self._flushes:
                self.ordering.flush()
        return MessageId(self.me, seqno)

    def submit_many(self, now: float, payloads: Sequence[bytes]) -> int:
        """Accepts as many of the payloads as there is credit for, in order, and says how many; raises WouldBlock for none. The last of
        them has number `sent`. The same as `submit` for one after the other, at a tenth of the cost: 0.1 µs for 100 B, with what it takes
        to send them."""
        self.context.now = now
        if type(payloads) is not list and type(payloads) is not tuple:
            payloads = [*payloads]
        accepted, draft, count = 0, self._draft, len(payloads)
        if countOf(map(type, payloads), bytes) == count <= self.credit and self.multicast.held is None:
            # The way of nearly every call: all of them go into the open batch, so where each of them ends is of no interest.
            size = sum(map(len, payloads))
            if size <= self._message_bytes and draft.takes(payloads, size, self.ordering.stamp_bytes()):
                self._last += count
                if self.transcript is not None and count:
                    self.transcript.sent(now, self.context.view.id, self._last - count + 1, payloads, count, size)
                return count
        ends = self._check_payloads(payloads)
        while accepted < len(payloads):
            credit = self.credit
            if credit <= 0:
                refusal = self._refusal()
                if not accepted:
                    raise refusal
                break
            until = min(accepted + credit, len(payloads))
            if self.multicast.held is not None:
                self._unsent += [(payload, None, (), None) for payload in payloads[accepted:until]]
            else:
                fitting = draft.fill(payloads, ends, accepted, until, self.ordering.stamp_bytes())
                if fitting == accepted:
                    # What was cast may have used up the credit in bytes; the message for which there was no room had its own before.
                    self._close()
                    fitting = draft.fill(payloads, ends, accepted, accepted + 1, self.ordering.stamp_bytes())
                until = fitting
            self._last += until - accepted
            accepted = until
        if self.transcript is not None and accepted:
            self.transcript.sent(now, self.context.view.id, self._last - accepted + 1, payloads, accepted, ends[accepted - 1])
        return accepted

    def receive(self, now: float, source: MemberId | None, wire: bytes) -> None:
        """Takes bytes that `source` handed over (None: not known)."""
        context = self.context
        context.now = now
        try:
            frame = decode(wire)
            handler = self.handlers[type(frame)]
        except BadFrame as bad:
            context.drops[bad.reason] += 1
        except KeyError:
            context.drops["unexpected_frame"] += 1
        else:
            if frame.group != self.group:  # type: ignore[union-attr]
                context.drops["other_group"] += 1
            elif frame.view != context.view.id:  # type: ignore[union-attr]
                context.drops["other_view"] += 1
            else:
                handler(frame, wire, source)

    def tick(self, now: float) -> None:
        """Runs the timers that are due."""
        self.context.now = now
        self.context.timers.run(now)

    def pause(self, now: float) -> None:
        """Sends what was accepted and accepts no more until the next view: the start of a flush."""
        self.context.now = now
        self._close()
        self.context.flushing = True

    def freeze(self, now: float) -> None:
        """Begins the end of the view, or, once more, ends what `aim` began: sends what was accepted, and takes no more of the view from
        anyone. Digests go on, and requests are answered."""
        self.pause(now)
        self.ordering.flush()
        self.multicast.freeze()

    def holdings(self) -> list[list[int]]:
        """What is here of the view: per stream, data by rank and then records by rank, the position without a gap and the flat ranges above
        it. Between `freeze` and `aim` this does not change."""
        return self.multicast.holdings()

    def aim(self, now: float, target: list[list[int]], holders: tuple[MemberId, ...]) -> None:
        """Those who go on have agreed to hold `target` of the view, in the form of `holdings`: takes that and nothing else, and asks
        `holders` for what is missing here until it is `flushed`. A target that makes no sense is counted and forgotten."""
        self.context.now = now
        if not self.multicast.frozen:
            self.freeze(now)
        self.multicast.aim(target, holders)

    def install(
        self,
        now: float,
        view: View,
        starts: dict[MemberId, int] | None = None,
        sides: tuple[tuple[MemberId, ...], ...] = (),
        minority: bool = False,
    ) -> None:
        """Goes on in `view`, in which the stream of each member in `starts` begins after that number; others go on where they are. The
        caller has made sure that all who come along from the old view hold the same messages of it. `sides` is told to the application.

        A `minority` was stopped, and what others made of the old view counts: what is held here is dropped, for it comes by
        synchronisation; a hold begins, and own messages after `starts[me]` are sent again at its end, under their numbers. A hold goes
        on in the new view."""
        context = self.context
        context.now = now
        previous, starts = context.view, starts or {}
        if not self.multicast.repairs():
            # Nobody waits for a number here, nothing is kept to be sent again, and what is held is all there is of it.
            starts, minority = {**starts, self.me: self.multicast.mine.high}, False
        self._check_view(view, starts, minority)
        if minority:
            self.freeze(now)
            self.multicast.hold()
            self._take_back(starts.get(self.me, self.multicast.mine.high))
        self._installing = True
        deliver = context.deliver
        if minority:
            context.drops["superseded"] += self.multicast.drop_held()
            context.deliver = self.ordering.deliver = self._supersede
        self.multicast.before_view()
        context.view = view
        self.ordering.on_view(view, previous, starts)
        self.multicast.on_view(view, starts)
        context.deliver = self.ordering.deliver = deliver
        self._installing = False
        context.deliver(Installed(view, previous, sides))
        context.flushing = False
        if not self.holding:
            self._send_unsent()

    def hold(self, now: float) -> None:
        """From now on everything received or sent waits below the ordering, up to `waiting_messages`; beyond that nothing is taken."""
        self.context.now = now
        # The open batch ends with the last number; what is accepted from now on comes after it.
        self._close()
        self.multicast.hold()

    def release(self, now: float) -> None:
        """Hands everything that waits to the ordering, in the order it came, and sends what was accepted meanwhile."""
        self.context.now = now
        self.multicast.end_hold()
        if not self.multicast.frozen:
            # What has stopped sends nothing: it would come too late to be agreed on, and leaves in the next view.
            self._send_unsent()

    def stop_reading(self, now: float) -> None:
        """The application does not take what is delivered. From now on frames of others are dropped, not asked for, and so not
        acknowledged: who sends waits when its window is full. What the end of a view or catching up needs is taken all the same."""
        self.context.now = now
        self.multicast.read(False)

    def start_reading(self, now: float) -> None:
        """The application takes what is delivered, again: asks at once for what is missing."""
        self.context.now = now
        self.multicast.read(True)

    def know(self, sender: MemberId, low: int, high: int) -> None:
        """Messages `low … high` of `sender` were delivered by synchronisation, or will never be: nothing waits for them any more."""
        self.ordering.know(sender, low, high)

    # -- outputs ---------------------------------------------------------------------------------------------------------------

    def drain(self, now: float) -> Effects:
        """Ends the turn and returns its effects."""
        self.end_turn(now)
        if self.transcript is not None:
            self.transcript.end_turn(now, self.context.latest, self.context.outbox.events, self.waits)
        return self.context.outbox.drain()

    def end_turn(self, now: float) -> None:
        """Ends the turn: afterwards everything that must happen outside is in the outbox."""
        self.context.now = now
        if self._draft.payloads:
            self._close()
        if self._flushes:
            self.ordering.flush()
        while self._safe and self.multicast.release():
            self.ordering.flush()
        stability = self.multicast.stability
        if stability is not None and (stability.due or (stability.news and not stability.soon)):
            stability.flush()
        if self._refused and 4 * self.credit >= self.options.window:
            # Woken for every single message of credit, a sender would send batches of one.
            self._refused = False
            self.context.deliver(Writable())

    @property
    def deadline(self) -> float | None:
        """When `tick` wants to be called next."""
        return self.context.timers.deadline

    # -- questions -------------------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        return self.context.view

    @property
    def sent(self) -> int:
        """The number of the last message that was accepted from the application."""
        return self._last

    @property
    def unsent(self) -> int:
        """How many messages wait for the end of a hold to be sent."""
        return len(self._unsent)

    @property
    def cast(self) -> int:
        """The number of the last message that was sent to others."""
        return self.multicast.mine.high

    @property
    def flushed(self) -> bool:
        """Whether everything that `aim` asked for is here."""
        return self.multicast.flushed

    @property
    def holding(self) -> bool:
        """Whether what is received waits below the ordering."""
        return self.multicast.held is not None

    def own_delivered(self) -> int:
        """Up to which of its own numbers this member has delivered. What every member has counts: it is not kept to be sent again, and if
        this one drops it, the others have it. What was never sent does not, even if a forged record has given it a place."""
        high, kept_after = self.multicast.mine.high, self.multicast.kept_after()
        delivered = self.ordering.own_delivered()
        if delivered is None:
            waiting = self.ordering.first_own_waiting()
            delivered = high if waiting is None else waiting - 1
        delivered = min(max(delivered, kept_after), high)
        first_held = self.multicast.first_own_held()
        return delivered if first_held is None else min(delivered, first_held - 1)

    def can_begin_after(self, start: int, minority: bool = False) -> bool:
        """Whether a view may begin after the own message `start`: after the last, or, in a `minority`, while all later ones are kept."""
        last = self.multicast.mine.high
        return start == last or not self.multicast.repairs() or (minority and self.multicast.kept_after() <= start < last)

    @property
    def credit(self) -> int:
        """How many messages would be accepted now."""
        held = self.multicast.held
        if self.context.flushing or not self.multicast.reading or (held is not None and held.full):
            return 0
        return self.multicast.credit(self._last)

    @property
    def blocked(self) -> bool:
        """Whether who sends here has to wait: there is no credit, or a message was refused and a Writable is still owed for it."""
        return self._refused or self.credit <= 0

    @property
    def waits(self) -> Waits | None:
        """Says what of a range that the ordering has accepted waits, and what for; None where nothing waits."""
        return self.ordering.waits if self.ordering.held else None

    def why(self, message: MessageId) -> Why:
        """Where a message is and what it waits for."""
        sender, seqno = message
        if sender == self.me and self._last - len(self._unsent) < seqno <= self._last:
            return Why("held", "was accepted, and is sent as soon as this member has caught up")
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
        if type(payload) is not bytes:
            raise InvalidOption("data", type(payload).__name__, "payloads are bytes")
        if len(payload) > self._message_bytes:
            raise TooLarge(len(payload), self._message_bytes)

    def _check_payloads(self, payloads: Sequence[bytes]) -> list[int]:
        """For each payload, how many bytes there are up to its end. Raises what is wrong with the first that cannot be sent."""
        if countOf(map(type, payloads), bytes) == len(payloads):
            ends, limit = [*accumulate(map(len, payloads))], self._message_bytes
            if not ends or ends[-1] <= limit or max(map(len, payloads)) <= limit:
                return ends
        for payload in payloads:
            self._check_payload(payload)
        raise AssertionError("one of the payloads is at fault")

    def _check_names(self, names: tuple[MessageId, ...]) -> None:
        # Receivers would not take a frame with such a name, and then nothing of this member any more.
        if len(names) > NAMES_LIMIT:
            raise InvalidOption("after", len(names), f"a message may name at most {NAMES_LIMIT} others")
        for name in names:
            # Nothing but a string and a number: of what is derived from them others need not be able to read what is written here.
            if not isinstance(name, MessageId) or type(name.sender) is not str or type(name.seqno) is not int:
                raise InvalidOption("reply_to", name, "a message is named by its MessageId")
            if not 1 <= name.seqno <= SEQNO_LIMIT or len(name.sender) > ID_LIMIT or not _is_text(name.sender):
                raise UnknownParent(name, "there can be no such message")

    def _check_view(self, view: View, starts: dict[MemberId, int], minority: bool) -> None:
        previous = self.context.view
        if view.id <= previous.id:
            raise InvalidOption("view", view.id, f"the installed view {previous.id} is not older")
        if self.me not in view:
            raise InvalidOption("view", str(view), f"{self.me} is not in it")
        missing = self.multicast.first_missing(member for member in view.members if member not in starts)
        if missing is not None:
            raise InvalidOption("view", str(view), f"{missing} is missing here and its sender stays: flush the old view first")
        last = self.multicast.mine.high
        if not self.can_begin_after(starts.get(self.me, last), minority):
            raise InvalidOption("starts", starts[self.me], f"this member has sent {last:,} messages: begin after the last of them")

    def _refusal(self) -> WouldBlock:
        """Why nothing is accepted; a Writable will say when it is."""
        self._refused = True
        if self.context.flushing:
            return WouldBlock("the view is changing")
        if not self.multicast.reading:
            return WouldBlock("what was delivered here is not read")
        held = self.multicast.held
        return WouldBlock(f"{held.messages:,} messages wait until this member has caught up" if held else self.multicast.congestion())

    def _supersede(self, event: Event) -> None:
        self.context.drops["superseded"] += event[2] - event[1] + 1 if type(event) is tuple else 1

    def _take_back(self, start: int) -> None:
        """Own messages after `start` were sent in vain: they will be sent again when this member has caught up, under their numbers."""
        back: list[tuple[bytes, MessageId | None, tuple[MessageId, ...], tuple[MemberId, int] | None]] = []
        for batch in self.multicast.sent_after(start):
            for seqno in range(max(batch.first, start + len(back) + 1), batch.last + 1):
                reply_to, names = batch.reply_to(seqno), batch.follows(seqno)
                guest = batch.guests.get(seqno) if batch.guests else None
                back.append((batch.payload(seqno), reply_to, names if reply_to is None else names[1:], guest))
        self._unsent.extendleft(reversed(back))

    def _send_unsent(self) -> None:
        """Puts what was accepted during a hold into the open batch, and into as many as it takes."""
        unsent, self._unsent = self._unsent, deque()
        last, self._last = self._last, self._last - len(unsent)
        for payload, reply_to, after, guest in unsent:
            names = after if reply_to is None else (reply_to, *after)
            self._write(self._last + 1, payload, reply_to, after, guest, names)
            self._last += 1
        assert self._last == last, "what was accepted has its number"

    def _write(
        self,
        seqno: int,
        payload: bytes,
        reply_to: MessageId | None,
        after: Sequence[MessageId],
        guest: tuple[MemberId, int] | None,
        names: tuple[MessageId, ...],
    ) -> None:
        """Puts a message into the open batch."""
        draft = self._draft
        if draft.payloads and not draft.fits(payload, names, self.ordering.stamp_bytes(), guest):
            self._close()
        draft.add(seqno, payload, reply_to, after, guest)

    def _close(self) -> None:
        count = len(self._draft.payloads)
        # While a view is being installed the draft stays open: it leaves in the new one.
        if count and not self._installing:
            first = self._last - count + 1
            context, stamp = self.context, self.ordering.stamp(first, self._last) if self._stamps else None
            context.latest = max(context.now, context.latest + CLOCK_STEP_S)
            self.multicast.cast(self._draft.close(context.view.id, first, stamp, context.latest))


def _is_text(name: str) -> bool:
    """Whether it can be written: half a character cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _both(on_accept: OnAccept | None, transcript: Transcript | None) -> OnAccept | None:
    """Tells both of every range."""
    if on_accept is None or transcript is None:
        return on_accept if transcript is None else transcript.received
    first, second = on_accept, transcript.received

    def watch(batch: Batch, low: int, high: int) -> None:
        first(batch, low, high)
        second(batch, low, high)

    return watch
