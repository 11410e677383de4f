"""One incarnation of a node in the world: the process that runs its core, and the logs of its memberships.

A node has one log per membership: a member that leaves a group and comes back is somebody new, with a new id and a new log. The
private messages of a membership are numbered here as the protocol numbers them, per receiver from 1, so that questions, whose numbers
the core does not tell, can be logged too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from antiphon.errors import UsageError
from antiphon.model.control import Holdings
from antiphon.model.frames import Batch
from antiphon.model.ids import Address, GroupId, MemberId, MessageId, name_of
from antiphon.model.options import Settings
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.node import NodeCore
from antiphon.protocol.samples import sample
from antiphon.sim.log import MemberLog, Sent, SentPrivately, hash_of
from antiphon.sim.process import Process
from antiphon.sim.scheduler import Scheduler
from antiphon.sim.tracing import Tracing


class Machine(Process[NodeCore]):
    def __init__(
        self,
        name: str,
        rng: random.Random,
        settings: Settings,
        scheduler: Scheduler,
        touched: Callable[[Machine], None],
        name_server: bool,
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__(name, scheduler, touched)
        self._recorder = None if tracing is None else tracing.recorder(name, self.now)
        self.address = Address(name)
        self.log_by_member: dict[MemberId, MemberLog] = {}
        """In the order in which the memberships began."""
        self.group_by_member: dict[MemberId, GroupId] = {}
        self._latest_by_group: dict[GroupId, Membership] = {}
        self._private: Counter[tuple[MemberId, MemberId]] = Counter()
        self._core = NodeCore(
            name,
            self.address,
            rng=rng,
            settings=settings,
            now=self.now(),
            name_server=name_server,
            on_accept=self._log_received,
            recorder=self._recorder,
        )

    # -- which group, which member ---------------------------------------------------------------------------------------------

    def begin(self, group: GroupId) -> MemberLog:
        """Opens the log of the membership that this node has just begun."""
        membership = self._latest_by_group[group] = self.core.memberships[group]
        self.group_by_member[membership.me] = group
        log = self.log_by_member[membership.me] = MemberLog(membership.me, [])
        return log

    def membership(self, group: str) -> Membership | None:
        """This node's membership in a group, given by its id or its name."""
        for group_id, membership in self.core.memberships.items():
            if is_called(group_id, group) and not membership.departed:
                return membership
        return None

    def group_id(self, group: str) -> GroupId:
        """The id of a group that this node is in or has heard of."""
        for group_id in self.core.memberships:
            if is_called(group_id, group):
                return group_id
        for info in self.core.known():
            if is_called(info.id, group):
                return info.id
        raise UsageError(f"{self.name} is not in {group} and has not heard of it: let it join, or wait until it has heard")

    def log_of(self, group: GroupId) -> MemberLog | None:
        """The log of the latest membership in a group."""
        membership = self._latest_by_group.get(group)
        return None if membership is None else self.log_by_member[membership.me]

    def adopted(self, group: GroupId) -> Holdings:
        """Which messages the state stands for that the latest membership in a group was given."""
        return self._latest_by_group[group].past.adopted.flat()

    # -- what happened ---------------------------------------------------------------------------------------------------------

    def log_private(self, membership: Membership, to: MemberId, data: bytes, number: int | None = None) -> None:
        """The application sent something to one member alone, under this number (None: the next, which the core did not tell)."""
        me = membership.me
        self._private[me, to] = number = self._private[me, to] + 1 if number is None else number
        self.log_by_member[me].events.append(SentPrivately(self._scheduler.now, to, number, membership.sent, hash_of(data)))

    def crash(self) -> None:
        """Never acts again. What was stable when it died is in the logs of its memberships."""
        super().crash()
        for group, membership in self.core.memberships.items():
            log = self.log_of(group)
            if log is not None:
                log.crash(self._scheduler.now, membership.endpoint)
        if self._recorder is not None:
            self.sample()
            self._recorder.crash()

    def sample(self) -> None:
        """Records how things stand."""
        for membership in self.core.memberships.values():
            sample(membership)

    def _log_received(self, group: GroupId, batch: Batch, low: int, high: int) -> None:
        log = self.log_of(group)
        if log is None:
            return
        now = self._scheduler.now
        if batch.guests and batch.sender == log.member:
            # What an outsider said is this member's message from here on: nobody else sent it.
            guests = [seqno for seqno in range(low, high + 1) if seqno in batch.guests]
            log.events += [Sent(now, MessageId(log.member, seqno), payload_hash=hash_of(batch.payload(seqno))) for seqno in guests]
        log.received(now, batch, low, high)


def is_called(group_id: str, group: str) -> bool:
    """Whether `group` is this id, or the name in it."""
    return group in (group_id, name_of(group_id))
