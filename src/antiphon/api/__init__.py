"""Nodes and groups as users see them, for any driver.

A `Node` owns one `NodeCore` and a `Driver`, which has the clock, the timers and the network. Whatever happens (a call of the user, frames,
a timer) goes into the core; one turn later the core is drained: its frames go to the driver, its events to the groups, and one timer is
set anew. So many calls and many frames share a turn, and with it a batch, when there is much to do, and nothing waits when there is not.

    driver ──frames──▶ NodeCore ──events──▶ Group ──▶ inbox ──▶ async for message in group
       ◀──frames────  (one turn)  ◀──submit── send

The calls are coroutines of asyncio. `runtime` gives them the real loop and network, `sim` a loop in virtual time and a simulated one.
"""

from __future__ import annotations

from antiphon.api.driver import Cancellable, Driver, Receive
from antiphon.api.group import Group
from antiphon.api.message import Letter, Message, MessageBatch
from antiphon.api.node import Node
from antiphon.model.events import ViewChange
from antiphon.model.payload import BadPayload

__all__ = ["BadPayload", "Cancellable", "Driver", "Group", "Letter", "Message", "MessageBatch", "Node", "Receive", "ViewChange"]
