"""A rule: what to do with frames that match, and with which of them.

    drop|hold|delay DURATION|duplicate|reorder  KIND  [from NAME] [to NAME] [out|in]  [first N | every Nth | with P%]

`drop` forgets the frame. `hold` keeps it until it is released. `delay` lets it go on later. `duplicate` lets it go on twice.
`reorder` keeps it until the next frame of the rule on the same link has passed. Without `out` or `in` a rule acts on the way out.
`first 3` acts on the first three frames that match, `every 2nd` on every second, `with 10%` on a tenth of them, by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.debugger.pattern import Pattern, Point, take_pattern
from antiphon.debugger.words import Word, duration, nth, ordinal, seconds, share, split, whole

Action: TypeAlias = Literal["drop", "hold", "delay", "duplicate", "reorder"]
ACTIONS: dict[str, Action] = {"drop": "drop", "hold": "hold", "delay": "delay", "duplicate": "duplicate", "reorder": "reorder"}

_DELAY_LIMIT_S = 86_400.0
_COUNT_LIMIT = 1_000_000_000


class Rule(Struct, kw_only=True):
    """One rule and how often it was asked (`seen`: frames that matched) and acted. `str(rule)` is its text again."""

    action: Action
    pattern: Pattern
    delay_s: float = 0.0
    first: int | None = None
    every: int | None = None
    share: float | None = None
    seen: int = 0
    acted: int = 0

    @classmethod
    def parse(cls, text: str, members: Collection[str] | None = None) -> Rule:
        """The rule a line says; ValueError with what is wrong and what would be right."""
        return parse_rule(split(text), members)

    def acts(self, point: Point, source: str, destination: str, kind: str, chance: Callable[[], float]) -> bool:
        """Whether to act on this frame. Counts it, so ask once per frame and place."""
        if not self.pattern.matches(point, source, destination, kind):
            return False
        self.seen += 1
        if self.first is not None and self.seen > self.first:
            return False
        if self.every is not None and self.seen % self.every:
            return False
        if self.share is not None and chance() >= self.share:
            return False
        self.acted += 1
        return True

    def __str__(self) -> str:
        words = [self.action, *([duration(self.delay_s)] if self.action == "delay" else []), str(self.pattern)]
        if self.first is not None:
            words.append(f"first {self.first}")
        if self.every is not None:
            words.append(f"every {nth(self.every)}")
        if self.share is not None:
            words.append(f"with {self.share * 100:g}%")
        return " ".join(words)


def parse_rule(words: list[Word], members: Collection[str] | None = None) -> Rule:
    """The rule these words say; ValueError when they say none."""
    rest = words[:]
    action = ACTIONS.get(rest.pop(0).text) if rest and not rest[0].quoted else None
    if action is None:
        raise ValueError(f"a rule starts with {', '.join(ACTIONS)}, like `drop data from a to b first 1`")
    delay_s = 0.0
    if action == "delay":
        if not rest:
            raise ValueError("say how long: `delay 50ms data`")
        delay_s = seconds(rest.pop(0).text)
        if not 0.0 < delay_s <= _DELAY_LIMIT_S:
            raise ValueError("a delay is above 0 and at most a day")
    before = len(rest)
    pattern = take_pattern(rest, members)
    if len(rest) == before:
        raise ValueError(f"say which frames: `{action} data`, `{action} nack from a`, `{action} frames`")
    if pattern.point is None:
        pattern = Pattern(kind=pattern.kind, source=pattern.source, destination=pattern.destination, point="out")
    rule = Rule(action=action, pattern=pattern, delay_s=delay_s)
    if rest:
        word = rest.pop(0).text
        if word not in ("first", "every", "with"):
            raise ValueError(f"{word!r} is not understood here: after the frames comes `first 3`, `every 2nd` or `with 10%`")
        if not rest:
            raise ValueError(f"`{word}` needs a number, as in `first 3`, `every 2nd` or `with 10%`")
        value = rest.pop(0).text
        if word == "first":
            rule.first = whole(value, 1, _COUNT_LIMIT)
        elif word == "every":
            rule.every = ordinal(value)
        else:
            rule.share = share(value)
    if rest:
        raise ValueError(f"{rest[0].text!r} is too much: a rule ends before it")
    return rule
