"""One member of a group on a store: comes in, stays in, reads, and leaves.

Two tasks work for it: the follower reads the topic and tells what is in it (`following.py`), the keeper keeps the member in the record
(`keeping.py`). Both are idle while nothing happens, but for the beats. Keeps what was told for `history`, within bounds.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextlib import suppress
from typing import Any, Literal

from antiphon.errors import Conflict, JoinFailed, StoreFull, StoreUnreachable
from antiphon.model.control import Wants
from antiphon.model.events import Delivery, Departed, Installed, Recovered
from antiphon.model.ids import GroupId, MemberId, name_of, new_group_id, new_member_id
from antiphon.store.contact import LOST_S, StoreContact
from antiphon.store.contract import Backend
from antiphon.store.groups import record as rules
from antiphon.store.groups.following import PAUSE_S, Follower, Tell
from antiphon.store.groups.keeping import Keeper
from antiphon.store.groups.placing import Placer, topic_of
from antiphon.store.groups.presence import Presence
from antiphon.store.groups.record import GroupRecord, Members
from antiphon.store.groups.register import Register
from antiphon.store.records import TopicOptions, checked_name

_FOUNDINGS = 8
"""How often the group may be deleted and founded by others while this member comes in."""

_GIVE_UP_S = 5.0

CLAIM_S = 2.0
"""How long a newcomer waits for the member that holds its node name to answer, or `silence_s` where that is shorter."""

How = Literal["create", "join", "either"]


class StoreMembership:
    def __init__(
        self,
        backend: Backend,
        node: str,
        *,
        rng: random.Random,
        settle_s: float = 2.0,
        history_messages: int = 65_536,
        history_bytes: int = 64 << 20,
        lost_s: float = LOST_S,
    ) -> None:
        """`settle_s` is how long a change waits for the record to be stable; what is told is kept for `history` up to the bounds. The store
        may fail to answer for `lost_s` before that is told."""
        self.me: MemberId = new_member_id(node, rng)
        self.group = GroupId("")
        self._backend, self._rng, self._settle_s = backend, rng, settle_s
        self._register = Register(backend, rng)
        self._placer = Placer(backend, self.me)
        self._presence = Presence(backend, self.group, self.me)
        self._last_by_group: dict[GroupId, int] = {}
        """The newest number of the topic before this member came in."""
        self.replaced: Members = ()
        """The members of this node's name in whose place this one was admitted."""
        self._away: set[MemberId] = set()
        self._unanswered: set[MemberId] = set()
        """Members of this node's name that are away by the store's time, and those that did not answer a claim."""
        self._claim_over: float | None = None
        """When the time in which the holder may answer the claim is over; it does not begin again when a call has to be repeated."""
        self._record: GroupRecord | None = None
        self._follower: Follower | None = None
        self._keeper: Keeper | None = None
        self._lost_s = lost_s
        self.contact: StoreContact | None = None
        """Whether the store answers; None before this member begins."""
        self._tell: Tell = _nobody
        self._leaving = False
        self._settle_until: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._history: deque[tuple[Delivery, int]] = deque()
        self._history_messages = self._history_bytes = 0
        self._most_messages, self._most_bytes = history_messages, history_bytes

    @property
    def topic(self) -> str:
        return topic_of(self.group)

    # -- coming in -------------------------------------------------------------------------------------------------------------

    async def enter(
        self,
        name: str,
        *,
        how: How,
        id: GroupId | None = None,
        wants: Wants | None = None,
        options: TopicOptions | None = None,
        silence_s: float = rules.SILENCE_S,
        until: float = float("inf"),
    ) -> None:
        """Founds or joins the group of this name; returns when this member is in its record and its view is in the topic. Raises
        JoinFailed, also when another live member has this node's name; or StoreUnreachable, and can then be repeated. `until` is the time
        of the event loop after which the caller does not wait for the holder of the name to answer."""
        checked_name(name, "group")
        self._away, self._unanswered = set(), set()
        await self._settle(name, until)
        for _ in range(_FOUNDINGS):
            found = (await self._register.get(name)).record
            self._refuse(name, found, how, id)
            group = new_group_id(name, self._rng) if found is None else found.id
            await self._prepare(group, None if found is not None else options or TopicOptions(shared=True))

            def come_in(record: GroupRecord | None, group: GroupId = group) -> GroupRecord | None:
                self._refuse(name, record, how, id)
                if record is None:
                    return rules.founded(group, self.me, silence_s=silence_s)
                return self._admitted(record) if record.id == group else record

            record = (await self._register.change(name, come_in, self._placer.place_if_unread))[0].record
            while record is not None and record.id == group and self.me not in record.members:
                await self._claim(name, record, until)
                record = (await self._register.change(name, come_in, self._placer.place_if_unread))[0].record
            if record is not None and self.me in record.members:
                await self._placer.place(record)
                await self._presence.discard(self.replaced)
                self.contact = StoreContact(f"group {name}", self._backend.url, self._lost_s, self._hear)
                self._follower = Follower(self._backend, self.topic, group, self._hear, self.contact)
                await self._follower.begin(record.view, wants or Wants(), self._last_by_group[group])
                self._record = record
                return
            # Somebody else founded the group in this very moment: once more, with that one.
            await self._presence.end()
        raise JoinFailed(name, "it was deleted and founded again each time: try again")

    def begin(self, tell: Tell) -> None:
        """From now on tells what happens, beginning with the view in which this member came in."""
        record, follower, contact = self._record, self._follower, self.contact
        assert record is not None, "a member enters before it begins"
        assert follower is not None, "and then reads the topic"
        assert contact is not None, "which says whether the store answers"
        self._tell = tell
        keeper = self._keeper = Keeper(
            self._backend, self._register, self._presence, self._placer, follower, contact,
            me=self.me, group=self.group, silence_s=record.silence_s, tell=self._hear, rng=self._rng,
        )  # fmt: skip
        tell(Installed(record.view, None, record.sides))
        self._tasks = [
            asyncio.create_task(follower.run(), name=f"reads {self.topic}"),
            asyncio.create_task(keeper.run(), name=f"keeps {self.topic}"),
        ]

    async def _prepare(self, group: GroupId, options: TopicOptions | None) -> None:
        """What must be there before this member is in the record: the topic, so that whoever sees the record can write to it, a beat, and
        a number of the topic that lies before this member's view."""
        self.group = group
        await self._placer.register(self.topic, options)
        self._presence = Presence(self._backend, group, self.me)
        await self._presence.beat()
        # Only the first time: when this is repeated because no answer came, this member may be in the record already.
        if group not in self._last_by_group:
            self._last_by_group[group] = (await self._backend.info(self.topic)).last

    def _refuse(self, name: str, record: GroupRecord | None, how: How, id: GroupId | None) -> None:
        if record is None and how == "join":
            raise JoinFailed(name, "there is no such group on the store: create it, or join with create=True")
        if record is not None and how == "create" and self.me not in record.members:
            raise JoinFailed(name, "there is such a group on the store already: join it, or use join(create=True)")
        if record is not None and id is not None and record.id != id:
            raise JoinFailed(id, f"the group of this name on the store is another one, {record.id}: join it by name")

    def _admitted(self, record: GroupRecord) -> GroupRecord:
        """Return the record with this member in it; the same record while another member has this node's name and may be alive."""
        if self.me in record.members:
            return record
        self.replaced = holders = rules.holders(record, self.me)
        if not holders:
            return rules.joined(record, self.me)
        # Without the claim in the record the holder has answered it a moment ago.
        unanswered = self.me in record.claims and self._unanswered.issuperset(holders)
        away = self._away.issuperset(holders) and rules.rival(record, self.me) is None
        return rules.replaced(record, self.me) if unanswered or away else record

    async def _claim(self, name: str, record: GroupRecord, until: float) -> None:
        """Return when the members with this node's name are gone, or are known to be dead: away for `silence_s` by the store's time, or
        without an answer to a claim for CLAIM_S. Raise JoinFailed when one of them answers, or another newcomer claims the name."""
        holders = rules.holders(record, self.me)
        self._away = set(await self._presence.away(holders, record.silence_s))
        if self._away.issuperset(holders) and rules.rival(record, self.me) is None:
            return

        def claim(now: GroupRecord | None) -> GroupRecord | None:
            return now if now is None or now.id != self.group else rules.claimed(now, self.me)

        clock = asyncio.get_running_loop().time
        entry, mine = await self._register.change(name, claim)
        if mine or self._claim_over is None:
            self._claim_over = clock() + min(CLAIM_S, record.silence_s)
        over = self._claim_over
        while entry.record is not None and entry.record.id == self.group and (holders := rules.holders(entry.record, self.me)):
            if self.me not in entry.record.claims:
                raise JoinFailed(name, self._why_held(entry.record, holders[0]))
            left = min(over, until) - clock()
            if left <= 0 and until < over:
                raise JoinFailed(name, f"the member {holders[0]} has this node's name and has not answered yet: allow a longer time-out")
            if left <= 0:
                self._unanswered = set(holders)
                return
            entry = await self._register.watch(name, entry.revision, left)

    def _why_held(self, record: GroupRecord, holder: MemberId) -> str:
        rival, own = rules.rival(record, self.me), name_of(self.me)
        if rival is not None:
            return f"another node named {own!r} is joining at this moment as {rival}: names of nodes are unique on a store, choose another"
        return (
            f"the node name {own!r} is held by the live member {holder}, until it leaves or has been silent for {record.silence_s:g} s: "
            "stop that node, or choose another name"
        )

    async def _settle(self, name: str, limit: float = float("inf")) -> None:
        """Wait until the record is stable, at most `settle_s` and half of the time until `limit`; not again when the change is repeated."""
        clock = asyncio.get_running_loop().time
        until = self._settle_until = self._settle_until or clock() + min(self._settle_s, (limit - clock()) / 2)
        entry = await self._register.get(name)
        while entry.record is not None and not entry.record.stable and (left := until - clock()) > 0:
            entry = await self._register.watch(name, entry.revision, min(left, PAUSE_S))

    # -- what is told ----------------------------------------------------------------------------------------------------------

    def _hear(self, event: Any) -> None:
        if type(event) is tuple:
            self._remember(event)
        elif type(event) is Recovered:
            self._remember((event.batch, event.low, event.high))
        elif type(event) is Installed:
            self._placer.seen = event.view.id
        elif type(event) is Departed:
            self.stop()
        self._tell(event)

    def _remember(self, delivery: Delivery) -> None:
        batch, low, high = delivery
        size = sum(map(len, batch.payloads))
        self._history.append((delivery, size))
        self._history_messages += high - low + 1
        self._history_bytes += size
        while self._history and (self._history_messages > self._most_messages or self._history_bytes > self._most_bytes):
            (_, low, high), size = self._history.popleft()
            self._history_messages -= high - low + 1
            self._history_bytes -= size

    def history(self) -> list[Delivery]:
        """What was told and is still kept here, in the order of the store."""
        return [delivery for delivery, _ in self._history]

    def check_contact(self) -> None:
        """Find out now whether the store takes writes: one of this member was not answered."""
        if self._keeper is not None:
            self._keeper.check_contact()

    def pause(self) -> None:
        """The application does not take what it is told."""
        if self._follower is not None:
            self._follower.room.clear()

    def resume(self) -> None:
        if self._follower is not None:
            self._follower.room.set()

    # -- leaving ---------------------------------------------------------------------------------------------------------------

    async def leave(self, *, settle: bool = True) -> None:
        """Leaves the record, for as long as the store does not answer. When it is cancelled the others put this member out in time."""
        if self._leaving:
            return
        self._leaving = True
        if self._keeper is not None:
            self._keeper.leaving = True
        name = name_of(self.group)
        self._settle_until = None
        if settle:
            with suppress(StoreUnreachable):
                await self._settle(name)
        for task in self._tasks[1:]:  # the keeper would only come in again
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        while True:
            try:
                after, mine = await self._register.change(name, self._go, self._placer.place_if_unread)
                if mine and after.record is not None:
                    await self._placer.place(after.record)
                await self._presence.end()
                break
            except (StoreUnreachable, StoreFull, Conflict):
                await asyncio.sleep(self._rng.uniform(0.5, 1.0) * PAUSE_S)
        self._hear(Departed("left"))

    def _go(self, record: GroupRecord | None) -> GroupRecord | None:
        return record if record is None or record.id != self.group else rules.left(record, self.me)

    async def give_up(self) -> None:
        """Takes back an attempt to come in, if the store answers soon."""
        if self.group:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GIVE_UP_S):
                    await self.leave(settle=False)

    def stop(self) -> None:
        """Ends without a word to anybody."""
        self._leaving = True
        if self.contact is not None:
            self.contact.close()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    def stats(self) -> dict[str, object]:
        follower, keeper = self._follower, self._keeper
        return {
            "view": 0 if follower is None else follower.epoch,
            "history_messages": self._history_messages,
            "history_bytes": self._history_bytes,
            "record_conflicts": self._register.conflicts,
            "store_unreachable": (0 if follower is None else follower.retries) + (0 if keeper is None else keeper.unreachable),
            "store_losses": 0 if self.contact is None else self.contact.losses,
            "views_placed_for_others": 0 if keeper is None else keeper.helped,
            "members_put_out": 0 if keeper is None else keeper.put_out,
            "merges": 0 if keeper is None else keeper.merges,
            "gaps_told": 0 if follower is None else follower.gaps,
            "foreign_values": 0 if follower is None else follower.foreign,
        }


def _nobody(event: Any) -> None:
    """Tells nobody."""
