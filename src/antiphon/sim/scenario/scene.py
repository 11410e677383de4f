"""What a scenario has on stage: its world, and the names it uses for members, groups and messages.

A scenario is about one group whose views are given (`ViewWorld`) or about nodes that make groups (`NodeWorld`); most commands do for both.
Everything that the file can get wrong about names is a ValueError here, with a sentence that says what there is instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from hashlib import blake2b
from typing import TypeAlias

from antiphon.debugger.words import Word
from antiphon.model.control import CONTROL_KINDS
from antiphon.model.events import Event, Orphaned, Recovered, StateArrived
from antiphon.model.frames import KINDS
from antiphon.model.ids import GroupId, MessageId
from antiphon.model.options import Settings
from antiphon.protocol.endpoint import Endpoint
from antiphon.sim.log import MemberLog
from antiphon.sim.network import NetworkModel
from antiphon.sim.node_world import NodeWorld
from antiphon.sim.oracles import Violation
from antiphon.sim.view_world import ViewWorld

MESSAGES_LIMIT = 100_000
GROUPS_LIMIT = 64
EVENTS_LIMIT = 1_000_000

Heard: TypeAlias = tuple[float, GroupId | None, Event]


class Scene:
    def __init__(self, network: NetworkModel | None = None, settings: Settings | None = None, run: str = "") -> None:
        """With a `run` the worlds are recorded, under this name and their number."""
        self.network, self.settings = network or NetworkModel(), settings or Settings()
        self._run = run
        self.recorded: list[ViewWorld | NodeWorld] = []
        self.violations: list[Violation] = []
        self.groups: list[str] = []
        """The groups that nodes have founded, the one that is meant where none is named first."""
        self.heard_by_node: dict[str, list[Heard]] = {}
        """Everything that the applications of nodes were told, and when."""
        self.message_by_label: dict[str, MessageId] = {}
        self.question_by_label: dict[str, tuple[str, int]] = {}
        """Who asked, and the number of the question."""
        self._label_by_message: dict[MessageId, str] = {}
        self._ground: ViewWorld | NodeWorld | None = None
        self._events = 0

    # -- the world -------------------------------------------------------------------------------------------------------------

    @property
    def ground(self) -> ViewWorld | NodeWorld:
        """The world, whichever it is."""
        if self._ground is None:
            raise ValueError("there is no group yet: start with `group fifo members A B C`, or with `nodes A B C`")
        return self._ground

    @property
    def world(self) -> ViewWorld:
        if not isinstance(self.ground, ViewWorld):
            raise ValueError("nodes make their views themselves: this command is for scenarios that start with `group`")
        return self.ground

    @property
    def nodes(self) -> NodeWorld:
        if not isinstance(self.ground, NodeWorld):
            raise ValueError("this command is for scenarios that start with `nodes A B C`")
        return self.ground

    @property
    def begun(self) -> bool:
        return self._ground is not None

    @property
    def trace(self) -> str:
        """The name of the next world in the trace; empty where nothing is recorded."""
        return f"{self._run}-{len(self.recorded) + 1}" if self._run else ""

    def begin(self, ground: ViewWorld | NodeWorld) -> None:
        """A new world, with nothing of the old one."""
        self._ground = ground
        if self._run:
            self.recorded.append(ground)
        self.message_by_label, self._label_by_message, self.question_by_label = {}, {}, {}
        self.groups, self.heard_by_node, self._events = [], {}, 0
        if isinstance(ground, NodeWorld):
            for name in ground.names:
                heard = self.heard_by_node[name] = []
                ground.on_event(name, partial(self._hear, heard))
                ground.on_state(name, partial(self._state, heard), lambda state: None)

    def endpoint(self, name: str, group: str) -> Endpoint:
        """The endpoint of a member; UsageError while it is in no view."""
        return self.ground.endpoint(name, group) if isinstance(self.ground, NodeWorld) else self.ground.endpoint(name)

    def log(self, name: str, group: str) -> MemberLog | None:
        """The log of the latest life of `name` in a group; None when it was never in it."""
        ground = self.ground
        if isinstance(ground, NodeWorld):
            return ground.log_of(name, group) if ground.was_member(name, group) else None
        member = ground.id_of(name)
        (log,) = (log for log in ground.logs if log.member == member)
        return log

    # -- names -----------------------------------------------------------------------------------------------------------------

    def name(self, word: Word) -> str:
        """The member a word names."""
        if word.text not in self.ground.names:
            raise ValueError(f"there is no member {word.text}; the members are {', '.join(self.ground.names)}")
        return word.text

    def names(self, words: Iterable[Word]) -> list[str]:
        return [self.name(word) for word in words]

    def group(self, word: Word) -> str:
        """The group a word names."""
        if word.text not in self.groups:
            raise ValueError(f"there is no group {word.text}; there are {', '.join(self.groups) or 'none'}")
        return word.text

    def found(self, word: Word) -> str:
        """The name of a group that somebody founds."""
        if not _LABEL.fullmatch(word.text) or word.text in _RESERVED:
            raise ValueError(
                f"{word.text!r} cannot be a group: take a letter and then letters, digits, - and _, and no word of the language"
            )
        if word.text not in self.groups:
            if len(self.groups) >= GROUPS_LIMIT:
                raise ValueError(f"a scenario has at most {GROUPS_LIMIT} groups")
            self.groups.append(word.text)
        return word.text

    def take_group(self, rest: list[Word]) -> str:
        """Takes `in g` from the end of a line; without it the first group is meant."""
        if isinstance(self.ground, ViewWorld):
            return ""
        if len(rest) > 1 and rest[-2] == Word("in") and rest[-1].text in self.groups:
            name = rest[-1].text
            del rest[-2:]
            return name
        if not self.groups:
            raise ValueError("there is no group yet: let somebody create one, like `A creates g fifo`")
        return self.groups[0]

    def message(self, word: Word) -> MessageId:
        """The message a word names."""
        message = self.message_by_label.get(word.text)
        if message is None:
            raise ValueError(f"no message is called {word.text!r}")
        return message

    def label(self, text: str, message: MessageId) -> None:
        """Lets a message be called `text` from now on."""
        self.message_by_label[text] = message
        self._label_by_message[message] = text

    def check_label(self, text: str) -> None:
        if not _LABEL.fullmatch(text) or text in _RESERVED:
            raise ValueError(f"{text!r} cannot be a label: take a letter and then letters, digits, - and _, and no word of the language")
        if text in self.message_by_label or text in self.question_by_label:
            raise ValueError(f"there is a message {text!r} already")
        if len(self.message_by_label) + len(self.question_by_label) >= MESSAGES_LIMIT:
            raise ValueError(f"a scenario has at most {MESSAGES_LIMIT:,} messages")

    def called(self, message: MessageId) -> str:
        """A message's label, or `A:3` when it has none."""
        return self._label_by_message.get(message, str(message))

    def listed(self, messages: Iterable[MessageId]) -> str:
        return " ".join(map(self.called, messages)) or "nothing"

    # -- sameness --------------------------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """A hash of everything that happened in this world: equal for equal runs, in every process."""
        return blake2b(repr((self.ground.logs, sorted(self.ground.frames.items()))).encode(), digest_size=16).hexdigest()

    def _state(self, heard: list[Heard]) -> bytes:
        """The state of an application that only remembers: what it was given, and then every message it was told, in their order."""
        told: list[str] = []
        for _, _, event in heard:
            if type(event) is StateArrived:
                told = [event.state.decode()]
            elif type(event) is tuple:
                told += [self.called(MessageId(event[0].sender, seqno)) for seqno in range(event[1], event[2] + 1)]
            elif type(event) is Recovered:
                told += [self.called(MessageId(event.batch.sender, seqno)) for seqno in range(event.low, event.high + 1)]
            elif type(event) is Orphaned:
                told.append(self.called(MessageId(event.batch.sender, event.seqno)))
        return " ".join(told).encode()

    def _hear(self, heard: list[Heard], group: GroupId | None, event: Event) -> None:
        self._events += 1
        if self._events > EVENTS_LIMIT:
            raise ValueError(f"the applications of a scenario are told at most {EVENTS_LIMIT:,} things")
        heard.append((self.ground.now, group, event))


_LABEL = re.compile(r"[A-Za-z][\w-]{0,30}")
_RESERVED = frozenset(
    ("after", "all", "at", "bytes", "frame", "frames", "from", "held", "in", "nothing", "of", "one", "out", "times", "to")
)
_RESERVED |= frozenset((KINDS | CONTROL_KINDS).values())
