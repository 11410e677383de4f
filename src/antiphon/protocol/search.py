"""The search for a group that a node wants to join and has not heard of.

Advertises, and asks the given contacts as name servers, again and again. When the group is heard of, what else has its name gets
`answer_s` to be heard too, because two groups of one name must not be told apart by chance; then `found` is called. If several were heard
of, those count of which a member has told since the search began: a frame may have been forged, or a group may be gone.

`given_up` is called with the reason when nothing was heard for `join_s`; or, where the group is then to be founded, as soon as every
contact has answered or had the time to. A search that lasts longer than a second says what it waits for (`waiting`).

Keeps one timer and one open question per contact.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.errors import WouldBlock
from antiphon.model.control import GroupInfo
from antiphon.model.events import NameServerAnswer
from antiphon.model.ids import Address
from antiphon.model.options import Settings
from antiphon.protocol.discovery.directory import Directory
from antiphon.protocol.membership.founding import WAITING_S
from antiphon.protocol.timers import Timer, Timers

CONTACTS_LIMIT = 16
"""Contacts that are asked."""
_PAUSE_ROUNDS = 4
"""How many times `answer_s` there are between two advertisements, at first."""


class Search:
    def __init__(
        self,
        asked: str,
        contacts: tuple[Address, ...],
        *,
        may_found: bool,
        settings: Settings,
        directory: Directory,
        timers: Timers,
        clock: Callable[[], float],
        found: Callable[[list[GroupInfo]], None],
        given_up: Callable[[str], None],
        waiting: Callable[[str], None],
    ) -> None:
        """`asked` is the group's name or id; `may_found` says that it is founded when nobody knows it. The owner runs `timers`."""
        self.asked, self._contacts, self._may_found = asked, contacts[:CONTACTS_LIMIT], may_found
        self._settings, self._directory, self._timers, self._clock = settings, directory, timers, clock
        self._found, self._given_up, self._waiting = found, given_up, waiting
        self._open: dict[int, Address] = {}
        """Questions that are not answered, and whom they were asked."""
        self._heard: dict[Address, str] = {}
        """What came of asking each contact."""
        self._pause_s = _PAUSE_ROUNDS * settings.answer_s
        self._limit_s = settings.join_s
        self._began = clock()
        self._until = self._began + self._limit_s
        self._over = False
        self._asking: Timer | None = None
        self._deciding: Timer | None = None
        self._late: Timer = timers.at(self._began + WAITING_S, self._say)
        self._ask()
        if self._infos():
            # It is known that there are several: their members have the time of one round to tell of them.
            self._deciding = timers.at(self._began + _PAUSE_ROUNDS * settings.answer_s, self._decide)

    def review(self) -> None:
        """Something was heard."""
        if self._deciding is None and not self._over and self._infos():
            self._deciding = self._timers.at(self._clock() + self._settings.answer_s, self._decide)

    def hear(self, answer: NameServerAnswer) -> bool:
        """Takes the answer to a question; whether the question was this search's."""
        contact = self._open.pop(answer.question, None)
        if contact is None:
            return False
        self._heard[contact] = "refused to tell what it knows" if answer.refused else answer.reason and "did not answer"
        self.review()
        if self._may_found and self._deciding is None and not self._over and len(self._heard) == len(self._contacts):
            self._give_up()
        return True

    def stop(self) -> None:
        self._over = True
        for timer in (self._asking, self._deciding, self._late):
            if timer is not None:
                timer.cancel()

    def _infos(self) -> list[GroupInfo]:
        return [info for info in self._directory.find_confirmed(self.asked, self._began) if info.members]

    def _ask(self) -> None:
        now = self._clock()
        if now >= self._until:
            if self._deciding is None:
                self._give_up()
            return
        self._directory.advertise(now)
        for contact in self._contacts:
            if contact not in self._open.values():
                try:
                    self._open[self._directory.ask(now, contact)] = contact
                except WouldBlock:
                    break  # so many questions are open that this one waits for the next round
        self._asking = self._timers.at(min(now + self._pause_s, self._until), self._ask)
        self._pause_s = min(2 * self._pause_s, self._settings.question_s)

    def _decide(self) -> None:
        self._deciding = None
        if infos := self._infos():
            self.stop()
            self._found(infos)
        elif self._clock() >= self._until:
            self._give_up()

    def reason(self) -> str:
        """Say what was heard so far."""
        if not self._contacts:
            return "no group of this name was heard of"
        told = "; ".join(f"{contact} {self._heard.get(contact, 'did not answer') or 'knows no such group'}" for contact in self._contacts)
        return f"no group of this name was heard of: {told}"

    def _say(self) -> None:
        if not self._over:
            self._waiting(self.reason())

    def _give_up(self) -> None:
        self.stop()
        remedy = "Ask other nodes, or create it" if self._contacts else "Create it, or join with the address of a node that knows it"
        self._given_up(f"{self.reason().replace('heard of', f'heard of within {self._limit_s:g} s', 1)}. {remedy}")
