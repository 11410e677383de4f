"""`expect`, `check`: what must be so in a scenario, whatever is recorded."""

from __future__ import annotations

from antiphon.debugger.pattern import take_pattern
from antiphon.debugger.words import Word, whole
from antiphon.sim import oracles
from antiphon.sim.scenario.reading import end, take
from antiphon.sim.scenario.scene import Scene
from antiphon.sim.scenario.shows import count_frames, delivered_at

_COUNT_LIMIT = 1_000_000_000
_VIOLATIONS_SHOWN = 20


class Unmet(Exception):
    """An expectation that does not hold; the message says what there is instead."""


def expect(scene: Scene, rest: list[Word]) -> list[str]:
    first = take(rest, "a member, or a number of frames")
    if first.text.isdigit():
        _frames(scene, whole(first.text, 0, _COUNT_LIMIT), rest)
        return []
    name = scene.name(first)
    what = take(rest, "`delivered` or `holds`").text
    if what == "delivered":
        _delivered(scene, name, rest)
    elif what == "holds":
        count = whole(take(rest, "a number").text, 0, _COUNT_LIMIT)
        end(rest)
        held = scene.world.endpoint(name).ordering.held
        if held != count:
            raise Unmet(f"{name} holds {held}")
    else:
        raise ValueError(f"{what!r} is not understood: expect `{name} delivered q1 a1` or `{name} holds 2`")
    return []


def check(scene: Scene, rest: list[Word]) -> list[str]:
    """Asks every promise of the group. What is broken is printed, and fails the scenario."""
    end(rest)
    options = scene.world.options
    found = oracles.check(scene.world.logs, options.order, options.multicast, options.delivery)
    scene.violations += found
    lines = [str(violation) for violation in found[:_VIOLATIONS_SHOWN]]
    if len(found) > len(lines):
        lines.append(f"and {len(found) - len(lines)} more")
    return lines or ["every promise is kept"]


def _delivered(scene: Scene, name: str, rest: list[Word]) -> None:
    if not rest:
        raise ValueError("say what: the labels in their order, or `nothing`")
    expected = [] if [word.text for word in rest] == ["nothing"] else [scene.message(word) for word in rest]
    delivered = [event.id for event in delivered_at(scene, name)]
    if delivered != expected:
        raise Unmet(f"{name} delivered {scene.listed(delivered)}")


def _frames(scene: Scene, expected: int, rest: list[Word]) -> None:
    if not rest:
        raise ValueError("say which frames: `expect 7 data`")
    pattern = take_pattern(rest, scene.world.names)
    end(rest)
    counted = sum(count_frames(scene, pattern).values())
    if counted != expected:
        raise Unmet(f"there are {counted} {pattern}")
