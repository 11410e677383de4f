"""What a node has to say for the logs: its events as they come, and once a second what its stats have that was not there before.

Keeps, per reason of a drop, how many have been told and when. `logs.py` lists the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from logging import INFO, WARNING
from typing import Any

from antiphon.model.events import Departed, Installed, JoinWaiting, MissedMessages, NameTaken, NoMajority, Synchronised
from antiphon.model.ids import Address, name_of
from antiphon.model.refusals import OWN_LACK, SAYS, sentence
from antiphon.runtime import logs

_LOOK_S = 1.0
_TELL_AGAIN_S = 60.0
_REFUSED_LIMIT = 1_024


class Journal:
    def __init__(self, node: str, transport: str, stats: Callable[[], Mapping[str, Any]]) -> None:
        self._node, self._transport, self._stats = node, transport, stats
        self._begun = False
        self._timer: asyncio.TimerHandle | None = None
        self._told: dict[tuple[str, str], tuple[int, float]] = {}
        """How many drops have been told, and when last: by where, and the reason."""
        self._suspects: dict[str, set[str]] = {}
        self._connections = self._lost = 0
        self._refused: dict[tuple[str, str], None] = {}
        """Peers and causes of refusals that have been logged; without the peer where the cause is this node's alone."""

    def begin(self, address: str) -> None:
        self._begun = True
        self._write(INFO, "node.started", address=address, transport=self._transport)
        if logs.is_heard():
            self._look_later()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._begun:
            self._begun = False
            self._write(INFO, "node.closed")

    def hear(self, group: str, event: Any, absent: Mapping[Any, Any]) -> None:
        """An event of a group, which is not a delivery; `absent` are former members that did not say that they leave."""
        kind, name = type(event), name_of(group)
        if kind is Installed:
            self._hear_view(name, event, absent)
        elif kind is Departed:
            level = INFO if event.reason == "left" else WARNING
            self._write(level, "group.left", group=name, reason=event.reason, unsaid=event.unsaid)
            self._suspects.pop(group, None)
            for where, reason in [told for told in self._told if told[0] == f"group:{name}"]:
                del self._told[where, reason]
        elif kind is NoMajority:
            self._write(WARNING, "group.no_majority", group=name, view=event.view.number, members=len(event.view.members))
        elif kind is Synchronised:
            self._write(INFO, "group.synchronised", group=name, view=event.view.number)
        elif kind is MissedMessages:
            self._write(WARNING, "group.gap", group=name, senders=[name_of(sender) for sender in dict(event.lost)])
        elif kind is JoinWaiting:
            self._write(WARNING, "group.waiting", group=name, reason=event.reason)
        elif kind is NameTaken:
            self._write(WARNING, "group.name_taken", group=name, id=group, other=event.other)

    def unwritable(self, path: Any) -> None:
        """What the node should remember could not be written."""
        self._write(WARNING, "directory.unwritable", file=path)

    def look(self, now: float) -> None:
        """Tells what the stats have that they had not the last time."""
        stats = self._stats()
        transport: Mapping[str, Any] = stats.get("transport", {})
        self._tell_connections(transport)
        self._tell_refused(stats.get("refused_by_peer", {}))
        for where, drops in _drops(stats):
            self._tell_drops(now, where, drops)
        for group, each in stats.get("groups", {}).items():
            self._tell_suspects(group, set(each.get("suspects", ())))

    def _hear_view(self, name: str, event: Installed, absent: Mapping[Any, Any]) -> None:
        before = () if event.previous is None else event.previous.members
        fields: dict[str, Any] = {"group": name, "view": event.view.number, "members": len(event.view.members)}
        if event.previous is None:
            self._write(INFO, "group.joined", **fields)
            return
        gone = [member for member in before if member not in event.view]
        lost = [name_of(member) for member in gone if member in absent]
        fields["joined"] = [name_of(member) for member in event.view.members if member not in before]
        fields["left"] = [name_of(member) for member in gone if member not in absent]
        said = {key: value for key, value in fields.items() if value or key not in ("joined", "left")}
        if lost:
            self._write(WARNING, "group.lost_members", **said, lost=lost)
        elif len(event.sides) > 1:
            self._write(WARNING, "group.merged", **said, sides=len(event.sides))
        else:
            self._write(INFO, "group.view", **said)

    def _tell_connections(self, transport: Mapping[str, Any]) -> None:
        made, lost = int(transport.get("connections_made", 0)), int(transport.get("drops", {}).get("connection_lost", 0))
        if made > self._connections:
            self._write(INFO, "transport.connected", connections=made - self._connections, links=transport.get("links", 0))
        if lost > self._lost:
            self._write(WARNING, "transport.disconnected", connections=lost - self._lost, links=transport.get("links", 0))
        self._connections, self._lost = made, lost

    def _tell_refused(self, refused: Mapping[str, Mapping[str, int]]) -> None:
        for peer, counts in refused.items():
            for cause, count in counts.items():
                key = ("" if cause in OWN_LACK else peer, cause)
                if key not in self._refused:
                    self._refused[key] = None
                    if len(self._refused) > _REFUSED_LIMIT:
                        del self._refused[next(iter(self._refused))]
                    self._write(WARNING, "security.refused", peer=peer, cause=cause, why=sentence(Address(peer), cause, count))

    def _tell_drops(self, now: float, where: str, drops: Mapping[str, int]) -> None:
        for reason, count in drops.items():
            if reason == "connection_lost" or (where == "node" and reason in SAYS):
                continue  # told as such
            told, when = self._told.get((where, reason), (0, float("-inf")))
            if count < told:
                told = 0  # counted anew, in another view
            if count > told and now - when >= _TELL_AGAIN_S:
                self._write(WARNING, "drops", where=where, reason=reason, count=count - told, total=count)
                self._told[where, reason] = count, now

    def _tell_suspects(self, group: str, suspects: set[str]) -> None:
        before = self._suspects.get(group, set())
        if new := suspects - before:
            self._write(WARNING, "group.suspects", group=name_of(group), suspects=sorted(map(name_of, new)))
        if trusted := before - suspects:
            self._write(INFO, "group.trusts", group=name_of(group), members=sorted(map(name_of, trusted)))
        self._suspects[group] = suspects

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()

        def look() -> None:
            self._timer = loop.call_later(_LOOK_S, look)
            self.look(loop.time())

        self._timer = loop.call_later(_LOOK_S, look)

    def _write(self, level: int, event: str, **fields: Any) -> None:
        logs.log(level, event, {"node": self._node, **fields})


def _drops(stats: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Where something was dropped, and how many by reason."""
    yield "node", stats.get("drops", {})
    transport: Mapping[str, Any] = stats.get("transport", {})
    yield "transport", transport.get("drops", {})
    yield "security", transport.get("security", {}).get("drops", {})
    for group, each in stats.get("groups", {}).items():
        yield f"group:{name_of(group)}", each.get("drops", {})
