"""How a node comes into groups: it creates one, joins one that it knows, or looks for one that it does not know yet.

A group that may be founded by whoever joins it first has an id made of its name alone, so that all who found it meet. Under the
`majority` policy its founders found it together (`antiphon.protocol.membership.founding`). What is looked for
(`antiphon.protocol.search`) ends in `Located` and the membership, or in `Departed` with the reason, told under what was asked for.

Keeps the searches that are under way; with the memberships they are at most `GROUPS_LIMIT`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from antiphon.errors import GroupExists, InvalidOption, JoinFailed, UsageError
from antiphon.model.control import GroupInfo, Wants
from antiphon.model.events import Departed, Event, JoinWaiting, Located, NameServerAnswer
from antiphon.model.frames import Batch
from antiphon.model.ids import Address, GroupId, name_of, new_group_id, new_member_id
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.recording import Recorder
from antiphon.protocol.discovery.directory import Directory
from antiphon.protocol.membership.founding import contradiction
from antiphon.protocol.membership.membership import Membership
from antiphon.protocol.membership.port import Port
from antiphon.protocol.registry import promises_of, stages
from antiphon.protocol.routes import Routes
from antiphon.protocol.search import Search
from antiphon.protocol.timers import Timers

OnAcceptIn: TypeAlias = Callable[[GroupId, Batch, int, int], None]
GROUPS_LIMIT = 1_024
DISCOVERY_ROUNDS = 4
"""How many times `answer_s` a node waits for groups of a name before it founds one."""


class Entrance:
    def __init__(
        self,
        name: str,
        address: Address,
        memberships: dict[GroupId, Membership],
        *,
        rng: random.Random,
        settings: Settings,
        directory: Directory,
        routes: Routes,
        timers: Timers,
        clock: Callable[[], float],
        touch: Callable[[Membership], None],
        tell: Callable[[GroupId, Event], None],
        on_accept: OnAcceptIn | None,
        recorder: Recorder | None,
        former_by_name: Mapping[str, tuple[str, ...]],
    ) -> None:
        """Enters new ones into `memberships`, and says with `touch` that one has had an input. The owner runs `timers`. `former_by_name`
        has, by group name, the names in the last view that an earlier start of this node was in."""
        self._name, self._address, self._memberships = name, address, memberships
        self._rng, self._settings, self._directory, self._routes, self._timers = rng, settings, directory, routes, timers
        self._clock, self._touch, self._tell, self._on_accept = clock, touch, tell, on_accept
        self._recorder, self._former_by_name = recorder, former_by_name
        self._searches: dict[str, Search] = {}
        """What this node looks for, to join it."""

    def __len__(self) -> int:
        """How many groups are looked for."""
        return len(self._searches)

    def check_new(self, name: str) -> None:
        """Raise GroupExists if this node is in a group of this name, or has heard of one."""
        infos = self._directory.find(name)
        if not infos and not any(name_of(group) == name for group in self._memberships):
            return
        if any(name_of(group) == name for group in self._memberships):
            raise GroupExists(name, "this node is in a group of this name: use that one, or leave it first")
        raise GroupExists(
            name,
            f"there is a group of this name, {', '.join(info.id for info in infos)}: join it with join({name!r}), or call "
            f"join({name!r}, create=True), which founds a group only if there is none",
        )

    def create(self, name: str, options: GroupOptions, description: str) -> GroupId:
        if options.expect:
            why = "create founds a group with this node alone: leave it out, or found the group with join(…, create=True, expect=…)"
            raise InvalidOption("expect", options.expect, why)
        group = new_group_id(name, self._rng)
        self._found(self._enter(group, options, description))
        return group

    def join(
        self,
        group: GroupId | str,
        wants: Wants,
        contacts: tuple[Address, ...],
        create: GroupOptions | None,
        options: GroupOptions | None,
    ) -> GroupId:
        """Asks to be let in; returns the group's id, or what was asked for if that has to be looked for."""
        _check_name(group)
        if create is not None and create.partitions == "majority" and not create.expect:
            raise InvalidOption("expect", create.expect, _EXPECT)
        infos = self._directory.find(group)
        is_public = create is not None and any(_is_public(info.id) for info in infos)
        is_unknown = not infos and options is None and (contacts or create is None or not create.may_found(self._name))
        if is_unknown or (len(infos) > 1 and not is_public):
            self._look_for(str(group), wants, contacts, create)
            return GroupId(group)
        wanted = infos[0].id if infos else GroupId(group)
        if create is not None and (not infos or is_public):
            wanted = _public_id(name_of(group))
        info = next((info for info in infos if info.id == wanted), None)
        if info is not None:
            self._check_description(group, info, create)
            contacts = (*contacts, *self._addresses([info]))
            options = info.options
        options = options or create
        assert options is not None, "a group that is neither known nor to be created is looked for"
        description = info.description if info is not None else name_of(group)
        member = self._enter(wanted, options, description, wants, public=create is not None)
        if contacts and options.expect and create is not None and options.may_found(self._name):
            self._found_with_others(member, contacts)  # what was heard of the group may be out of date
        elif contacts:
            member.join(self._clock(), contacts)
        else:
            self._look_then_found(member)
        return wanted

    def give_up(self, asked: str) -> bool:
        """The application does not want the group any more; whether it was being looked for."""
        search = self._searches.pop(asked, None)
        if search is not None:
            search.stop()
            self._tell(GroupId(asked), Departed("left"))
        return search is not None

    def reason(self, asked: str) -> str:
        """Say why a join has not succeeded yet; empty if it is not known."""
        if asked in self._searches:
            return self._searches[asked].reason()
        member = self._memberships.get(GroupId(asked))
        return "" if member is None or member.view is not None else member.joining.reason()

    def review(self) -> None:
        """Something was heard of groups."""
        for search in list(self._searches.values()):
            search.review()

    def hear(self, answer: NameServerAnswer) -> bool:
        """Takes a name server's answer; whether it was a search that had asked."""
        return any(search.hear(answer) for search in list(self._searches.values()))

    # -- inside ----------------------------------------------------------------------------------------------------------------

    def _enter(
        self, group: GroupId, options: GroupOptions, description: str, wants: Wants | None = None, public: bool = False
    ) -> Membership:
        stages(options)  # refuses what cannot work
        if group in self._memberships:
            raise UsageError(f"this node is in {name_of(group)} already: leave it first")
        self._check_room(group)
        me = new_member_id(self._name, self._rng)
        rng = random.Random(self._rng.getrandbits(64))
        watch, recorder = self._on_accept, self._recorder
        member = Membership(
            Port(me, group, options, self._settings, rng, self._clock()),
            self._address,
            self._routes,
            description=description,
            wants=wants or Wants(),
            find_contacts=lambda advertise: self._find_contacts(group, advertise),
            public=public,
            on_accept=None if watch is None else lambda batch, low, high: watch(group, batch, low, high),
            transcript=None if recorder is None else recorder.transcript(group, me, options, wants, promises_of(options)),
        )
        member.founding.former = self._former_by_name.get(name_of(group), ())
        self._memberships[group] = member
        self._touch(member)
        return member

    def _check_description(self, asked: str, info: GroupInfo, create: GroupOptions | None) -> None:
        """Raise JoinFailed or InvalidOption, and forget the description, if this node cannot be in the group that it describes."""
        try:
            stages(info.options)
            if conflict := _conflict(create, info):
                raise JoinFailed(asked, conflict)
        except (InvalidOption, JoinFailed):
            self._directory.doubt(info.id)
            raise

    def _check_room(self, group: str) -> None:
        if len(self._memberships) + len(self._searches) >= GROUPS_LIMIT:
            raise InvalidOption("group", group, f"a node is in at most {GROUPS_LIMIT:,} groups")

    def _found(self, member: Membership) -> None:
        member.found(self._clock())
        self._directory.announce(self._clock(), member.group)

    def _found_with_others(self, member: Membership, contacts: Sequence[Address]) -> None:
        member.found_with_others(self._clock(), contacts, lambda: self._directory.announce(self._clock(), member.group))

    def _find_contacts(self, group: GroupId, advertise: bool) -> list[Address]:
        """Who is known to be in the group now; with `advertise`, ask again: the answers are known the next time."""
        if advertise:
            self._directory.advertise(self._clock())
        infos, member = self._directory.find(group), self._memberships.get(group)
        if infos and member is not None and member.view is None and (conflict := _conflict(member.port.options, infos[0])):
            member.departure.depart(conflict)
            return []
        return self._addresses(infos)

    def _addresses(self, infos: Sequence[GroupInfo]) -> list[Address]:
        """Where others are who are said to be in a group. This node was, if it is among them: hints are older than its leaving."""
        return [address for info in infos for _, address in info.members if address != self._address]

    def _look_then_found(self, member: Membership) -> None:
        """Asks who is in the group, and begins it alone when nobody is heard and it may be begun."""
        self._directory.advertise(self._clock())

        def decide() -> None:
            if member.departed or member.view is not None:
                return
            self._touch(member)
            contacts = self._addresses(self._directory.find(member.group))
            if member.public and member.port.options.expect:
                self._found_with_others(member, contacts)
            elif contacts:
                member.join(self._clock(), contacts)
            elif member.public:
                self._found(member)
            else:
                member.departure.depart("nobody of the group was heard")

        self._timers.at(self._clock() + DISCOVERY_ROUNDS * self._settings.answer_s * self._rng.uniform(0.75, 1.25), decide)

    def _look_for(self, asked: str, wants: Wants, contacts: tuple[Address, ...], create: GroupOptions | None) -> None:
        if asked in self._searches:
            raise UsageError(f"this node is looking for {asked} already: wait until it is found or given up")
        self._check_room(asked)
        if create is not None:
            stages(create)
        others = tuple(contact for contact in dict.fromkeys(contacts) if contact != self._address)

        def located(infos: list[GroupInfo]) -> None:
            del self._searches[asked]
            try:
                if len(infos) > 1:
                    raise JoinFailed(asked, _ambiguity(infos))
                info = infos[0]
                self._check_description(asked, info, create)
                member = self._enter(info.id, info.options, info.description, wants, create is not None and _is_public(info.id))
            except (JoinFailed, UsageError) as error:
                # Several have this name; or this node is in it by now, or cannot do what its options say.
                self._tell(GroupId(asked), Departed(str(error)))
                return
            self._tell(info.id, Located(asked))
            known = (*(address for _, address in info.members), *others)
            if member.public and info.options.expect and info.options.may_found(self._name):
                self._found_with_others(member, known)
            else:
                member.join(self._clock(), known)

        def given_up(why: str) -> None:
            del self._searches[asked]
            public = _public_id(name_of(asked))
            if create is None or public in self._memberships or not create.may_found(self._name):
                self._tell(GroupId(asked), Departed(why))
                return
            member = self._enter(public, create, name_of(asked), wants, public=True)
            self._tell(public, Located(asked))
            member.contacts = others  # they may be about to found it, too
            if create.expect:
                self._found_with_others(member, others)
            else:
                self._found(member)

        self._searches[asked] = Search(
            asked,
            others,
            may_found=create is not None and create.may_found(self._name),
            settings=self._settings,
            directory=self._directory,
            timers=self._timers,
            clock=self._clock,
            found=located,
            given_up=given_up,
            waiting=lambda reason: self._tell(GroupId(asked), JoinWaiting(asked, reason)),
        )


_EXPECT = (
    "only one side of a group with partitions='majority' may go on, so no node founds it alone: write expect=N, the number of nodes that "
    "found it together, or expect=['a', 'b', 'c'], their names"
)


def _conflict(create: GroupOptions | None, info: GroupInfo) -> str:
    """Say in what the founders that a node was told differ from those that the group has; empty if they do not."""
    if create is None or not create.expect or not info.options.expect or create.expect == info.options.expect:
        return ""
    return f"the group was founded with {contradiction(create, info.options)}"


def _check_name(group: str) -> None:
    """Raises InvalidName for what can be neither a group's id nor its name."""
    name, _, start = str(group).partition("#")
    is_id = len(start) == 16 and all(digit in "0123456789abcdef" for digit in start)
    new_group_id(name if is_id else group, random.Random(0))  # only to have it checked as `create` does


def _public_id(name: str) -> GroupId:
    """The id of the group that everybody founds who joins it by this name and does not find it."""
    return GroupId(f"{name}#{0:016x}")


def _is_public(group: GroupId) -> bool:
    return group == _public_id(name_of(group))


def _ambiguity(infos: Sequence[GroupInfo]) -> str:
    return f"there are several groups of this name: join one by its id, {', '.join(info.id for info in infos)}"
