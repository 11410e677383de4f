"""What `show` prints: the state of a world in lines that people read and files record.

Messages are called by their labels, or `A:3` when they have none. Every list is in an order that does not depend on chance.
"""

from __future__ import annotations

import re

from antiphon.debugger.pattern import Pattern, take_pattern
from antiphon.debugger.words import Word, duration
from antiphon.model.ids import MessageId, name_of
from antiphon.sim.log import Delivered
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.scenario import node_shows
from antiphon.sim.scenario.reading import end, take
from antiphon.sim.scenario.scene import Scene


def show(scene: Scene, rest: list[Word]) -> list[str]:
    what = take(rest, "what to show").text
    if what == "held" and rest and rest[0].text == "frames":
        rest.pop(0)
        what = "held frames"
    if what not in _SHOWS:
        raise ValueError(f"{what!r} cannot be shown; there are {', '.join(_SHOWS)}")
    return _SHOWS[what](scene, rest)


def delivered_at(scene: Scene, name: str, group: str) -> list[Delivered]:
    """What the latest incarnation of `name` delivered, in its order."""
    log = scene.log(name, group)
    return [] if log is None else [event for event in log.events if type(event) is Delivered]


def count_frames(scene: Scene, pattern: Pattern) -> dict[tuple[str, str, str], int]:
    """Frames put on each link so far."""
    return {link: count for link, count in scene.ground.frames.items() if pattern.matches(pattern.point or "out", *link)}


def _deliveries(scene: Scene, rest: list[Word]) -> list[str]:
    group = scene.take_group(rest)
    lines = []
    for name in _at(scene, rest):
        events = delivered_at(scene, name, group)
        told = [scene.called(event.id) + (f" (without {scene.listed(event.lost)})" if event.lost else "") for event in events]
        lines.append(f"{name} delivered {' '.join(told) or 'nothing'}{'' if scene.ground.alive(name) else ', and crashed'}")
    return lines


def _held(scene: Scene, rest: list[Word]) -> list[str]:
    group = scene.take_group(rest)
    lines = []
    for name in _at(scene, rest):
        endpoint = scene.endpoint(name, group)
        whys = [(message, endpoint.why(message)) for message in scene.message_by_label.values()]
        told = [_waiting(scene, message, why.waits_for) for message, why in whys if why.state == "held"]
        lines.append(f"{name} holds {', '.join(told) or 'nothing'}")
    return lines


def _why(scene: Scene, rest: list[Word]) -> list[str]:
    group = scene.take_group(rest)
    message = scene.message(take(rest, "the label of a message"))
    take(rest, "`at` and a member", "at")
    name = scene.name(take(rest, "a member"))
    end(rest)
    why = scene.endpoint(name, group).why(message)
    reason = why.reason
    for other in why.waits_for:
        reason = re.sub(rf"(?<![\w-]){re.escape(str(other))}(?!\d)", scene.called(other), reason)
    return [f"{scene.called(message)} {reason} ({why.state} at {name})"]


def _frames(scene: Scene, rest: list[Word]) -> list[str]:
    pattern = take_pattern(rest, scene.ground.names)
    end(rest)
    counted = count_frames(scene, pattern)
    rank = {name: place for place, name in enumerate(scene.ground.names)}
    lines = []
    for link in sorted({(source, destination) for source, destination, _ in counted}, key=lambda link: (rank[link[0]], rank[link[1]])):
        kinds = sorted((kind, count) for (source, destination, kind), count in counted.items() if (source, destination) == link)
        lines.append(f"{link[0]} -> {link[1]}: {', '.join(f'{count} {kind}' for kind, count in kinds)}")
    return lines or ["no frames"]


def _held_frames(scene: Scene, rest: list[Word]) -> list[str]:
    end(rest)
    lines = []
    for held in scene.ground.tap.held:
        passage = held.passage
        lines.append(f"{passage.kind} from {name_of(passage.source)} to {name_of(passage.destination)}, by `{held.rule}`")
    return lines or ["the rules hold nothing"]


def _rules(scene: Scene, rest: list[Word]) -> list[str]:
    end(rest)
    return [f"{rule}: acted on {rule.acted} of {rule.seen}" for rule in scene.ground.rules] or ["no rules"]


def _stats(scene: Scene, rest: list[Word]) -> list[str]:
    group = scene.take_group(rest)
    take(rest, "`at` and a member", "at")
    name = scene.name(take(rest, "a member"))
    end(rest)
    ground = scene.ground
    stats = ground.member(name, group).stats() if isinstance(ground, NodeWorld) else ground.endpoint(name).stats()
    view = scene.endpoint(name, group).view
    stats["view"] = view.number  # the whole id says nothing to people
    return [f"{key}: {_plain(value)}" for key, value in sorted(stats.items())]


def _time(scene: Scene, rest: list[Word]) -> list[str]:
    end(rest)
    return [duration(scene.ground.now)]


def _at(scene: Scene, rest: list[Word]) -> list[str]:
    """The members after `at`, or all; of nodes, those that have started."""
    ground = scene.ground
    if not rest:
        return [name for name in ground.names if not isinstance(ground, NodeWorld) or ground.started(name)]
    take(rest, "`at` and members", "at")
    return scene.names(rest)


def _waiting(scene: Scene, message: MessageId, waits_for: tuple[MessageId, ...]) -> str:
    others = [other for other in waits_for if other != message]
    return scene.called(message) + (f" (waits for {scene.listed(others)})" if others else "")


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{_plain(key)} {_plain(inner)}" for key, inner in sorted(value.items(), key=str)) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else name_of(str(value))


_SHOWS = {
    "deliveries": _deliveries,
    "held": _held,
    "why": _why,
    "stats": _stats,
    "frames": _frames,
    "held frames": _held_frames,
    "rules": _rules,
    "time": _time,
    "views": node_shows.views,
    "history": node_shows.history,
    "groups": node_shows.groups,
    "members": node_shows.members,
    "story": node_shows.story,
}
