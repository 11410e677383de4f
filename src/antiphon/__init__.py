"""Antiphon is group communication for Python: who is in the group, how a message travels, in which order it is delivered.

The names below are the public face. Each is loaded when it is first used (PEP 562), so `import antiphon` costs next to nothing
and needs no extra. `antiphon.sim` is the simulator: `antiphon.sim.World` runs whole groups in virtual time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon import sim as sim
    from antiphon.errors import (
        AntiphonError,
        InvalidName,
        InvalidOption,
        PeerError,
        TooLarge,
        UnknownParent,
        UsageError,
        WorldError,
        WouldBlock,
    )
    from antiphon.model.events import Installed, Orphaned, Why, Writable
    from antiphon.model.frames import Batch
    from antiphon.model.ids import GroupId, MemberId, MessageId
    from antiphon.model.options import GroupOptions, Settings
    from antiphon.model.view import View
    from antiphon.protocol.endpoint import Endpoint

__version__ = "0.1.0"

__all__ = [
    "AntiphonError",
    "Batch",
    "Endpoint",
    "GroupId",
    "GroupOptions",
    "Installed",
    "InvalidName",
    "InvalidOption",
    "MemberId",
    "MessageId",
    "Orphaned",
    "PeerError",
    "Settings",
    "TooLarge",
    "UnknownParent",
    "UsageError",
    "View",
    "Why",
    "WorldError",
    "WouldBlock",
    "Writable",
    "sim",
]

_NAMES_BY_MODULE = {
    "antiphon.errors": (
        "AntiphonError",
        "InvalidName",
        "InvalidOption",
        "PeerError",
        "TooLarge",
        "UnknownParent",
        "UsageError",
        "WorldError",
        "WouldBlock",
    ),
    "antiphon.model.events": ("Installed", "Orphaned", "Why", "Writable"),
    "antiphon.model.frames": ("Batch",),
    "antiphon.model.ids": ("GroupId", "MemberId", "MessageId"),
    "antiphon.model.options": ("GroupOptions", "Settings"),
    "antiphon.model.view": ("View",),
    "antiphon.protocol.endpoint": ("Endpoint",),
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "sim":
        return import_module("antiphon.sim")
    module = _MODULE_BY_NAME.get(name)
    if module is None:
        raise AttributeError(f"module 'antiphon' has no attribute {name!r}: its public names are in antiphon.__all__")
    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
