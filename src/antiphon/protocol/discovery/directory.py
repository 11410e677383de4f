"""The directory of one node: the groups there are, as far as it has heard.

Promises: the application is told of every group that somebody in reach is in, once (`Discovered`); of a group it rejected not again
before the node's next advertisement; of the end of a group it was told of (`Vanished`), if that was heard. Every question to a name
server ends in one `NameServerAnswer`. Nothing received raises; what makes no sense, and questions above `QUESTIONS_PER_S`, are counted in
`drops`.

Nodes that reach each other come to know each other's groups, also where they could not when they started: from `start` on a node
repeats its advertisement (`advertisement_timer`), with the groups that it knows. Members answer with the others, and a node that does not
know all of those advertises soon in its turn.

Keeps what `hints` and `questions` keep, the list that it last told as a name server, the last `ADDRESSES_LIMIT` addresses it has heard
from, and one pending answer with the nodes that advertised, at most `ADVERTISERS_LIMIT`: it goes to all and to each of those, because a
broadcast may not reach them. Costs one frame per advertisement and, in a group of any size, about one answer: of n members that draw their
delays from `answer_s`, those answer that drew within one network delay of the earliest. Nodes that hear each other and have nothing to tell
each other send two advertisements a minute, all together, and no answer.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias
from zlib import crc32

import msgspec

from antiphon.errors import InvalidOption
from antiphon.model.codec import Frame
from antiphon.model.control import GROUPS_LIMIT, Advertise, AskGroups, Ended, GroupInfo, Groups
from antiphon.model.events import Discovered, Event, Vanished
from antiphon.model.ids import Address, GroupId, MemberId, name_of
from antiphon.model.options import Settings
from antiphon.protocol.discovery.advertisement_timer import AdvertisementTimer
from antiphon.protocol.discovery.allowance import Allowance
from antiphon.protocol.discovery.group_list import group_list
from antiphon.protocol.discovery.hints import KNOWN_LIMIT, Hints
from antiphon.protocol.discovery.questions import Questions
from antiphon.protocol.timers import Timer, Timers

Send: TypeAlias = Callable[[tuple[Address, ...] | None, Frame], None]
"""To these addresses, or (None) to every node that a broadcast reaches."""
QUESTIONS_PER_S = 20
"""Questions that a name server answers in a second."""
ADVERTISERS_LIMIT = 64
"""Nodes that are told by name, in one answer and in one second; others hear what is told to all."""
ADDRESSES_LIMIT = 1_024
"""Addresses, and groups that others know and this node does not, that are not news any more."""
_PAUSE_MAX_S = 600.0
_CHECKSUM_BYTES = 5
_HEADER_BYTES = 128
"""More than an advertisement takes beside the groups that it names."""


class Directory:
    def __init__(
        self,
        node: MemberId,
        address: Address,
        *,
        rng: random.Random,
        settings: Settings,
        now: float,
        send: Send,
        tell: Callable[[Event], None],
        mine: Callable[[], list[GroupInfo]],
        timers: Timers,
        name_server: bool = True,
    ) -> None:
        """`mine` says which groups this node is in, as it would tell them. The owner runs `timers`."""
        self.node, self.address, self.name_server = node, address, name_server
        self.now = now
        self.drops: Counter[str] = Counter()
        """Everything that was dropped, by reason."""
        self._rng, self._settings, self._timers = rng, settings, timers
        self._send, self._tell, self._mine = send, tell, mine
        self._hints = Hints()
        self._questions = Questions(node, settings, rng, self._call_in, lambda address, frame: send((address,), frame), tell)
        self._heard: dict[GroupId, int] | None = None
        """While an answer is pending: the groups that others told since it was asked for, with the view."""
        self._advertisers: dict[Address, None] = {}
        """Who asked for it."""
        self._questions_left = Allowance(QUESTIONS_PER_S, settings.retry_s)
        self._advertisers_left = Allowance(ADVERTISERS_LIMIT, settings.retry_s)
        self._told: tuple[object, list[Groups]] = (None, [])
        """As a name server: what the list was made of, and the list."""
        self._wanted: set[GroupId] | None = set()
        """The own groups that the pending answer is to tell; None: all."""
        self._addresses: dict[Address, None] = {}
        """The nodes heard from, the last of them last."""
        self._unknown: dict[int, tuple[float, float]] = {}
        """Groups that others know and this node does not, by the checksum of their ids: when to ask for each again, and the pause then."""
        self._ask_back: dict[Address, set[int]] = {}
        """Nodes that know such groups and are asked by name with the next advertisement, because a broadcast may not reach them."""
        # Its own source of chance, so that it does not depend on how often this node asks for anything else.
        chance = random.Random(f"{node}/advertise")
        self._repeat = AdvertisementTimer(settings.seek_s, settings.seek_max_s, chance, self._call_in, self._advertise_again)

    # -- from the application ----------------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Advertise, and repeat it with growing pauses from now on."""
        self.advertise(now)
        self._repeat.start()

    def advertise(self, now: float) -> None:
        """This node has come, or come back: asks everybody, itself too, which groups there are. What was rejected is open again."""
        self.now = now
        self._hints.reconsider()
        self._send(None, Advertise(self.node))
        self._answer_soon(None)

    def announce(self, now: float, group: GroupId) -> None:
        """Tells everybody of an own group without being asked: it has just been created."""
        self.now = now
        self._broadcast([info for info in self._own().values() if info.id == group])

    def introduce(self, now: float, to: Address, info: GroupInfo) -> None:
        """Tell one node, which wants to found a group, that it is there already; within the allowance for advertisers."""
        self.now = now
        if self._advertisers_left.spend(now, to):
            for part in group_list(self.node, [info], self._settings.frame_bytes):
                self._send((to,), part)

    def reject(self, now: float, group: GroupId) -> None:
        """Does not want to hear of a group, nor tell others of it, until the next `advertise`."""
        self.now = now
        if group in self._own():
            raise InvalidOption("group", group, "this node is in it: leave it instead")
        self._hints.reject(group)

    def doubt(self, group: GroupId) -> None:
        """Forget what was heard of a group that could not be joined: it may be out of date or forged. Its members tell it again."""
        self._hints.forget(group)

    def end(self, now: float, group: GroupId, view: int) -> None:
        """This node was the last member of a group and has left it: it is gone, here and everywhere."""
        self.now = now
        self._hints.end(now, group, view)
        self._send(None, Ended(group, view))

    def ask(self, now: float, address: Address) -> int:
        """Asks the node at `address` as a name server; its `NameServerAnswer` carries the number returned here."""
        self.now = now
        return self._questions.ask(address)

    def leave(self, now: float, info: GroupInfo) -> None:
        """This node is out of a group that goes on: it knows best who is in it, should it want to come back."""
        self.now = now
        self._hints.learn(info, None)

    def known(self) -> tuple[GroupInfo, ...]:
        """The groups that this node has heard of and is not in, by id."""
        own = self._own()
        return tuple(sorted((info for info in self._hints if info.id not in own), key=lambda info: info.id))

    def __len__(self) -> int:
        """How many groups this node has heard of."""
        return len(self._hints)

    def find(self, name_or_id: str) -> list[GroupInfo]:
        """The groups with this id, or else with this name, by id; own ones too."""
        infos = self._all()
        return [info for info in infos if info.id == name_or_id] or [info for info in infos if name_of(info.id) == name_or_id]

    def find_confirmed(self, name_or_id: str, since: float) -> list[GroupInfo]:
        """Find groups as `find` does. Of several, return those that this node is in or that one of their members has told of since then,
        if there are any: the others may be forged or gone."""
        infos, own = self.find(name_or_id), self._own()
        confirmed = [info for info in infos if info.id in own or self._hints.is_confirmed(info.id, since)]
        return confirmed if len(infos) > 1 and confirmed else infos

    # -- from the network --------------------------------------------------------------------------------------------------------

    def receive(self, now: float, source: Address, frame: Advertise | Groups | AskGroups | Ended) -> None:
        """Takes a frame that came from `source`."""
        self.now = now
        if isinstance(frame, Ended):
            self._receive_ended(frame)
            return
        if frame.node == self.node:
            self.drops["own_frame"] += 1
            return
        if self._is_new(source):
            self._repeat.reset()
        if isinstance(frame, Groups):
            self._receive_groups(source, frame)
        elif isinstance(frame, AskGroups):
            self._receive_question(source, frame)
        else:
            self._receive_advertisement(source, frame)

    def _receive_advertisement(self, source: Address, frame: Advertise) -> None:
        wanted: set[GroupId] | None = None
        if frame.known is not None:
            theirs, mine = set(frame.known), set(self._checksums())
            if theirs == mine:
                self._repeat.hear_same()
            elif unknown := {checksum for checksum in theirs - mine if self._is_askable(checksum)}:
                self._repeat.reset()
                if len(self._ask_back) < ADVERTISERS_LIMIT:
                    self._ask_back[source] = unknown
            wanted = {group for group in self._own() if _checksum(group) not in theirs}
            if not wanted:
                return
        self._answer_soon(wanted)
        if len(self._advertisers) < ADVERTISERS_LIMIT and self._advertisers_left.spend(self.now, source):
            self._advertisers[source] = None

    def _receive_groups(self, source: Address, frame: Groups) -> None:
        if frame.index >= frame.count:
            self.drops["malformed_groups"] += 1
            return
        # An answer to an advertisement goes to all and names the teller's own groups; a name server also repeats what it has heard.
        broadcast = frame.question == 0
        if not broadcast and frame.question not in self._questions:
            self.drops["unasked_groups"] += 1
            return
        own = self._own()
        believed: list[GroupInfo] = []
        for info in frame.groups:
            if broadcast and self._heard is not None and (info.id in self._heard or len(self._heard) < KNOWN_LIMIT):
                self._heard[info.id] = max(info.view, self._heard.get(info.id, 0))
            if info.id in own:
                believed.append(own[info.id])
                self._hints.learn(own[info.id], None)
            elif self._hints.believes(self.now, info, broadcast):
                believed.append(info)
                if self._hints.learn(info, source):
                    self._tell(Discovered(info))
                if broadcast and any(address == source for _, address in info.members):
                    self._hints.confirm(self.now, info.id)
            else:
                self.drops["unwanted_group"] += 1
        if not broadcast:
            self._questions.receive(frame, tuple(believed))

    def _receive_question(self, source: Address, frame: AskGroups) -> None:
        if not self.name_server:
            self._send((source,), Groups(self.node, (), frame.question, refused=True))
            return
        if not self._questions_left.spend(self.now, source):
            self.drops["too_many_questions"] += 1
            return
        made_of = (self._hints.changes, tuple(self._mine()))
        if self._told[0] != made_of:
            self._told = (made_of, group_list(self.node, self._all(), self._settings.frame_bytes))
        for part in self._told[1]:
            self._send((source,), msgspec.structs.replace(part, question=frame.question))

    def _receive_ended(self, frame: Ended) -> None:
        if frame.group in self._own():
            # It is the other side of a partition that has ended, or a lie.
            self.drops["ended_but_alive"] += 1
            return
        info = next((info for info in self._hints if info.id == frame.group), None)
        if self._hints.end(self.now, frame.group, frame.view) and info is not None:
            self._tell(Vanished(frame.group, info))

    # -- answers -----------------------------------------------------------------------------------------------------------------

    def _is_new(self, source: Address) -> bool:
        """Whether a node at this address was not heard from lately."""
        new = source not in self._addresses
        self._addresses.pop(source, None)
        self._addresses[source] = None
        if len(self._addresses) > ADDRESSES_LIMIT:
            del self._addresses[next(iter(self._addresses))]
        return new

    def _advertise_again(self) -> None:
        known = self._checksums()
        advertisement = Advertise(self.node, known)
        self._send(None, advertisement)
        ask_back, self._ask_back = self._ask_back, {}
        # Of those that were told to all in the meantime nobody is asked again.
        if by_name := tuple(address for address, unknown in ask_back.items() if not unknown.issubset(known)):
            self._send(by_name, advertisement)

    def _is_askable(self, checksum: int) -> bool:
        """Whether to ask now for a group that others know. One that is not told, because its members are gone, is asked for less often."""
        again_at, pause_s = self._unknown.pop(checksum, (self.now, self._settings.seek_max_s))
        askable = self.now >= again_at
        self._unknown[checksum] = (self.now + pause_s, min(2 * pause_s, _PAUSE_MAX_S)) if askable else (again_at, pause_s)
        if len(self._unknown) > ADDRESSES_LIMIT:
            del self._unknown[next(iter(self._unknown))]
        return askable

    def _checksums(self) -> tuple[int, ...]:
        """The groups that need not be told to this node, as many as fit into an advertisement."""
        groups = sorted({*self._own(), *(info.id for info in self._hints), *self._hints.rejected})
        return tuple(map(_checksum, groups[: min(GROUPS_LIMIT, (self._settings.frame_bytes - _HEADER_BYTES) // _CHECKSUM_BYTES)]))

    def _answer_soon(self, wanted: set[GroupId] | None) -> None:
        """Tell these own groups, or (None) all, after a random pause, as far as no other node tells them meanwhile."""
        self._wanted = None if wanted is None or self._wanted is None else self._wanted | wanted
        # A second advertisement while an answer is pending needs no second answer, but what was told before it, its sender may
        # not have heard: everything counts as untold again.
        if self._heard is None:
            self._call_in(self._rng.uniform(0.0, self._settings.answer_s), self._answer)
        self._heard = {}

    def _answer(self) -> None:
        heard, self._heard = self._heard or {}, None
        advertisers, self._advertisers = tuple(self._advertisers), {}
        wanted, self._wanted = self._wanted, set()
        own = [info for info in self._own().values() if wanted is None or info.id in wanted]
        self._broadcast([info for info in own if heard.get(info.id, -1) < info.view], advertisers)

    def _broadcast(self, infos: list[GroupInfo], advertisers: tuple[Address, ...] = ()) -> None:
        for info in infos:
            # So that a group is not news to this node after it has left it.
            self._hints.learn(info, None)
        for part in group_list(self.node, infos, self._settings.frame_bytes) if infos else ():
            self._send(None, part)
            if advertisers:
                # Where nothing reaches all, a broadcast goes to the nodes that this one was told of, and who has just come is none of them.
                self._send(advertisers, part)

    def _all(self) -> list[GroupInfo]:
        infos = {info.id: info for info in self._hints} | self._own()
        return [infos[group] for group in sorted(infos)]

    def _own(self) -> dict[GroupId, GroupInfo]:
        return {info.id: info for info in self._mine()}

    def _call_in(self, seconds: float, callback: Callable[[], None]) -> Timer:
        when = self.now + seconds

        def due() -> None:
            self.now = max(self.now, when)
            callback()

        return self._timers.at(when, due)


def _checksum(group: GroupId) -> int:
    return crc32(group.encode())
