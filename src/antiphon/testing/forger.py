"""Frames that are well-formed and wrong: of any kind, with fields that are often those of a real group.

A `Forger` knows what somebody who overheard a group could know (`Hearsay`): its ids, addresses, options and view. It fills the fields of
a frame by their types, with these or with numbers near those that the group uses, and now and then changes one byte. Everything comes
from the generator that it is given, so that a frame that breaks something can be made again. Cost: 2 to 280 µs, mostly 20.
"""

from __future__ import annotations

import random
import typing
from collections.abc import Callable, Sequence
from typing import Any, Protocol, get_args, get_origin

import msgspec

from antiphon.model import codec
from antiphon.model import control as c
from antiphon.model.frames import SEQNO_LIMIT, Batch, DataFrame
from antiphon.model.ids import Address, GroupId, MemberId
from antiphon.model.options import GroupOptions

KINDS: tuple[type[Any], ...] = (*get_args(c.Control), *get_args(DataFrame))
"""Every kind of frame."""
HARMLESS = tuple(kind for kind in KINDS if kind not in (c.Propose, c.Target, c.Install, c.Relay))
"""What a stranger may send without playing a coordinator, or a node that carries others' frames. It cannot be kept from these as long as
nobody has to prove who he is: they may cost a group time, and break nothing for good."""


class Hearsay(Protocol):
    """What is known of the group that is lied about. Asked anew for every field, so it may change."""

    @property
    def group(self) -> GroupId: ...

    @property
    def members(self) -> Sequence[MemberId]: ...

    @property
    def addresses(self) -> Sequence[str]: ...

    @property
    def options(self) -> GroupOptions: ...

    @property
    def view(self) -> int:
        """The id of the newest view."""
        ...


class Overheard(msgspec.Struct, frozen=True):
    """Hearsay that does not change."""

    group: GroupId
    members: tuple[MemberId, ...]
    addresses: tuple[str, ...]
    options: GroupOptions
    view: int


class Forger:
    def __init__(self, hearsay: Hearsay, rng: random.Random) -> None:
        self.hearsay, self.rng = hearsay, rng
        self._named: dict[Any, Callable[[], Any]] = {
            MemberId: self._member,
            GroupId: self._group,
            Address: lambda: Address(rng.choice((*hearsay.addresses, "nowhere", ""))),
            GroupOptions: lambda: rng.choice((hearsay.options, GroupOptions(), GroupOptions(order="total", open=True))),
            c.Wants: lambda: c.Wants(rng.choice(("all", "none", "last", "since", "state", "")), self._number(), rng.choice((0.0, 1e9))),
            int: self._number,
            float: lambda: rng.choice((0.0, -1.0, 5.0, 1e300, float("inf"), float("nan"))),
            bool: lambda: rng.random() < 0.5,
            str: lambda: rng.choice(("", "ballot", "quorum", "options", "full", "unknown", "closed", "gone", "x" * 300)),
            bytes: self._data,
            type(None): lambda: None,
        }

    def frame(self, kind: type[Any]) -> Any:
        for _ in range(20):
            values = {name: self._value(hint) for name, hint in _hints(kind).items()}
            try:
                return kind(**values)
            except Exception:
                continue  # options that cannot be: nobody can even write them down
        return kind(**{field.name: values[field.name] for field in msgspec.structs.fields(kind) if field.required})

    def wire(self, kind: type[Any]) -> bytes:
        """The frame's bytes; sometimes one of them is another."""
        wire = bytearray(codec.encode(self.frame(kind)))
        if self.rng.random() < 0.1:
            wire[self.rng.randrange(len(wire))] = self.rng.randrange(256)
        return bytes(wire)

    def _value(self, hint: Any) -> Any:
        rng = self.rng
        if (named := self._named.get(hint)) is not None:
            return named()
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is typing.Annotated:
            limits = next((limit for limit in arguments[1:] if isinstance(limit, msgspec.Meta)), msgspec.Meta())
            if arguments[0] is int:
                low, high = limits.ge or 0, limits.le if limits.le is not None else (limits.lt or SEQNO_LIMIT + 1) - 1
                return min(max(self._number(), low), high)
            value = self._value(arguments[0])
            return value or (b"x",) if limits.min_length else value
        if origin is typing.Literal:
            return rng.choice(arguments)
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(self._value(arguments[0]) for _ in range(rng.choice((0, 1, 1, 2, 5))))
        if origin is tuple:
            return tuple(self._value(argument) for argument in arguments)
        if origin is list:
            return [self._value(arguments[0]) for _ in range(rng.choice((0, 1, 2, 4, 8)))]
        if origin is dict:
            return {self._value(arguments[0]): self._value(arguments[1]) for _ in range(rng.choice((0, 1, 2)))}
        if arguments:  # one of several
            return self._value(rng.choice(arguments))
        return self.frame(hint)

    def _member(self) -> MemberId:
        members = self.hearsay.members
        return MemberId(self.rng.choice((*members, *members, "x#0000000000000001", "", "y" * 200)))

    def _group(self) -> GroupId:
        return self.rng.choice([self.hearsay.group] * 9 + [GroupId("h#0000000000000002"), GroupId("")])

    def _number(self) -> int:
        view = self.hearsay.view
        near = (view, view, view, view + 1, view + (1 << 32), view + (1 << 32), view + (2 << 32), view - 1)
        return self.rng.choice((0, 0, 1, 1, 2, 3, 5, 10, 1_000, SEQNO_LIMIT, *near))

    def _data(self) -> bytes:
        choice = self.rng.random()
        if choice < 0.2:
            return codec.encode(Batch.compose(self._group(), self._member(), self._number(), max(self._number(), 1), [b"forged"]))
        if choice < 0.3:
            return codec.encode(self.frame(self.rng.choice((c.Install, c.Propose, c.Ping, c.Pong, c.Relay))))
        return self.rng.choice((b"", b"x", b"forged", bytes(100)))


def _hints(kind: type[Any]) -> dict[str, Any]:
    known = _hints_by_kind.get(kind)
    if known is None:
        hints = typing.get_type_hints(kind, include_extras=True)
        known = _hints_by_kind[kind] = {field.name: hints[field.name] for field in msgspec.structs.fields(kind)}
    return known


_hints_by_kind: dict[type[Any], dict[str, Any]] = {}
