"""Time passes, links and members fail, views change, and the debugger's rules come and go."""

from __future__ import annotations

import re

from antiphon.debugger.pattern import take_pattern
from antiphon.debugger.rule import parse_rule
from antiphon.debugger.words import Word, duration, seconds
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.scenario.reading import end, take
from antiphon.sim.scenario.scene import Scene

TIME_LIMIT_S = 3_600.0
SETTLE_S = 60.0


def at(scene: Scene, rest: list[Word]) -> list[str]:
    when = _seconds(rest, "a time, like 20ms")
    if when < scene.ground.now:
        raise ValueError(f"it is {duration(scene.ground.now)} already")
    return _run_until(scene, when)


def wait(scene: Scene, rest: list[Word]) -> list[str]:
    return _run_until(scene, scene.ground.now + _seconds(rest, "a duration, like 50ms"))


def settle(scene: Scene, rest: list[Word]) -> list[str]:
    limit_s = _seconds(rest, "a duration") if rest else SETTLE_S
    if scene.ground.now + limit_s > TIME_LIMIT_S:
        raise ValueError(f"a scenario lasts at most {TIME_LIMIT_S:,.0f} s")
    ground = scene.ground
    if isinstance(ground, NodeWorld):
        settled = ground.wait_for(lambda: all(map(ground.at_rest, scene.groups)), limit_s)
    else:
        settled = ground.settle(limit_s)
    return [] if settled else [f"not at rest after {duration(limit_s)}"]


def cut(scene: Scene, rest: list[Word]) -> list[str]:
    source = scene.name(take(rest, "a member"))
    one_way = bool(rest) and rest[0].text == "->"
    if one_way:
        rest.pop(0)
    destination = scene.name(take(rest, "a second member"))
    end(rest)
    scene.ground.cut(source, destination)
    if not one_way:
        scene.ground.cut(destination, source)
    return []


def split(scene: Scene, rest: list[Word]) -> list[str]:
    groups: list[list[str]] = [[]]
    for word in rest:
        if word.text == "|":
            groups.append([])
        else:
            groups[-1].append(scene.name(word))
    if len(groups) < 2:
        raise ValueError("say where the split is: `split A | B C`")
    scene.ground.partition(groups)
    return []


def heal(scene: Scene, rest: list[Word]) -> list[str]:
    end(rest)
    scene.ground.heal()
    return []


def crash(scene: Scene, rest: list[Word]) -> list[str]:
    scene.ground.crash(_one(scene, rest))
    return []


def restart(scene: Scene, rest: list[Word]) -> list[str]:
    scene.ground.restart(_one(scene, rest))
    return []


def pause(scene: Scene, rest: list[Word]) -> list[str]:
    scene.ground.pause(_one(scene, rest))
    return []


def resume(scene: Scene, rest: list[Word]) -> list[str]:
    scene.ground.resume(_one(scene, rest))
    return []


def stop(scene: Scene, rest: list[Word]) -> list[str]:
    """`stop reading A`: its application takes nothing any more."""
    take(rest, "`reading`", "reading")
    scene.nodes.stop_reading(_one(scene, rest))
    return []


def start(scene: Scene, rest: list[Word]) -> list[str]:
    take(rest, "`reading`", "reading")
    scene.nodes.start_reading(_one(scene, rest))
    return []


def slow(scene: Scene, rest: list[Word]) -> list[str]:
    name = scene.name(take(rest, "a member"))
    scene.ground.slow(name, _seconds(rest, "the time a frame takes, like 10ms"))
    return []


def skew(scene: Scene, rest: list[Word]) -> list[str]:
    name = scene.name(take(rest, "a member"))
    offset = take(rest, "an offset, like +50ms or -50ms").text
    offset_s = -seconds(offset[1:]) if offset.startswith("-") else seconds(offset.removeprefix("+"))
    rate = "1"
    if rest:
        take(rest, "`rate`", "rate")
        rate = take(rest, "a rate, like 1.01").text
        if not _RATE.fullmatch(rate):
            raise ValueError(f"{rate!r} is no rate: write a number, like 1.01")
    end(rest)
    scene.ground.skew(name, offset_s, float(rate))
    return []


def view(scene: Scene, rest: list[Word]) -> list[str]:
    scene.world.install_view(scene.names(rest))
    return []


def rule(scene: Scene, words: list[Word]) -> list[str]:
    """A rule, all words of the line; or `drop held`."""
    if [word.text for word in words[:2]] == ["drop", "held"]:
        rest = words[2:]
        pattern = take_pattern(rest, scene.ground.names)
        end(rest)
        return _none_held(scene.ground.tap.drop_held(pattern))
    scene.ground.rules.append(parse_rule(words, scene.ground.names))
    return []


def clear(scene: Scene, rest: list[Word]) -> list[str]:
    """What the rules hold stays held until it is released or dropped."""
    take(rest, "`rules`", "rules")
    end(rest)
    scene.ground.rules.clear()
    return []


def release(scene: Scene, rest: list[Word]) -> list[str]:
    labels: list[Word] = []
    count = None
    if rest and rest[0].text in ("one", "all"):
        count = 1 if rest.pop(0).text == "one" else None
    else:
        while rest and rest[0].text in scene.message_by_label:
            labels.append(rest.pop(0))
        if not labels:
            raise ValueError("say what to release: `all`, `one`, or the labels of messages, and then perhaps `data from A to B`")
    pattern = take_pattern(rest, scene.ground.names)
    end(rest)
    if not labels:
        return _none_held(scene.ground.release(pattern, None, count))
    return [line for label in labels for line in _none_held(scene.ground.release(pattern, scene.message(label), 1), label.text)]


def _none_held(count: int, label: str = "") -> list[str]:
    return [] if count else [f"no frame of {label} is held" if label else "no such frame is held"]


def _one(scene: Scene, rest: list[Word]) -> str:
    name = scene.name(take(rest, "a member"))
    end(rest)
    return name


def _seconds(rest: list[Word], what: str) -> float:
    value = seconds(take(rest, what).text)
    end(rest)
    return value


def _run_until(scene: Scene, when: float) -> list[str]:
    if when > TIME_LIMIT_S:
        raise ValueError(f"a scenario lasts at most {TIME_LIMIT_S:,.0f} s")
    scene.ground.run_until(when)
    return []


_RATE = re.compile(r"\d{1,3}(\.\d{1,9})?")
