"""`sends` and `answers`: what the members of a scenario say."""

from __future__ import annotations

from antiphon.debugger.words import Word, whole
from antiphon.errors import TooLarge, UnknownParent, WorldError
from antiphon.model.ids import MessageId
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.scenario.reading import end, take
from antiphon.sim.scenario.scene import MESSAGES_LIMIT, Scene

PAYLOAD_LIMIT = 16 << 20


def say(scene: Scene, words: list[Word]) -> list[str]:
    """`A sends …` and `B answers …`, all words of the line."""
    rest = words[2:]
    name, reply_to = scene.name(words[0]), None
    group = scene.take_group(rest)
    if words[1].text == "answers":
        reply_to = scene.message(take(rest, "the label of the question"))
        take(rest, "`as` and a label for the answer", "as")
    label = take(rest, "a label for the message").text
    payload_by_label = _payloads(label, rest)
    after = _after(scene, rest)
    if after and rest and rest[0].quoted:
        payload_by_label = {label: rest.pop(0).text.encode()}
    end(rest)
    for called, payload in payload_by_label.items():
        scene.check_label(called)
        try:
            scene.label(called, _send(scene, name, payload, reply_to, after, group))
        except (WorldError, UnknownParent, TooLarge) as refused:
            return [f"{called} is refused: {refused}"]
    return []


def _send(scene: Scene, name: str, payload: bytes, reply_to: MessageId | None, after: tuple[MessageId, ...], group: str) -> MessageId:
    ground = scene.ground
    if isinstance(ground, NodeWorld):
        return ground.send(name, payload, reply_to, after, group)
    return ground.send(name, payload, reply_to, after)


def _payloads(label: str, rest: list[Word]) -> dict[str, bytes]:
    """What is said, by label: the quoted text, or the label itself, or many, or many bytes."""
    if rest and rest[0].quoted:
        return {label: rest.pop(0).text.encode()}
    if len(rest) > 1 and rest[1].text == "times":
        count = whole(rest[0].text, 1, MESSAGES_LIMIT)
        del rest[:2]
        return {f"{label}{number}": f"{label}{number}".encode() for number in range(1, count + 1)}
    if len(rest) > 2 and rest[0].text == "of" and rest[2].text == "bytes":
        size = whole(rest[1].text, 1, PAYLOAD_LIMIT)
        del rest[:3]
        return {label: (label.encode() * (size // len(label) + 1))[:size]}
    return {label: label.encode()}


def _after(scene: Scene, rest: list[Word]) -> tuple[MessageId, ...]:
    if not rest or rest[0] != Word("after"):
        return ()
    rest.pop(0)
    after: tuple[MessageId, ...] = ()
    while rest and not rest[0].quoted:
        after += (scene.message(rest.pop(0)),)
    if not after:
        raise ValueError("say after which messages: `B sends x after q1 a1`")
    return after
