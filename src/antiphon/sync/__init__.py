"""The same API without async, for scripts, notebooks and programs that have threads instead of an event loop.

    import antiphon.sync

    with antiphon.sync.Node("ana") as node:
        chat = node.join("trip", create=True, order="semantic")
        question = chat.send(b"Did you visit Delhi?")
        for message in chat:
            print(message.sender, message.data, message.reply_to)

    with antiphon.sync.open_store("sqlite:crash.db", name="hotline") as store:
        store.topic("crash").publish(b"A1, kilometre 3")

Every call of `antiphon.Node`, of its groups, and of a store and its topics is here, under its name and with its parameters; what is
awaited there waits here. Beside them, `group.receive(timeout=…)` is the next message. All calls may be made from any thread. The nodes
and stores of a process share one event loop in one thread in the background; calls from that thread raise UsageError.
"""

from __future__ import annotations

from antiphon.sync.archived_group import ArchivedGroup
from antiphon.sync.group import Group
from antiphon.sync.letter import Letter
from antiphon.sync.node import Node
from antiphon.sync.shelf import Stream
from antiphon.sync.store import Store, open_store
from antiphon.sync.store_group import StoreGroup
from antiphon.sync.subscription import Subscription
from antiphon.sync.topic import Topic

__all__ = ["ArchivedGroup", "Group", "Letter", "Node", "Store", "StoreGroup", "Stream", "Subscription", "Topic", "open_store"]
