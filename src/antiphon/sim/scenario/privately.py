"""What is not for the whole group: words to one member, questions and replies, and words from outside.

    A says "text" to B [in g]
    A asks B "text" as k [in g] · A asks all "text" as k [in g] · B replies to k "text" [in g]
    D tells g "text"

What cannot be said now is printed. What arrives is told by `show story`.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.debugger.words import Word
from antiphon.errors import TooLarge, WorldError
from antiphon.sim.scenario.founding import asks_for_groups
from antiphon.sim.scenario.reading import end, given, take, take_text
from antiphon.sim.scenario.scene import Scene


def says(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    group = scene.take_group(rest)
    data = take_text(rest, "what is said").encode()
    take(rest, "`to` and a member", "to")
    to = scene.name(take(rest, "a member"))
    end(rest)
    return _unless_refused(name, lambda: scene.nodes.send_to(name, to, data, group))


def asks(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    """A question to a member or to all of them; or, to a node as a name server, for groups."""
    if rest[1:2] == [Word("for")]:
        return asks_for_groups(scene, name, rest)
    group = scene.take_group(rest)
    to = None if given(rest, "all") else scene.name(take(rest, "a member, or `all`"))
    data = take_text(rest, "the question").encode()
    take(rest, "`as` and a label for the question", "as")
    label = take(rest, "a label for the question").text
    end(rest)
    scene.check_label(label)

    def ask() -> None:
        scene.question_by_label[label] = (name, scene.nodes.ask(name, data, to, group))

    return _unless_refused(name, ask)


def replies(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    group = scene.take_group(rest)
    take(rest, "`to` and the label of a question", "to")
    label = take(rest, "the label of a question").text
    if label not in scene.question_by_label:
        raise ValueError(f"no question is called {label!r}")
    asker, question = scene.question_by_label[label]
    data = take_text(rest, "the reply").encode()
    end(rest)
    return _unless_refused(name, lambda: scene.nodes.reply(name, asker, question, data, group))


def tells(scene: Scene, name: str, rest: list[Word]) -> list[str]:
    group = scene.group(take(rest, "the name of a group"))
    data = take_text(rest, "what is said").encode()
    end(rest)
    return _unless_refused(name, lambda: scene.nodes.send_guest(name, data, group))


def _unless_refused(name: str, speak: Callable[[], object]) -> list[str]:
    try:
        speak()
    except (WorldError, TooLarge) as refused:
        return [f"{name} is refused: {refused}"]
    return []
