"""`expect`, `check`: what must be so in a scenario, whatever is recorded."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.debugger.pattern import take_pattern
from antiphon.debugger.words import Word, whole
from antiphon.model.ids import MessageId, name_of
from antiphon.sim import oracles
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.scenario import node_shows
from antiphon.sim.scenario.reading import end, take
from antiphon.sim.scenario.scene import Scene
from antiphon.sim.scenario.shows import count_frames, delivered_at

_COUNT_LIMIT = 1_000_000_000
_VIOLATIONS_SHOWN = 20


class Unmet(Exception):
    """An expectation that does not hold; the message says what there is instead."""


def expect(scene: Scene, rest: list[Word]) -> list[str]:
    first = take(rest, "a member, or a number of frames")
    if first.text in _OF_GROUPS and first.text not in scene.ground.names:
        _OF_GROUPS[first.text](scene, rest)
        return []
    if first.text.isdigit():
        _frames(scene, whole(first.text, 0, _COUNT_LIMIT), rest)
        return []
    name = scene.name(first)
    what = take(rest, "`delivered` or `holds`").text
    if what not in _OF_MEMBERS:
        raise ValueError(f"{what!r} is not understood: expect `{name} delivered q1 a1`, or one of {', '.join(_OF_MEMBERS)}")
    _OF_MEMBERS[what](scene, name, rest)
    return []


def check(scene: Scene, rest: list[Word]) -> list[str]:
    """Asks every promise of the group. What is broken is printed, and fails the scenario."""
    end(rest)
    ground = scene.ground
    if isinstance(ground, NodeWorld):
        found = [violation for group in scene.groups for violation in ground.check(group)]
    else:
        found = oracles.check(ground.logs, ground.options.order, ground.options.multicast, ground.options.delivery)
    scene.violations += found
    lines = [str(violation) for violation in found[:_VIOLATIONS_SHOWN]]
    if len(found) > len(lines):
        lines.append(f"and {len(found) - len(lines)} more")
    return lines or ["every promise is kept"]


def _delivered(scene: Scene, name: str, rest: list[Word]) -> None:
    group = scene.take_group(rest)
    expected = _messages(scene, rest)
    delivered = [event.id for event in delivered_at(scene, name, group)]
    if delivered != expected:
        raise Unmet(f"{name} delivered {scene.listed(delivered)}")


def _holds(scene: Scene, name: str, rest: list[Word]) -> None:
    group = scene.take_group(rest)
    count = whole(take(rest, "a number").text, 0, _COUNT_LIMIT)
    end(rest)
    held = scene.endpoint(name, group).ordering.held
    if held != count:
        raise Unmet(f"{name} holds {held}")


def _remembers(scene: Scene, name: str, rest: list[Word]) -> None:
    group = scene.take_group(rest)
    expected = _messages(scene, rest)
    history = scene.nodes.history(name, group)
    if history != expected:
        raise Unmet(f"{name} remembers {scene.listed(history)}")


def _sees(scene: Scene, name: str, rest: list[Word]) -> None:
    """Who is in the view of `name`, in any order."""
    group = scene.take_group(rest)
    expected = [] if [word.text for word in rest] == ["nobody"] else scene.names(rest)
    view = scene.nodes.view_of(name, group)
    seen = [name_of(member) for member in view.members] if view is not None else []
    if sorted(seen) != sorted(expected):
        raise Unmet(f"{name} sees {' '.join(seen) or 'nobody'}")


def _knows(scene: Scene, name: str, rest: list[Word]) -> None:
    expected = [] if [word.text for word in rest] == ["nothing"] else [scene.group(word) for word in rest]
    known = sorted(name_of(info.id) for info in scene.nodes.known(name))
    if known != sorted(expected):
        raise Unmet(f"{name} knows {' '.join(known) or 'nothing'}")


def _converged(scene: Scene, rest: list[Word]) -> None:
    group = scene.take_group(rest)
    end(rest)
    if not scene.nodes.converged(group):
        raise Unmet("; ".join(node_shows.views(scene, [Word("in"), Word(group)])))


def _same_history(scene: Scene, rest: list[Word]) -> None:
    group = scene.take_group(rest)
    take(rest, "`history`", "history")
    end(rest)
    told = node_shows.history(scene, [Word("in"), Word(group)])
    members = [name for name in node_shows.running(scene) if scene.nodes.is_member(name, group)]
    if any(scene.nodes.history(name, group) != scene.nodes.history(members[0], group) for name in members):
        raise Unmet("; ".join(told))


def _messages(scene: Scene, rest: list[Word]) -> list[MessageId]:
    if not rest:
        raise ValueError("say what: the labels in their order, or `nothing`")
    return [] if [word.text for word in rest] == ["nothing"] else [scene.message(word) for word in rest]


def _frames(scene: Scene, expected: int, rest: list[Word]) -> None:
    if not rest:
        raise ValueError("say which frames: `expect 7 data`")
    pattern = take_pattern(rest, scene.ground.names)
    end(rest)
    counted = sum(count_frames(scene, pattern).values())
    if counted != expected:
        raise Unmet(f"there are {counted} {pattern}")


_OF_MEMBERS: dict[str, Callable[[Scene, str, list[Word]], None]] = {
    "delivered": _delivered,
    "holds": _holds,
    "remembers": _remembers,
    "sees": _sees,
    "knows": _knows,
}
_OF_GROUPS: dict[str, Callable[[Scene, list[Word]], None]] = {"converged": _converged, "same": _same_history}
