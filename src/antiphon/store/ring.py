"""The ring on a store: a node's part in finding the horizon up to which values may be collected (see `token.py` for why it is right).

A node is in the ring from its first `turn` until it leaves or is silent for `node_timeout_s` of store time. In a turn it shows that it is
there, takes out who is silent and is being waited for, begins a round when the last one is old, and is visited by the token if that is due.

**Promises.** While all answer, the horizon of a topic in which nothing is held is behind the store's time by at most about
`node_timeout_s`; a silent node delays it by its time-out more, once. A node that was taken out because it was silent joins again by itself,
counts that in `absences`, and what it holds counts from then on; what was collected meanwhile its subscriptions see as gaps. With nobody in
the ring the horizon is the store's time.
**Keeps** in the store: `ring/token`, `ring/horizon`, and `ring/nodes/<id>` for each node.
**Costs**, for each node when nothing happens, with the time-out of 30 s: one beat every 10 s, two reads every 5 s, two writes per round,
and a round at most every 10 s, whose beginner lists the nodes: less than half a small write a second. Up to `WATCHERS` nodes watch the
token, and a round is over in some milliseconds; more look for it every 5 s, so that a change of the token does not wake everybody, and a
round takes about 10 s.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress
from random import Random

import msgspec

from antiphon.errors import AntiphonError, BadStore, Conflict, InvalidOption, StoreFull, StoreUnreachable
from antiphon.store.contract import Backend
from antiphon.store.ending import end
from antiphon.store.holdings import Holdings
from antiphon.store.horizon import TOKEN, Horizon, keep_horizon, read_horizon, read_token, take_out_silent
from antiphon.store.presence import Heart
from antiphon.store.records import SECOND, Moment
from antiphon.store.token import MEMBERS, HeldTopic, Token

NODE_TIMEOUT_S = 30.0
WATCHERS = 8
ATTEMPTS = 16

log = logging.getLogger("antiphon.store")


class RingNode:
    def __init__(
        self,
        backend: Backend,
        holdings: Holdings,
        name: str = "",
        *,
        node_timeout_s: float = NODE_TIMEOUT_S,
        chance: Random | None = None,
    ) -> None:
        if not 0 < node_timeout_s <= 86_400:
            raise InvalidOption("node_timeout_s", node_timeout_s, "a node is silent after some seconds, at most a day")
        self.id = f"{chance.getrandbits(64):016x}" if chance else secrets.token_hex(8)
        self.absences = self.rounds = self.unreachable = 0
        self._backend, self._holdings, self._name = backend, holdings, name
        self._timeout_s, self._interval = node_timeout_s, round(node_timeout_s * SECOND) // 3
        self._look_s = node_timeout_s / 6
        self._heart = Heart(backend, self.id, name, round(node_timeout_s * SECOND))
        self._chance = chance or Random()
        self._search_at: Moment = 0
        self._marked = 0
        self._is_member = False
        self._trouble = ""
        """Why it could not take part last time."""
        self._refused: BadStore | None = None
        """The same where waiting does not help."""
        self._ready = asyncio.Event()
        """It is in the ring, or was refused."""
        self._task: asyncio.Task[None] | None = None

    # --- life ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Joins, and takes part from now on; a store that does not answer is tried again."""
        self._task = self._task or asyncio.get_running_loop().create_task(self._run(), name=f"ring node {self.id}")

    async def ready(self, timeout_s: float) -> None:
        """Waits until this node is in the ring: what it takes from then on is protected. StoreUnreachable if that takes too long, BadStore
        if the store is none that one could take part in."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
        except TimeoutError:
            why = f": {self._trouble}" if self._trouble else ""
            raise StoreUnreachable(self._backend.url, f"it took too long to join the ring of its nodes{why}") from None
        if self._refused is not None and not self._is_member:
            raise BadStore(self._refused.url, self._refused.why)

    async def stop(self) -> None:
        """Leaves the ring, unless the store does not answer: then the others find this node silent."""
        task, self._task = self._task, None
        await end(task)
        with suppress(AntiphonError, TimeoutError):
            async with asyncio.timeout(min(5.0, self._timeout_s)):
                await self.leave()

    @property
    def is_member(self) -> bool:
        return self._is_member

    def stats(self) -> dict[str, object]:
        return {
            "member": self._is_member,
            "absences": self.absences,
            "rounds": self.rounds,
            "unreachable": self.unreachable,
            "holding": self._holdings.oldest,
        }

    async def _run(self) -> None:
        while True:
            revision, watched = 0, False
            try:
                async with asyncio.timeout(self._timeout_s):
                    token, revision = await self.turn()
                watched, self._trouble, self._refused = len(token.members) <= WATCHERS, "", None
                if watched:
                    await self._backend.watch(TOKEN, revision, self._look_s)
            except (AntiphonError, TimeoutError) as error:
                self.unreachable += 1
                if str(error) != self._trouble:
                    log.warning("node %s of the ring on %s cannot take part: %s", self.id, self._backend.url, error)
                self._trouble, watched = str(error), False
                if isinstance(error, BadStore):
                    self._refused = error
                    self._ready.set()
            if not watched:
                await asyncio.sleep(self._look_s * self._chance.uniform(0.5, 1.0))

    # --- turns -----------------------------------------------------------------------------------------------------------------

    async def turn(self, *, fresh: bool = False) -> tuple[Token, int]:
        """Does what is due now, and returns the token with its revision. `fresh`: begins a round if none is under way."""
        for _ in range(ATTEMPTS):
            # The time comes first: whatever this node takes after it has told what it holds, it takes at this time or later. Asked for
            # afterwards, a value taken in between could be beyond its lease at the time that is told.
            now = await self._time()
            if self._heart.due(now):
                await self._heart.beat(now)
            before, revision = await read_token(self._backend, now)
            if now >= self._search_at and (self._begins(before, now, fresh) or self._is_late(before, now)):
                before, revision, self._search_at = await take_out_silent(self._backend, now)
                self._search_at = min(self._search_at, now + self._interval)
            if self.id not in before.members:
                # Present before a member, or a member without presence would be taken for silent.
                await self._enter(before, now)
            # A ring is made first and goes round next: the number of a round always follows one that is in the store.
            after = self._played(before, now, fresh) if revision else before.joined(self.id)
            if after is before:
                return before, revision
            try:
                record = await self._backend.put(TOKEN, msgspec.json.encode(after), revision)
            except Conflict:
                continue
            self._is_member = True
            self._ready.set()
            if not revision:
                continue
            if after.round > before.round or after.cut < before.cut:
                await self._over(after)
            return after, record.revision
        return before, revision

    def _begins(self, token: Token, now: Moment, fresh: bool) -> bool:
        return not token.cut and (fresh or now - token.started >= self._interval)

    def _is_late(self, token: Token, now: Moment) -> bool:
        """The round waits for others, and so long that they may be silent."""
        return token.cut > 0 and now - token.started > self._interval and token.waiting != (self.id,)

    async def _enter(self, token: Token, now: Moment) -> None:
        if len(token.members) >= MEMBERS:
            raise StoreFull(self._backend.url, f"{MEMBERS:,} nodes are in its ring already")
        if self._is_member:
            self._is_member = False
            self.absences += 1
            log.warning("node %s was silent for too long and had to leave the ring on %s; it joins again", self.id, self._backend.url)
        await self._heart.beat(now)

    def _played(self, token: Token, now: Moment, fresh: bool) -> Token:
        """No await from here to the end: this is the moment at which the cut passes through this node."""
        token = token.joined(self.id)
        if self._begins(token, now, fresh):
            token = token.begun(now)
        while self.id in token.waiting:
            # The last to be visited in the first cut is at once the first in the second; alone it is the whole round.
            if token.cut == 1 and token.round > self._marked:
                # Once in a round. A visit whose answer was lost may have happened, and the token be in its second cut: to begin
                # remembering anew would forget what was held since, and handed on to who has told already.
                self._holdings.mark()
                self._marked = token.round
            told, held = self._held()
            token = token.visited(self.id, now if told is None else min(now, told), held)
        return token

    def _held(self) -> tuple[Moment | None, dict[str, HeldTopic]]:
        """Return what was held since the first visit: in all topics alike, and in single ones."""
        holds = self._holdings.lowest_by_topic
        everywhere = holds.pop("", None)
        named = {topic: HeldTopic(hold.oldest, hold.until, self._name or self.id, hold.reader) for topic, hold in holds.items()}
        return None if everywhere is None else everywhere.oldest, named

    async def leave(self) -> None:
        for _ in range(ATTEMPTS):
            before, revision = await read_token(self._backend, 0)
            if self.id not in before.members:
                break
            after = before.left(self.id, *self._held())
            with suppress(Conflict):
                await self._backend.put(TOKEN, msgspec.json.encode(after), revision)
                if after.cut < before.cut:
                    await self._over(after)
                break
        self._is_member = False
        self._ready.clear()
        await self._heart.stop()

    # --- the horizon -----------------------------------------------------------------------------------------------------------

    async def horizon(self, patience_s: float = 5.0) -> Horizon:
        """The horizon of a round that begins now, if the others answer in so many seconds; else the newest there is. It may lie a
        little before now: a node tells the time at which its turn began."""
        clock = asyncio.get_running_loop().time
        until = clock() + patience_s
        under_way, _ = await read_token(self._backend, await self._time())
        while True:
            token, revision = await self.turn(fresh=True)
            kept = await read_horizon(self._backend)
            left_s = until - clock()
            if kept.round > under_way.round or (left_s <= 0 and token.cut):
                return kept
            if token.cut:
                await self._backend.watch(TOKEN, revision, min(left_s, self._look_s))

    async def _over(self, token: Token) -> None:
        if not token.cut:
            self.rounds += 1
            await keep_horizon(self._backend, token)

    async def _time(self) -> Moment:
        now = await self._backend.time()
        self._holdings.saw(now)
        return now
