"""What a scenario has on stage: its world, and the names it uses for members and messages.

Everything that the file can get wrong about names is a ValueError here, with a sentence that says what there is instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

from antiphon.debugger.words import Word
from antiphon.model.ids import MessageId
from antiphon.model.options import Settings
from antiphon.sim.network import NetworkModel
from antiphon.sim.oracles import Violation
from antiphon.sim.world import World

MESSAGES_LIMIT = 100_000


class Scene:
    def __init__(self, network: NetworkModel | None = None, settings: Settings | None = None) -> None:
        self.network, self.settings = network or NetworkModel(), settings or Settings()
        self.violations: list[Violation] = []
        self.message_by_label: dict[str, MessageId] = {}
        self._label_by_message: dict[MessageId, str] = {}
        self._world: World | None = None

    @property
    def world(self) -> World:
        if self._world is None:
            raise ValueError("there is no group yet: start with `group fifo members A B C`")
        return self._world

    @property
    def begun(self) -> bool:
        return self._world is not None

    def begin(self, world: World) -> None:
        """A new group, with nothing of the old one."""
        self._world = world
        self.message_by_label, self._label_by_message = {}, {}

    # -- names -----------------------------------------------------------------------------------------------------------------

    def name(self, word: Word) -> str:
        """The member a word names."""
        if word.text not in self.world.names:
            raise ValueError(f"there is no member {word.text}; the members are {', '.join(self.world.names)}")
        return word.text

    def names(self, words: Iterable[Word]) -> list[str]:
        return [self.name(word) for word in words]

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
        if text in self.message_by_label:
            raise ValueError(f"there is a message {text!r} already")
        if len(self.message_by_label) >= MESSAGES_LIMIT:
            raise ValueError(f"a scenario has at most {MESSAGES_LIMIT:,} messages")

    def called(self, message: MessageId) -> str:
        """A message's label, or `A:3` when it has none."""
        return self._label_by_message.get(message, str(message))

    def listed(self, messages: Iterable[MessageId]) -> str:
        return " ".join(map(self.called, messages)) or "nothing"

    # -- sameness --------------------------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """A hash of everything that happened in this world: equal for equal runs, in every process."""
        return blake2b(repr((self.world.logs, sorted(self.world.frames.items()))).encode(), digest_size=16).hexdigest()


_LABEL = re.compile(r"[A-Za-z][\w-]{0,30}")
_RESERVED = frozenset(("after", "all", "at", "bytes", "data", "digest", "fragment", "frame", "frames", "from", "held", "in", "nack"))
_RESERVED |= {"nothing", "of", "one", "out", "record", "times", "to"}
