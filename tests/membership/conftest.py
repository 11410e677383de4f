"""Worlds of real nodes that remember, beside their logs, every event that their applications were told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest
from msgspec import structs

from antiphon.errors import NoQuorum, WouldBlock
from antiphon.model.events import Event
from antiphon.model.ids import GroupId, MessageId, name_of
from antiphon.model.options import GroupOptions, Settings
from antiphon.sim.log import Delivered
from antiphon.sim.network import NetworkModel
from antiphon.sim.node_world import NodeWorld
from antiphon.testing import QUICK

EventT = TypeVar("EventT")


class Company(NodeWorld):
    """A world whose nodes' events can be asked for."""

    def __init__(
        self, nodes: Sequence[str] = "abc", seed: int = 7, settings: Settings = QUICK, network: NetworkModel | None = None, **more: Any
    ) -> None:
        super().__init__(seed, nodes, settings, network, **more)
        self.heard: dict[str, list[tuple[GroupId | None, Event]]] = {name: [] for name in self.names}
        for name in self.names:
            self.on_event(name, lambda group, event, name=name: self.heard[name].append((group, event)))  # type: ignore[misc]

    def told(self, name: str, kind: type[EventT]) -> list[EventT]:
        """The events of one kind that a node's application was told, in order."""
        return [event for _, event in self.heard[name] if type(event) is kind]

    def seen(self, name: str, group: str = "g") -> str:
        """The names of the members of a node's view, sorted; nothing when it is in none."""
        view = self.view_of(name, group)
        return "" if view is None else "".join(sorted(name_of(member) for member in view.members))

    def stream(self, name: str, group: str = "g") -> list[MessageId]:
        """What a node delivered in its latest membership, in order."""
        return [event.id for event in self.log_of(name, group).events if type(event) is Delivered]

    def payloads(self, name: str, group: str = "g") -> list[bytes]:
        """The payloads of a member's history, in the canonical order."""
        return [batch.payload(seqno) for batch, low, high in self.member(name, group).history() for seqno in range(low, high + 1)]

    def burst(self, names: Sequence[str], count: int = 3, word: str = "m") -> list[MessageId]:
        """Every one of `names` sends `count` messages, in turn, as far as it may."""
        sent = []
        for number in range(count):
            for name in names:
                try:
                    sent.append(self.send(name, f"{word}{number}{name}".encode()))
                except (WouldBlock, NoQuorum):
                    continue
        return sent

    def alike(self, names: Sequence[str] | None = None, group: str = "g") -> bool:
        """Whether all have the same history."""
        histories = [self.history(name, group) for name in names or self.names]
        return all(history == histories[0] for history in histories)


@pytest.fixture
def quick() -> Any:
    """The settings of these worlds, with some of them changed."""
    return lambda **changed: structs.replace(QUICK, **changed)


@pytest.fixture
def company() -> type[Company]:
    return Company


@pytest.fixture
def gathered() -> Any:
    """A world whose nodes are in one group; the options of the group by name, those of the world in `settings`, `network`, `seed`, …"""

    def gather(nodes: Sequence[str] = "abc", seed: int = 7, *, world: dict[str, Any] | None = None, **options: Any) -> Company:
        made = Company(nodes, seed, **(world or {}))
        assert made.gather(options=GroupOptions(**options))
        return made

    return gather
