"""The story that the demo tells: four friends, two questions, and a slow line to the fourth.

C asks A, B and D "Did you visit Delhi?" and then "Did you visit Chennai?". A answers the second, B the first, both after reading
both questions. The line from C to D is slow, so D has the answers before the questions. What D reads depends on the order alone:
the same messages, sent at the same times, arrive at the same times in every order.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from antiphon.model.ids import MessageId, name_of
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.log import Delivered, Received, Sent
from antiphon.sim.network import Constant, LinkModel, NetworkModel
from antiphon.sim.view_world import ViewWorld

FRIENDS = ("A", "B", "C", "D")
READER = "D"
_NEAR_S, _FAR_S = 0.010, 0.160


class Line(Struct, frozen=True):
    """One message at one reader: sent, arrived and read (all in virtual seconds). `answers` is the text of the question."""

    author: str
    reader: str
    text: str
    answers: str | None
    sent_at: float
    arrived_at: float
    read_at: float

    @property
    def waited_s(self) -> float:
        return self.read_at - self.arrived_at


class Story(Struct, frozen=True):
    """What everyone read under `order`, in the order in which they read it."""

    order: str
    lines: tuple[Line, ...]

    def read_by(self, reader: str) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.reader == reader)


def tell(order: str) -> Story:
    """Plays the story in a world of its own, with the real protocols."""
    network = NetworkModel(latency=Constant(_NEAR_S), links={("C", READER): LinkModel(latency=Constant(_FAR_S))}, keyed=True)
    # Patient members: with the usual intervals B or A would repair D's gap before the slow line does, and spoil the story.
    patience = Settings(digest_s=1.0, heartbeat_s=2.0, nack_s=1.0)
    world = ViewWorld(seed=7, members=FRIENDS, options=GroupOptions(order=order), settings=patience, network=network)
    texts: dict[MessageId, str] = {}
    answered: dict[MessageId, MessageId] = {}

    def say(author: str, text: str, question: str | None = None) -> None:
        parent = next((message for message, known in texts.items() if known == question), None)
        message = world.send(author, text.encode(), reply_to=parent)
        texts[message] = text
        if parent is not None:
            answered[message] = parent

    world.at(0.000, partial(say, "C", "Did you visit Delhi?"))
    world.at(0.060, partial(say, "C", "Did you visit Chennai?"))
    world.at(0.080, partial(say, "A", "No", "Did you visit Chennai?"))
    world.at(0.095, partial(say, "B", "Yes", "Did you visit Delhi?"))
    world.run(1.0)

    sent_at = {event.id: event.at for log in world.logs for event in log.events if type(event) is Sent}
    lines: list[Line] = []
    for log in world.logs:
        arrived_at = {event.id: event.at for event in log.events if type(event) is Received}
        for event in log.events:
            if type(event) is Delivered:
                message = event.id
                question = texts[answered[message]] if message in answered else None
                author, reader = name_of(message.sender), name_of(log.member)
                lines.append(Line(author, reader, texts[message], question, sent_at[message], arrived_at[message], event.at))
    return Story(order, tuple(lines))
