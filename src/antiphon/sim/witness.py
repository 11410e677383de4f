"""A node's core that writes down what it was asked and what it told: the logs that the oracles judge.

It is the real `NodeCore`; every call goes on to it unchanged. Who drives it need not know, so whole programs can be judged that were not
written for the simulator. A node has one log per membership: who leaves a group and comes back is somebody new. The `Chronicle` of a
world has the logs of all its nodes. Replies are left out: one that comes when the asker waits no longer is dropped, as it should be.

Keeps everything that happened. Cost: 2 µs per message and member, as much again as the protocols take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from antiphon.errors import UsageError
from antiphon.model.control import Wants
from antiphon.model.events import Event, PrivateMessage, StateArrived
from antiphon.model.frames import Batch
from antiphon.model.ids import Address, GroupId, MemberId, MessageId
from antiphon.model.options import GroupOptions
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.node import NodeCore, NodeEffects
from antiphon.sim.application import Application
from antiphon.sim.log import Adopted, MemberLog, Sent, SentPrivately, hash_of
from antiphon.sim.machine import is_called
from antiphon.sim.oracles import Violation, check_group


class Witness(NodeCore):
    def __init__(
        self, name: str, address: Address, *, chronicle: Chronicle, application: Application, clock: Callable[[], float], **rest: Any
    ) -> None:
        """`clock` is the world's; `application` hears every event when it has been written down."""
        super().__init__(name, address, on_accept=self._accepted, **rest)
        self._chronicle, self._application, self._clock = chronicle, application, clock
        self._witnessed: dict[GroupId, tuple[Membership, MemberLog]] = {}
        """The latest membership in each group."""
        self._private_by_pair: Counter[tuple[MemberId, MemberId]] = Counter()
        """Private messages by sender and receiver, numbered as the protocol does, which does not tell the numbers of questions."""

    # -- what the application wants --------------------------------------------------------------------------------------------

    def submit(
        self,
        now: float,
        group: GroupId,
        payload: bytes,
        reply_to: MessageId | None = None,
        after: Sequence[MessageId] = (),
        at_once: bool = False,
    ) -> MessageId:
        written = len(self._log(group).events) if group in self.memberships else 0
        message = super().submit(now, group, payload, reply_to, after, at_once)
        names = (*after,) if reply_to is None else (reply_to, *after)
        # What leaves at once has been accepted here by now: that comes after it.
        events = self._log(group).events
        events.insert(written if at_once else len(events), Sent(self._clock(), message, names, reply_to is not None, hash_of(payload)))
        return message

    def submit_many(self, now: float, group: GroupId, payloads: Sequence[bytes]) -> int:
        accepted = super().submit_many(now, group, payloads)
        membership, log = self._witness(group)
        for number, payload in enumerate(payloads[:accepted], membership.sent - accepted + 1):
            log.events.append(Sent(self._clock(), MessageId(membership.me, number), payload_hash=hash_of(payload)))
        return accepted

    def submit_to(self, now: float, group: GroupId, to: MemberId, data: bytes) -> int:
        number = super().submit_to(now, group, to, data)
        self._sent_privately(group, to, data)
        return number

    def ask(self, now: float, group: GroupId, data: bytes, to: MemberId | None = None) -> int:
        question = super().ask(now, group, data, to)
        view = self.memberships[group].view
        everyone = () if view is None else view.members
        for member in everyone if to is None else (to,):
            if member != self.memberships[group].me:
                self._sent_privately(group, member, data)
        return question

    def reply(self, now: float, group: GroupId, to: MemberId, question: int, data: bytes) -> int:
        number = super().reply(now, group, to, question, data)
        self._private_by_pair[self._log(group).member, to] += 1
        return number

    # -- what it is told -------------------------------------------------------------------------------------------------------

    def drain(self, now: float) -> NodeEffects:
        for entered in self.memberships:
            self._witness(entered)  # before a membership that ends in its first turn is forgotten
        effects = super().drain(now)
        self._hear(effects.events)
        return effects

    def told(self) -> list[tuple[GroupId | None, Event]]:
        events = super().told()
        self._hear(events)
        return events

    def _hear(self, events: list[tuple[GroupId | None, Event]]) -> None:
        for group, event in events:
            if group is not None and group in self._witnessed:
                membership, log = self._witnessed[group]
                if type(event) is StateArrived:
                    log.events.append(Adopted(self._clock(), membership.past.adopted.flat()))
                if not isinstance(event, PrivateMessage) or event.kind != "reply":
                    self._application.hear(self._clock(), log, event)

    def crash(self) -> None:
        """The node is dead from here on, or was closed in haste: what was stable then is in the logs of the groups it did not leave."""
        for group, membership in self.memberships.items():
            self._log(group).crash(self._clock(), membership.endpoint)

    def _accepted(self, group: GroupId, batch: Batch, low: int, high: int) -> None:
        log = self._log(group)
        if batch.guests and batch.sender == log.member:
            # What an outsider said is this member's message from here on: nobody else sent it.
            for seqno in range(low, high + 1):
                if seqno in batch.guests:
                    log.events.append(Sent(self._clock(), MessageId(log.member, seqno), payload_hash=hash_of(batch.payload(seqno))))
        log.received(self._clock(), batch, low, high)

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _witness(self, group: GroupId) -> tuple[Membership, MemberLog]:
        """The latest membership in a group and its log, which begins when it is first looked at."""
        membership, witnessed = self.memberships.get(group), self._witnessed.get(group)
        if membership is not None and (witnessed is None or witnessed[0] is not membership):
            log = self._chronicle.begin(group, membership.me, membership.port.options, membership.catching_up.wants)
            witnessed = self._witnessed[group] = membership, log
        assert witnessed is not None, f"{self.name} was told of {group}, and was never in it"
        return witnessed

    def _log(self, group: GroupId) -> MemberLog:
        return self._witness(group)[1]

    def _sent_privately(self, group: GroupId, to: MemberId, data: bytes) -> None:
        membership, log = self._witness(group)
        self._private_by_pair[log.member, to] += 1
        log.events.append(SentPrivately(self._clock(), to, self._private_by_pair[log.member, to], membership.sent, hash_of(data)))


class Chronicle:
    """What happened in a world, and to which group it belongs. A group is named by its name or its id."""

    def __init__(self, logs: list[MemberLog]) -> None:
        self.logs = logs
        """One per membership, in the order they began."""
        self.wants: dict[MemberId, Wants] = {}
        """What members wanted of the time before they came."""
        self._group_by_member: dict[MemberId, GroupId] = {}
        self._options_by_group: dict[GroupId, GroupOptions] = {}

    def begin(self, group: GroupId, member: MemberId, options: GroupOptions, wants: Wants) -> MemberLog:
        """Opens the log of a new member, which wants this of the time before it came."""
        log = MemberLog(member, [])
        self.logs.append(log)
        self._group_by_member[member] = group
        self._options_by_group.setdefault(group, options)
        self.wants[member] = wants
        return log

    def logs_of(self, group: str) -> list[MemberLog]:
        return [log for log in self.logs if is_called(self._group_by_member[log.member], group)]

    def groups(self) -> list[GroupId]:
        """The groups that somebody was in, or tried to be."""
        return list(self._options_by_group)

    def options_of(self, group: str) -> GroupOptions:
        for known, options in self._options_by_group.items():
            if is_called(known, group):
                return options
        raise UsageError(f"nobody was ever in {group}")

    def check(self, group: str, *, settled: bool) -> list[Violation]:
        return check_group(self.logs_of(group), self.options_of(group), self.wants, settled=settled)
