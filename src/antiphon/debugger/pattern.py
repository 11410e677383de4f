"""Which frames are meant: a kind, a source, a destination, and where they pass. What is not said is any.

Written `data from a to b out`; `frames` is every kind. Names are members' names, so a pattern outlives a restart. A word that
could be taken for something else is quoted: `data from "in"`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.debugger.words import Word, quote
from antiphon.model.control import CONTROL_KINDS
from antiphon.model.frames import KINDS

Point: TypeAlias = Literal["out", "in"]
"""Where a frame passes: `out` of its sender, before it travels, or `in` to its receiver, before the receiver sees it."""

ANY_KIND = "frames"


class Pattern(Struct, frozen=True, kw_only=True):
    kind: str = ANY_KIND
    source: str | None = None
    destination: str | None = None
    point: Point | None = None

    def matches(self, point: Point, source: str, destination: str, kind: str) -> bool:
        return (
            self.kind in (ANY_KIND, kind)
            and (self.source is None or self.source == source)
            and (self.destination is None or self.destination == destination)
            and (self.point is None or self.point == point)
        )

    def __str__(self) -> str:
        words = [self.kind]
        if self.source is not None:
            words += ["from", _name(self.source)]
        if self.destination is not None:
            words += ["to", _name(self.destination)]
        if self.point is not None:
            words.append(self.point)
        return " ".join(words)


def take_pattern(words: list[Word], members: Collection[str] | None = None) -> Pattern:
    """Takes a pattern from the front of `words` and leaves what follows it. Names must be among `members` where those are known;
    anything wrong is a ValueError."""
    kind, source, destination = ANY_KIND, None, None
    point: Point | None = None
    if words and not words[0].quoted and words[0].text in _KIND_WORDS:
        kind = _KIND_WORDS[words.pop(0).text]
    while words and not words[0].quoted and words[0].text in ("from", "to", "out", "in"):
        word = words.pop(0).text
        if word in ("out", "in"):
            if point is not None:
                raise ValueError("say `out` or `in` once")
            point = "out" if word == "out" else "in"
            continue
        if not words:
            raise ValueError(f"a member's name is missing after `{word}`")
        name = words.pop(0).text
        if members is not None and name not in members:
            raise ValueError(f"there is no member {name}; the members are {', '.join(members)}")
        if (source if word == "from" else destination) is not None:
            raise ValueError(f"say `{word}` once")
        if word == "from":
            source = name
        else:
            destination = name
    return Pattern(kind=kind, source=source, destination=destination, point=point)


def _name(name: str) -> str:
    return quote(name) if " " in name or '"' in name or name in ("from", "to", "out", "in") else name


_KIND_WORDS = {kind: kind for kind in (KINDS | CONTROL_KINDS).values()} | {"frames": ANY_KIND, "frame": ANY_KIND}
