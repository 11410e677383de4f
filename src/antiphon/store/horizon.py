"""The records of the ring on a store: the token, who is to be taken out of it, and the horizon that the newest round has found.

`horizon` is for whoever wants to collect and is not in the ring: it looks and takes out who is silent, but does not take part.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import BadStore, Conflict
from antiphon.store.contract import Backend
from antiphon.store.presence import presences
from antiphon.store.records import Moment
from antiphon.store.token import HeldTopic, Token

TOKEN = "ring/token"
HORIZON = "ring/horizon"
ATTEMPTS = 16


class Horizon(Struct, frozen=True):
    """The result of the newest round that is over."""

    round: int = 0
    started: Moment = 0
    moment: Moment = 0
    """The horizon of every topic in which nothing is held."""
    held: dict[str, HeldTopic] = {}
    """What is held in single topics."""

    def of(self, topic: str, now: Moment) -> Moment:
        """Return the horizon of one topic. A hold whose lease is over at `now`, a time of the store, does not count."""
        hold = self.held.get(topic)
        return self.moment if hold is None or not hold.counts(now) else min(self.moment, hold.moment)


async def horizon(backend: Backend) -> Horizon:
    """Return the newest horizon there is, without taking part in the ring. Removes silent nodes from the ring; with nobody left in it,
    the horizon of all topics is the store's time."""
    now = await backend.time()
    token, _ = await read_token(backend, now)
    if token.members:
        token, _, _ = await take_out_silent(backend, now)
    if not token.members:
        return Horizon(started=now, moment=now)
    kept = await read_horizon(backend)
    return replace(kept, moment=min(now, kept.moment))


async def take_out_silent(backend: Backend, now: Moment) -> tuple[Token, int, Moment]:
    """The token without them, its revision, and when somebody may be silent next."""
    for _ in range(ATTEMPTS):
        # The token before the presences: who is in it was present before.
        before, revision = await read_token(backend, now)
        present = await presences(backend, before.members)
        silent = {node for node, (presence, _) in present.items() if presence.silent(now)}
        again = min((presence.beat + presence.timeout + 1 for presence, _ in present.values() if not presence.silent(now)), default=now)
        after = before
        for node in before.members:
            if node not in present or node in silent:
                after = after.left(node)
        if after is not before:
            try:
                revision = (await backend.put(TOKEN, msgspec.json.encode(after), revision)).revision
            except Conflict:
                continue
            if after.cut < before.cut:
                await keep_horizon(backend, after)
        for node in silent:
            with suppress(Conflict):  # it is back
                await backend.remove(present[node][1].key, present[node][1].revision)
        return after, revision, again
    return before, revision, now


async def unvisited(backend: Backend) -> tuple[str, ...]:
    """Return the names of the nodes that the round under way has yet to visit, or their ids where they have none."""
    token, _ = await read_token(backend, 0)
    if not token.waiting:
        return ()
    present = await presences(backend, token.waiting)
    return tuple(sorted((present[node][0].name if node in present else "") or node for node in token.waiting))


async def read_token(backend: Backend, now: Moment) -> tuple[Token, int]:
    record = await backend.get(TOKEN)
    if record is None:
        return Token(round=now), 0
    try:
        return msgspec.json.decode(record.data, type=Token), record.revision
    except msgspec.MsgspecError as error:
        raise BadStore(backend.url, f"the record {TOKEN} is no token of the ring ({error}): remove it, the nodes make a new one") from None


async def read_horizon(backend: Backend) -> Horizon:
    record = await backend.get(HORIZON)
    return Horizon() if record is None else _horizon(backend, record.data)


async def keep_horizon(backend: Backend, token: Token) -> None:
    """Unless a later round has been kept: whoever ended this one may have slept since."""
    ended = Horizon(token.round, token.started, token.low, token.held)
    for _ in range(ATTEMPTS):
        record = await backend.get(HORIZON)
        if record is not None and _horizon(backend, record.data).round >= ended.round:
            return
        with suppress(Conflict):
            await backend.put(HORIZON, msgspec.json.encode(ended), 0 if record is None else record.revision)
            return


def _horizon(backend: Backend, data: bytes) -> Horizon:
    try:
        return msgspec.json.decode(data, type=Horizon)
    except msgspec.MsgspecError as error:
        raise BadStore(backend.url, f"the record {HORIZON} is no horizon ({error}): remove it, the next round makes a new one") from None
