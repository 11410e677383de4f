"""A node without await: a program's door to its groups, on the event loop that all such nodes of the process share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from antiphon.api.archived_group import ArchivedGroup as AsyncArchivedGroup
from antiphon.api.group import Group as AsyncGroup
from antiphon.api.group import State
from antiphon.api.store_group import StoreGroup as AsyncStoreGroup
from antiphon.model.control import GroupInfo
from antiphon.model.ids import Address, GroupId
from antiphon.model.options import Settings
from antiphon.runtime.node import Node as AsyncNode
from antiphon.runtime.transports.contract import Transport
from antiphon.sync.archived_group import ArchivedGroup
from antiphon.sync.background import background
from antiphon.sync.group import Group
from antiphon.sync.shelf import Stream
from antiphon.sync.store import Store
from antiphon.sync.store_group import StoreGroup
from antiphon.sync.topic import Topic
from antiphon.trace.trace import Trace

if TYPE_CHECKING:
    from antiphon.runtime.security import Certificates, PreSharedKey

_CLOSE_S = 5.0


class Node:
    def __init__(
        self,
        name: str,
        *,
        transport: str | Transport = "udp",
        bind: str | None = None,
        seeds: Sequence[str] = (),
        credentials: PreSharedKey | Certificates | None = None,
        keys: Mapping[str, PreSharedKey] | None = None,
        settings: Settings | None = None,
        name_server: bool = True,
        metrics: str | int | None = None,
        store: str | Store | None = None,
        outbox: str | os.PathLike[str] | None = None,
        trace: Trace | str | os.PathLike[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        **more: Any,
    ) -> None:
        """The arguments are those of `antiphon.Node`; `store` is an address, or a store of `antiphon.sync` that is open."""
        self._background = background()
        self._store = store if isinstance(store, Store) else None
        self._node = AsyncNode(
            name,
            transport=transport,
            bind=bind,
            seeds=seeds,
            credentials=credentials,
            keys=keys,
            settings=settings,
            name_server=name_server,
            metrics=metrics,
            store=store.inside if isinstance(store, Store) else store,
            outbox=outbox,
            trace=trace,
            directory=directory,
            **more,
        )

    # -- life ------------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Opens the store and the network, and makes the node known. `with` does it."""
        self._background.run(self._node.start())
        self._background.opened(self._node)

    def close(self, *, timeout: float = _CLOSE_S) -> None:
        """Leaves all groups, at most `timeout` seconds long, and closes the network and the store."""
        self._background.run(self._node.close(timeout=timeout))
        self._background.closed(self._node)

    def abandon(self, why: str) -> None:
        """Ends the node without a word to anybody: whatever waits ends or raises NotInGroup."""
        self._background.call(lambda: self._node.abandon(why))
        self._background.closed(self._node)

    @property
    def name(self) -> str:
        return self._node.name

    @property
    def address(self) -> Address:
        """Where other nodes reach this one: give it to them as a seed."""
        return self._node.address

    @property
    def settings(self) -> Settings:
        return self._node.settings

    @property
    def metrics_address(self) -> Address | None:
        """Where the metrics are read, as host:port; None when there is no such endpoint."""
        return self._node.metrics_address

    # -- groups ----------------------------------------------------------------------------------------------------------------

    def create(
        self, name: str, *, type: Any = None, state: State | None = None, description: str = "", on: str = "network", **options: Any
    ) -> Group:
        """Found a group; `options` are those of `GroupOptions`. Raises GroupExists if a group of this name is in reach. `type` is what its
        messages are, bytes if it is left out. `state` gives the application's state to those who join with `history="state"`, as of the
        last message that was read here: it is called in the thread that reads, when it asks for the next message, or in a thread of
        Antiphon while no thread is handling one. With `on="store"` the group is on the node's store."""
        return self._wrap(self._background.run(self._node.create(name, type=type, state=state, description=description, on=on, **options)))

    def join(
        self,
        group: str,
        *,
        type: Any = None,
        history: str | tuple[str, float] = "all",
        create: bool = False,
        at: Sequence[str] = (),
        state: State | None = None,
        timeout: float | None = None,
        on: str = "network",
        **options: Any,
    ) -> Group:
        """Join a group by its name or id and return when this node is in it. A group that is not there yet is waited for, up to
        `Settings.join_s` or `timeout` seconds. `history` says what is wanted of the past: `all`, `none`, `("last", count)`,
        `("since", time)`, or `state`: then `group.state` is the application's state from a member that gives one, and the messages after it
        are read. It is None if this node founded the group; if no member gives a state the join fails with the reasons. With `create` the
        group is founded with `options` if nobody has: all who do so meet in one. With `partitions="majority"` it is founded only together
        with all founders: `expect` is their number, or a list of their names. `at` names addresses of nodes that know the group; without it
        the node's seeds are asked. `on="store"`: it is a group on the node's store. Raises JoinFailed, or TimedOut after `timeout`; both
        say what was waited for."""
        joining = self._node.join(group, type=type, history=history, create=create, at=at, state=state, timeout=timeout, on=on, **options)
        return self._wrap(self._background.run(joining))

    def groups(self) -> list[GroupInfo]:
        """The groups that this node is in, and those that it has heard of."""
        return self._background.call(self._node.groups)

    def discovered(self) -> Stream[GroupInfo]:
        """The groups that this node has heard of and is not in, and from now on those it hears of."""
        return Stream(self._background.call(self._node.discovered))

    def vanished(self) -> Stream[GroupInfo]:
        """Stream the groups that end from now on, as they were last known: their last member left. A group whose members all crashed is not
        heard to end."""
        return Stream(self._background.call(self._node.vanished))

    def ask_groups(self, address: str, *, timeout: float | None = None) -> list[GroupInfo]:
        """Ask the node at `address` which groups it knows, and return them. Raises AskRefused if that node was opened with
        `name_server=False`, and TimedOut if no whole answer comes within `timeout` seconds, at most `Settings.question_s`."""
        return self._background.run(self._node.ask_groups(address, timeout=timeout))

    # -- durable topics --------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """Where the durable topics of this node are."""
        if self._store is None:
            self._store = Store(self._node.store)
        return self._store

    def topic(self, name: str, *, type: Any = None) -> Topic:
        """A durable topic on the node's store, under this node's name where it publishes. `type` is what its values are, or bytes."""
        return self.store.topic(name, type=type)

    # -- the network around ----------------------------------------------------------------------------------------------------

    def reject(self, group: GroupId) -> None:
        """Does not want to hear of a group again."""
        self._background.call(lambda: self._node.reject(group))

    def advertise(self) -> None:
        """Ask all nodes for their groups now, rejected ones too. A node does it when it starts and repeats it with growing pauses."""
        self._background.call(self._node.advertise)

    def send_outside(self, group: str, data: bytes) -> int:
        """Send to an open group that this node is not in; return the number of the message at this node. Raises SendRefused if the group
        is not known, is closed, or has refused an earlier message."""
        return self._background.run(self._node.send_outside(group, data))

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values."""
        return self._background.call(self._node.stats)

    def _wrap(self, group: AsyncGroup) -> Group:
        if isinstance(group, AsyncStoreGroup):
            return StoreGroup(group, self._background)
        if isinstance(group, AsyncArchivedGroup):
            return ArchivedGroup(group, self._background)
        return Group(group, self._background)
