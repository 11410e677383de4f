"""The way into a group on a store: what may be chosen, and an attempt that fails leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from antiphon.api.group import State
from antiphon.api.store_group import StoreGroup
from antiphon.errors import Conflict, InvalidOption, JoinFailed, StoreUnreachable
from antiphon.model.control import Wants
from antiphon.model.ids import GroupId, MemberId, name_of
from antiphon.model.payload import PayloadCodec
from antiphon.store.groups.membership import How, StoreMembership
from antiphon.store.groups.record import SILENCE_S
from antiphon.store.records import TopicOptions

if TYPE_CHECKING:
    from antiphon.api.node import Node

_OPTIONS = ("silence_s", "retention_s")
_CLAIM_SHARE = 0.9
"""The share of a join's time in which the holder of the node's name may answer; the rest is for the error that says so."""


async def enter(
    node: Node,
    group: str,
    codec: PayloadCodec | None,
    state: State | None,
    *,
    how: How,
    wants: Wants,
    options: dict[str, Any],
    timeout: float | None,
) -> StoreGroup:
    """Founds or joins a group on the store."""
    store, chosen = node.store, _chosen(options)
    if state is not None:
        raise InvalidOption("state", state, "nobody is asked for a state in a group on a store: leave it out")
    if wants.kind not in ("all", "none", "last"):
        raise InvalidOption("history", wants.kind, "a group on a store has its messages there: choose 'all', 'none' or ('last', count)")
    settings, backend = node.settings, store.reach.backend
    member = StoreMembership(
        backend,
        node.name,
        rng=node.rng,
        settle_s=settings.settle_s,
        history_messages=settings.history_messages,
        history_bytes=settings.history_bytes,
        lost_s=store.settings.lost_s,
    )
    name = name_of(group)
    id = None if name == group else GroupId(group)
    topic_options = TopicOptions(shared=True, retention_s=chosen.get("retention_s", TopicOptions().retention_s))

    patience = settings.join_s if timeout is None else timeout
    begun = asyncio.get_running_loop().time()

    async def come_in() -> None:
        await member.enter(
            name,
            how=how,
            id=id,
            wants=wants,
            options=topic_options,
            silence_s=chosen.get("silence_s", SILENCE_S),
            until=begun + _CLAIM_SHARE * patience,
        )

    try:
        await store.reach.insist(come_in, patience)
        topic = store.topic(member.topic)
        # Each incarnation of a node publishes under a name of its own: the one that it replaces is fenced, and no other.
        for old in member.replaced:
            await store.reach.insist(partial(backend.register, member.topic, _publisher_of(old)))
        store.publisher(member.topic, _publisher_of(member.me))
        await topic.register()
    except BaseException as error:
        # It may be in the record all the same. If it cannot leave now, the others put it out when it does not beat.
        _background(member.give_up(), f"gives up {name}")
        if isinstance(error, StoreUnreachable | Conflict):
            raise JoinFailed(group, f"{error}: try again") from None
        raise
    entered = StoreGroup(node, store, member, topic, codec)
    node.remember(entered)
    member.begin(entered.take)
    return entered


def _publisher_of(member: MemberId) -> str:
    return f"{member} says"


def _background(work: Coroutine[Any, Any, None], name: str) -> None:
    task = asyncio.get_running_loop().create_task(work, name=name)
    _UNFINISHED.add(task)
    task.add_done_callback(_UNFINISHED.discard)


_UNFINISHED: set[asyncio.Task[None]] = set()
"""Nobody waits for these; the event loop alone would let them be collected."""


def _chosen(options: dict[str, Any]) -> dict[str, float]:
    if options.get("order", "total") != "total":
        raise InvalidOption("order", options["order"], "a group on a store has the order of the store: leave it out, or say 'total'")
    chosen = {name: value for name, value in options.items() if name != "order"}
    for name, value in chosen.items():
        if name not in _OPTIONS:
            raise InvalidOption(name, value, f"a group on a store has no network: choose among {', '.join(_OPTIONS)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise InvalidOption(name, value, "give a number of seconds above 0")
    return chosen
