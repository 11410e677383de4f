"""What keeps a member in its group's record, and the record true: beats, and one look whenever the record or the topic has moved.

A look does the first of these that is due, and looks again:

1. this member is not in the record: it was away and others put it out; it comes in again (`merged`), or founds the record again when all
   others have left meanwhile. If another member has its node name by now, it was replaced, and is out for good;
2. a newcomer claims this member's node name: refutes the claim;
3. a beat: says that it is there, and puts out those who have been silent for too long;
4. it has seen the view of the record in the topic: says so (`read`); all have: the view is stable;
5. the view is not in the topic after a while, because who made it died: places it, one member after the other in their order.

A store that does not answer, or has no room, is asked again, with pauses, as long as it takes.
"""

from __future__ import annotations

import asyncio
import random

from antiphon.errors import AntiphonError, StoreUnreachable
from antiphon.model.events import Departed, Stabilised
from antiphon.model.ids import GroupId, MemberId, name_of
from antiphon.store.contact import StoreContact
from antiphon.store.contract import Backend
from antiphon.store.groups import record as rules
from antiphon.store.groups.following import PAUSE_S, Follower, Tell
from antiphon.store.groups.placing import Placer, topic_of
from antiphon.store.groups.presence import BEATS, Presence
from antiphon.store.groups.record import GroupRecord
from antiphon.store.groups.register import Entry, Register

HELP_S = 0.5
"""How long a view may be missing in the topic before the first member places it for whoever did not; the second waits twice as long."""
CHECK_S = 0.5
"""How long after a beat the next one may follow, where writes are not answered."""
_APART_S = 0.002
"""Over how long per member it is spread that all say they have read a view: at once, they would only be in each other's way."""


