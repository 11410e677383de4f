"""Antiphon is group communication for Python: who is in the group, how a message travels, in which order it is delivered.

The names below are the public face. Each is loaded when it is first used (PEP 562), so `import antiphon` costs next to nothing
and needs no extra. `antiphon.sync` is the same without async, `antiphon.sim` runs whole groups in virtual time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon import sim as sim
    from antiphon import sync as sync
    from antiphon.api.group import Group
    from antiphon.api.message import Letter, Message, MessageBatch, MessageIds
    from antiphon.errors import (
        AntiphonError,
        AskRefused,
        BadFile,
        BadStore,
        Conflict,
        Fenced,
        GroupExists,
        InvalidName,
        InvalidOption,
        JoinFailed,
        NoQuorum,
        NotAMember,
        NotInGroup,
        PeerError,
        SendRefused,
        StoreFull,
        StoreUnreachable,
        TimedOut,
        TooLarge,
        TopicTaken,
        UnknownParent,
        UnknownTopic,
        UsageError,
        WorldError,
        WouldBlock,
    )
    from antiphon.model.control import GroupInfo
    from antiphon.model.events import (
        MissedMessages,
        NoMajority,
        Stabilised,
        StoreLost,
        StoreRestored,
        Synchronised,
        Undelivered,
        ViewChange,
        Why,
    )
    from antiphon.model.ids import MessageId
    from antiphon.model.options import GroupOptions, Settings
    from antiphon.model.payload import BadPayload
    from antiphon.model.view import View
    from antiphon.runtime.node import Node
    from antiphon.runtime.run import run
    from antiphon.runtime.security import Certificates, PreSharedKey
    from antiphon.store import (
        Accepted,
        Collected,
        CollectionHold,
        Gap,
        Published,
        Queued,
        Store,
        StoreSettings,
        SubscriberInfo,
        Subscription,
        Topic,
        TopicInfo,
        TopicOptions,
        Value,
        open_store,
    )

__version__ = "0.1.0"

__all__ = [
    "Accepted",
    "AntiphonError",
    "AskRefused",
    "BadFile",
    "BadPayload",
    "BadStore",
    "Certificates",
    "Collected",
    "CollectionHold",
    "Conflict",
    "Fenced",
    "Gap",
    "Group",
    "GroupExists",
    "GroupInfo",
    "GroupOptions",
    "InvalidName",
    "InvalidOption",
    "JoinFailed",
    "Letter",
    "Message",
    "MessageBatch",
    "MessageId",
    "MessageIds",
    "MissedMessages",
    "NoMajority",
    "NoQuorum",
    "Node",
    "NotAMember",
    "NotInGroup",
    "PeerError",
    "PreSharedKey",
    "Published",
    "Queued",
    "SendRefused",
    "Settings",
    "Stabilised",
    "Store",
    "StoreFull",
    "StoreLost",
    "StoreRestored",
    "StoreSettings",
    "StoreUnreachable",
    "SubscriberInfo",
    "Subscription",
    "Synchronised",
    "TimedOut",
    "TooLarge",
    "Topic",
    "TopicInfo",
    "TopicOptions",
    "TopicTaken",
    "Undelivered",
    "UnknownParent",
    "UnknownTopic",
    "UsageError",
    "Value",
    "View",
    "ViewChange",
    "Why",
    "WorldError",
    "WouldBlock",
    "open_store",
    "run",
    "sim",
    "sync",
]

_NAMES_BY_MODULE = {
    "antiphon.api.group": ("Group",),
    "antiphon.api.message": ("Letter", "Message", "MessageBatch", "MessageIds"),
    "antiphon.errors": (
        "AntiphonError",
        "AskRefused",
        "BadFile",
        "BadStore",
        "Conflict",
        "Fenced",
        "GroupExists",
        "InvalidName",
        "InvalidOption",
        "JoinFailed",
        "NoQuorum",
        "NotAMember",
        "NotInGroup",
        "PeerError",
        "SendRefused",
        "StoreFull",
        "StoreUnreachable",
        "TimedOut",
        "TooLarge",
        "TopicTaken",
        "UnknownParent",
        "UnknownTopic",
        "UsageError",
        "WorldError",
        "WouldBlock",
    ),
    "antiphon.model.control": ("GroupInfo",),
    "antiphon.model.events": (
        "MissedMessages",
        "NoMajority",
        "Stabilised",
        "StoreLost",
        "StoreRestored",
        "Synchronised",
        "Undelivered",
        "ViewChange",
        "Why",
    ),
    "antiphon.model.ids": ("MessageId",),
    "antiphon.model.options": ("GroupOptions", "Settings"),
    "antiphon.model.payload": ("BadPayload",),
    "antiphon.model.view": ("View",),
    "antiphon.runtime.node": ("Node",),
    "antiphon.runtime.run": ("run",),
    "antiphon.runtime.security": ("Certificates", "PreSharedKey"),
    "antiphon.store": (
        "Accepted",
        "Collected",
        "CollectionHold",
        "Gap",
        "Published",
        "Queued",
        "Store",
        "StoreSettings",
        "SubscriberInfo",
        "Subscription",
        "Topic",
        "TopicInfo",
        "TopicOptions",
        "Value",
        "open_store",
    ),
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> object:
    if name in ("sim", "sync"):
        return import_module(f"antiphon.{name}")
    module = _MODULE_BY_NAME.get(name)
    if module is None:
        raise AttributeError(f"module 'antiphon' has no attribute {name!r}: its public names are in antiphon.__all__")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
