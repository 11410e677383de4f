"""The open groups that a node sends to without being in them.

One `Outsider` per group, made when the first message is sent and forgotten when it has failed. Keeps at most `OUTSIDERS_LIMIT`; when
there would be more, one is forgotten that has nothing under way. Costs nothing in turns in which nothing is sent to such a group.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from antiphon.errors import InvalidOption, JoinFailed
from antiphon.model.codec import Frame
from antiphon.model.control import Taken
from antiphon.model.events import Event, GuestRefused
from antiphon.model.ids import Address, GroupId, new_member_id
from antiphon.model.options import Settings
from antiphon.protocol.outsider import Outsider
from antiphon.protocol.timers import Timers

OUTSIDERS_LIMIT = 1_024


class Outsiders:
    def __init__(
        self,
        name: str,
        *,
        rng: random.Random,
        settings: Settings,
        send: Callable[[tuple[Address, ...], Frame], None],
        tell: Callable[[GroupId, Event], None],
        timers: Timers,
    ) -> None:
        """`name` is the node's: each of its outsiders has it, and an id of its own."""
        self._name, self._rng, self._settings = name, rng, settings
        self._send, self._tell, self._timers = send, tell, timers
        self.drops: Counter[str] = Counter()
        """Everything that was dropped, by reason."""
        self._outsider_by_group: dict[GroupId, Outsider] = {}
        self.touched: dict[GroupId, Outsider] = {}
        """Those that may have something to send at the end of this turn."""

    def __contains__(self, group: GroupId) -> bool:
        return group in self._outsider_by_group

    def __len__(self) -> int:
        return len(self._outsider_by_group)

    def submit(self, now: float, group: GroupId, payload: bytes, contacts: Sequence[Address]) -> int:
        """Accepts a message to a group whose members are at `contacts`, as far as that is known; returns the outsider's number for it."""
        outsider = self._outsider_by_group.get(group)
        if outsider is None:
            if not contacts:
                raise JoinFailed(group, "the group is not known: advertise, or ask a node that knows it")
            self._make_room(group)
            outsider = Outsider(
                new_member_id(self._name, self._rng),
                group,
                contacts,
                rng=self._rng,
                settings=self._settings,
                now=now,
                send=self._send,
                tell=lambda event: self._hear(group, event),
                timers=self._timers,
                drops=self.drops,
            )
            self._outsider_by_group[group] = outsider
        else:
            outsider.use(now, contacts)
        number = outsider.submit(now, payload)
        self.touched[group] = outsider
        return number

    def receive(self, now: float, frame: Taken, source: Address) -> None:
        """What a member says of the messages handed to it."""
        outsider = self.touched[frame.group] = self._outsider_by_group[frame.group]
        outsider.receive_taken(now, frame, source)

    def end_turn(self, now: float) -> None:
        for outsider in self.touched.values():
            outsider.end_turn(now)
        self.touched.clear()

    def _hear(self, group: GroupId, event: Event) -> None:
        if type(event) is GuestRefused:
            self._outsider_by_group.pop(group, None)  # it takes nothing any more; the next message makes another
        self._tell(group, event)

    def _make_room(self, group: GroupId) -> None:
        if len(self._outsider_by_group) >= OUTSIDERS_LIMIT:
            spare = next((known for known, outsider in self._outsider_by_group.items() if not outsider.waiting), None)
            if spare is None:
                raise InvalidOption("group", group, f"a node sends to at most {OUTSIDERS_LIMIT:,} groups from outside")
            del self._outsider_by_group[spare]