class Keeper:
    def __init__(
        self,
        backend: Backend,
        register: Register,
        presence: Presence,
        placer: Placer,
        follower: Follower,
        contact: StoreContact,
        *,
        me: MemberId,
        group: GroupId,
        silence_s: float,
        tell: Tell,
        rng: random.Random,
    ) -> None:
        self._backend, self._register, self._presence, self._placer, self._follower = backend, register, presence, placer, follower
        self._contact = contact
        self._me, self._group, self._silence_s, self._tell, self._rng = me, group, silence_s, tell, rng
        self._stable_epoch = 0
        self._missing_since: float | None = None
        self._beaten_at = self._beat_at = 0.0
        """When the last beat was written, and when the next is due, by the clock of the event loop."""
        self.leaving = False
        """Whether this member is about to leave: then it leaves its node name to the newcomer that claims it."""
        self.unreachable = self.helped = self.put_out = self.merges = 0
        """Attempts that the store did not answer; views placed for others; members put out; times this one came in again."""

    async def run(self) -> None:
        """Until this member is out for good."""
        name = name_of(self._group)
        beat_s = self._silence_s / BEATS
        clock = asyncio.get_running_loop().time
        self._beat_at = clock()
        entry: Entry | None = None
        while True:
            try:
                entry = entry or await self._register.get(name)
                record = entry.record
                if record is not None and record.id != self._group:
                    self._tell(Departed("the group ended while this member was away, and there is another of this name: join that"))
                    return
                if record is not None and self._me not in record.members and (taken := rules.holders(record, self._me)):
                    await self._presence.end()
                    self._tell(Departed(f"replaced by {taken[0]}, which joined under the same node name while this member did not answer"))
                    return
                if record is None or self._me not in record.members:
                    entry = await self._come_again(name, record)
                elif not self.leaving and rules.rival(record, self._me) is not None:
                    entry = (await self._register.change(name, self._refute))[0]
                elif clock() >= self._beat_at:
                    await self._presence.beat()
                    self._beaten_at = clock()
                    self._beat_at = self._beaten_at + beat_s
                    await self.part(record)
                else:
                    entry = await self._look(name, entry, record) or await self._next(name, entry, self._beat_at - clock())
                self._contact.answered("keeper")
            except AntiphonError as error:  # also a full disk, say: whoever stopped beating because of it would be out for good
                self.unreachable += 1
                if isinstance(error, StoreUnreachable):
                    self._contact.failed("keeper", error)
                    self._beat_at = clock()  # the first that succeeds is a beat: only a store that takes writes is there again
                entry = None
                await asyncio.sleep(self._rng.uniform(0.5, 1.0) * PAUSE_S)

    def check_contact(self) -> None:
        """Beat soon, because a write of this member was not answered: the beat shows whether the store takes writes."""
        due = self._beaten_at + CHECK_S
        if due < self._beat_at:
            self._beat_at = due
            self._follower.moved.set()

    async def _look(self, name: str, entry: Entry, record: GroupRecord) -> Entry | None:
        """What is to be done about this record; None: nothing now."""
        follower, clock = self._follower, asyncio.get_running_loop().time
        follower.moved.clear()
        if follower.seen >= record.epoch:
            self._missing_since = None
            if self._me not in record.readers:
                await asyncio.sleep(self._rng.uniform(0, _APART_S * len(record.members)))
                return (await self._register.change(name, lambda now: self._have_read(now, record.epoch)))[0]
            if record.stable and self._stable_epoch < record.epoch:
                self._stable_epoch = record.epoch
                self._tell(Stabilised(record.view))
            return None
        since = self._missing_since = self._missing_since or clock()
        if not record.readers and clock() - since > HELP_S * (1 + record.members.index(self._me)):
            self._missing_since = None
            self.helped += 1
            await self._placer.place(record)
        return None

    def _refute(self, record: GroupRecord | None) -> GroupRecord | None:
        return record if record is None or self._me not in record.members else rules.refuted(record, self._me)

    def _have_read(self, record: GroupRecord | None, epoch: int) -> GroupRecord | None:
        return record if record is None or record.epoch != epoch else rules.read(record, self._me)

    async def _next(self, name: str, entry: Entry, wait_s: float) -> Entry:
        """The record when it has changed, or as it was when a view was told here, or after a while."""
        if self._missing_since is not None:
            wait_s = min(wait_s, HELP_S / 2)
        watching = asyncio.ensure_future(self._register.watch(name, entry.revision, max(0.0, wait_s)))
        moved = asyncio.ensure_future(self._follower.moved.wait())
        try:
            await asyncio.wait((watching, moved), return_when=asyncio.FIRST_COMPLETED)
            return watching.result() if watching.done() else entry
        finally:
            for task in (watching, moved):
                task.cancel()
            await asyncio.gather(watching, moved, return_exceptions=True)

    async def part(self, record: GroupRecord) -> None:
        """Puts out those who are silent. If somebody else was faster they are judged again with the next beat."""
        away = await self._presence.away(record.members, record.silence_s)

        def part(now: GroupRecord | None) -> GroupRecord | None:
            # Never the last: a group whose members are all silent waits for the next who comes.
            same = now is not None and now.id == record.id and now.epoch == record.epoch
            return rules.parted(now, away) if now is not None and same and len(away) < len(now.members) else now

        if away:
            after, mine = await self._register.change(record.name, part, self._placer.place_if_unread)
            if mine and after.record is not None:
                self.put_out += len(away)
                await self._placer.place(after.record)
                await self._presence.forget(away, record.silence_s)

    async def _come_again(self, name: str, record: GroupRecord | None) -> Entry:
        await self._presence.beat()
        if record is None:
            # The epochs go on after the last that is in the topic; every view was placed there before the record was removed.
            last = (await self._backend.info(topic_of(self._group))).last
            while self._follower.position < last:
                await asyncio.sleep(PAUSE_S)
        newest = self._follower.epoch

        def come(now: GroupRecord | None) -> GroupRecord | None:
            if now is None:
                return rules.founded(self._group, self._me, epoch=newest + 1, silence_s=self._silence_s) if record is None else None
            return rules.merged(now, self._me) if now.id == self._group and not rules.holders(now, self._me) else now

        after, mine = await self._register.change(name, come, self._placer.place_if_unread)
        if mine and after.record is not None:
            self.merges += 1
            await self._placer.place(after.record)
        return after
