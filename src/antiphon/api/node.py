"""A node: a program's door to its groups.

Calls and frames go into the core at once; what the core wants done outside happens one turn later, in the order frames, events, timer.
A turn is asked for once however much happens before it, so batches fill under load. The first message of a turn does not wait for its end:
it leaves inside of the call that sends it, before anything else is done about it here. And what needs nothing but delivery is delivered
without a turn.

Keeps what its core keeps, and an inbox per group. An idle node wakes up only when its core's next timer is due.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from antiphon.api import store_entry
from antiphon.api.archived_group import ArchivedGroup
from antiphon.api.driver import Cancellable, CountsRefusals, Driver, ReportsRefusedConnections
from antiphon.api.entry import Entry, wait_for_stable_view, wait_for_state
from antiphon.api.group import Group, State
from antiphon.api.name_servers import NameServerQuestions
from antiphon.api.node_arguments import fit_settings, is_on_store, parse_history, parse_options
from antiphon.api.store_group import StoreGroup
from antiphon.errors import InvalidOption, JoinFailed, NotInGroup, SendRefused, TimedOut, UsageError, WouldBlock
from antiphon.model.control import GroupInfo, Wants
from antiphon.model.events import (
    Departed,
    Discovered,
    Event,
    GuestRefused,
    JoinWaiting,
    Located,
    NameServerAnswer,
    NameTaken,
    Vanished,
)
from antiphon.model.ids import Address, GroupId, MemberId, MessageId, name_of
from antiphon.model.options import Settings
from antiphon.model.payload import PayloadCodec, codec_for
from antiphon.model.recording import Recorder
from antiphon.protocol.node import NodeCore
from antiphon.protocol.sync.unread import UnreadEvent
from antiphon.store import Store, Topic
from antiphon.store.event_stream import EventFeed, EventStream

CLOSE_S = 5.0
_FEW = 4
"""Frames that come together at a node that is not under load."""
_TURN_BYTES = 180_000
"""What is accepted before the turn ends, about: what a socket takes at once. The rest would be written when it has room again."""
_MESSAGE_BYTES = 8
"""What a message takes in a batch beside its payload, about."""


class Node:
    def __init__(
        self,
        name: str,
        driver: Driver,
        *,
        settings: Settings | None = None,
        name_server: bool = True,
        rng: random.Random | None = None,
        realm_by_name: dict[str, str] | None = None,
        core: Callable[..., NodeCore] = NodeCore,
        store: Store | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """`core` makes the protocols of the node, in the place of `NodeCore`. `store`, open already, has its durable topics. `recorder`
        takes down what happens."""
        self.name = name
        self._store, self._recorder = store, recorder
        self._make_core = core
        self._driver = driver
        self._settings = settings
        self._name_server = name_server
        self.rng: random.Random = rng or random.SystemRandom()
        self._realm_by_name = realm_by_name or {}
        self._core: NodeCore | None = None
        self._closed = False
        self._groups: dict[GroupId, Group] = {}
        self._entry_by_asked: dict[str, Entry] = {}
        """Groups that are looked for, to be joined."""
        self._names_entering: set[str] = set()
        """Names of groups on the store that are being joined."""
        self._discovered: EventFeed[GroupInfo] = EventFeed()
        self._vanished: EventFeed[GroupInfo] = EventFeed()
        self._questions = NameServerQuestions()
        self._refused_by_group: dict[GroupId, GuestRefused] = {}
        self._namesakes: dict[GroupId, GroupId] = {}
        """Groups that this node is in, and another one that was heard of with the same name."""
        self._turn_asked = self._turn_due = False
        """Whether the turn will end soon, and whether anything is left to be done then."""
        self.crowded = False
        """Whether enough has been accepted for a frame: who sends on without a pause now lets the others in."""
        self._crowd = 0
        """Bytes accepted since the last turn, about."""
        self._crowded_at = 0
        self._timer: Cancellable | None = None
        self._timer_at = float("inf")
        self._frames_in = self._bytes_in = self._frames_out = self._bytes_out = 0

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def start(self) -> None:
        """Opens the network and makes the node known. `async with` does it."""
        if self._core is not None or self._closed:
            raise UsageError("a node is started once: make another")
        driver = self._driver
        await driver.open(self._receive)
        try:
            settings = fit_settings(self._settings, driver)
            recorded: dict[str, Any] = {} if self._recorder is None else {"recorder": self._recorder}
            core = self._make_core(
                self.name, driver.address, rng=self.rng, settings=settings, now=driver.now(), name_server=self._name_server, **recorded
            )
        except BaseException:
            await driver.close()
            raise
        core.realm_by_name.update(self._realm_by_name)
        self._crowded_at = min(driver.frame_bytes, _TURN_BYTES)
        self._core = core
        if isinstance(driver, ReportsRefusedConnections):
            driver.report_refused(self._connection_refused)
        if isinstance(driver, CountsRefusals):
            core.refusals = driver.refusals
        core.start(driver.now())
        self._ask_turn()

    async def close(self, *, timeout: float = CLOSE_S) -> None:
        """Leaves all groups, at most `timeout` seconds long, and closes the network."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._core is not None:
                leaving = [asyncio.ensure_future(group.leave()) for group in self._groups.values()]
                if leaving:
                    _, late = await asyncio.wait(leaving, timeout=timeout)
                    for task in late:
                        task.cancel()
                self._turn()  # what was said last
        finally:
            await self._driver.close()
            self.abandon("the node was closed")

    def abandon(self, why: str) -> None:
        """Ends the node without a word to anybody: whatever waits ends or raises NotInGroup."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._discovered.end()
        self._vanished.end()
        self._questions.fail(UsageError(f"the question was not answered: {why}"))
        for asked, entry in self._entry_by_asked.items():
            entry.fail(JoinFailed(asked, why))
        for group in list(self._groups.values()):
            group.abandon(why)
        self._groups.clear()

    @property
    def core(self) -> NodeCore:
        """The protocols of this node."""
        if self._core is None:
            raise UsageError("the node is not started: use `async with Node(…) as node`")
        return self._core

    @property
    def address(self) -> Address:
        """Where other nodes reach this one: give it to them as a seed."""
        return self.core.address

    @property
    def settings(self) -> Settings:
        return self.core.settings

    # -- groups ----------------------------------------------------------------------------------------------------------------

    async def create(
        self, name: str, *, type: Any = None, state: State | None = None, description: str = "", on: str = "network", **options: Any
    ) -> Group:
        """Found a group; `options` are those of `GroupOptions`. Raises GroupExists if a group of this name is in reach: a node that has
        just started waits a moment to hear of it. `type` is what its messages are, bytes if it is left out; `state` gives the
        application's state to those who join with `history="state"`, as of the last message that was handed out here: it is called when a
        reader asks for the next message, or while none is handling one. `on="store"`: the group is on the node's store, and needs no
        network between its members; its options are `silence_s`, after which a member that sends no heartbeat is removed, and
        `retention_s`, how long its messages are kept."""
        core, codec = self._awake(), codec_for(type)
        if is_on_store(on):
            with self._entering(name):
                return await store_entry.enter(self, name, codec, state, how="create", wants=Wants(), options=options, timeout=None)
        checked = parse_options(options)
        if (wait_s := core.listened_at - self.now()) > 0.0:
            await asyncio.sleep(wait_s)
            self._awake()  # raises if the node was closed meanwhile
        core.check_new(name)
        group = core.create(self.now(), name, checked, description)
        return await self._enter(group, codec, state, None)

    async def join(
        self,
        group: str,
        *,
        type: Any = None,
        history: str | tuple[str, float] = "all",
        create: bool = False,
        at: Sequence[str] = (),
        state: State | None = None,
        timeout: float | None = None,
        on: str = "network",
        **options: Any,
    ) -> Group:
        """Join a group by its name or id and return when this node is in it. A group that is not there yet is waited for, up to
        `Settings.join_s` seconds or `timeout`, what is less. `history` says what is wanted of the past: `all`, `none`, `("last", count)`,
        `("since", time)`, or `state`: then `group.state` is the application's state from a member that gives one, and the messages after it
        are read. It is None if this node founded the group; if no member gives a state the join fails with the reasons. With `create` the
        group is founded with `options` if nobody has: all who do so meet in one. With `partitions="majority"` it is founded only together
        with all founders: `expect` is their number, or a list of their names; and `join` returns when the view is stable, so that this node
        counts for a majority, or after `join_s`. `at` names addresses of nodes that know the group; without it
        the node's seeds are asked. `on="store"`: it is a group on the node's store. Raises JoinFailed, or TimedOut after `timeout`; both
        say what was waited for."""
        core, codec = self._awake(), codec_for(type)
        for option, value in options.items():
            if not create:
                raise InvalidOption(option, value, "a group that exists has its options: leave it out, or create")
        wants = parse_history(history)
        if is_on_store(on):
            with self._entering(group):
                return await store_entry.enter(
                    self, group, codec, state, how="either" if create else "join", wants=wants, options=options, timeout=timeout
                )
        if isinstance(at, str | bytes) or not all(isinstance(address, str) and address for address in at):
            raise InvalidOption("at", at, "give a list of addresses, even for one")
        contacts = tuple(Address(address) for address in at or self._driver.seeds or ())
        asks = Wants(kind="none") if self._is_archived(group) and wants.kind != "state" else wants
        founding = parse_options(self._with_remembered(name_of(group), options)) if create else None
        entered = core.join(self.now(), group, wants=asks, contacts=contacts, create=founding)
        return await self._enter(entered, codec, state, timeout, wants)

    def _with_remembered(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a group that may be founded, completed from what an earlier start of this node remembered."""
        return options

    async def _enter(
        self, asked: GroupId, codec: PayloadCodec | None, state: State | None, timeout: float | None, wants: Wants | None = None
    ) -> Group:
        entry = Entry(codec, state, wants)
        if asked in self.core.memberships:
            self._begin(asked, entry)
        else:
            self._entry_by_asked[asked] = entry  # it is looked for
        self._ask_turn()
        try:
            async with asyncio.timeout(timeout):
                group = await asyncio.shield(entry.group)
                await asyncio.shield(group.ready)
                if group.options.partitions == "majority":
                    await wait_for_stable_view(group, self.settings.join_s)
                if wants is not None and wants.kind == "state":
                    await wait_for_state(group, CLOSE_S)
        except BaseException as error:
            reason = self.core.why_waiting(entry.id or asked)
            waited_for = f": {reason}" if reason else ""
            self._give_up(asked, entry)
            if isinstance(error, TimeoutError) and not isinstance(error, TimedOut):
                raise TimedOut(self.explain(f"nobody let this node into {name_of(asked)} within {timeout:g} s{waited_for}")) from None
            raise
        finally:
            self._entry_by_asked.pop(asked, None)
        return group

    @contextmanager
    def _entering(self, group: str) -> Iterator[None]:
        """Refuse to enter a group on the store in which this node is, or which it is joining."""
        name = name_of(group)
        if name in self._names_entering:
            raise UsageError(f"this node is joining {name} already: wait until that call returns")
        if any(isinstance(known, StoreGroup) and known.name == name for known in self._groups.values()):
            raise UsageError(f"this node is in {name} already: leave it first")
        self._names_entering.add(name)
        try:
            yield
        finally:
            self._names_entering.discard(name)

    def _is_archived(self, group: str) -> bool:
        """Whether it is known that the past of a group is in the store, so that its members need not be asked for it."""
        return any(info.options.history_in for info in self.core.directory.find(GroupId(group)))

    def _give_up(self, asked: GroupId, entry: Entry) -> None:
        if entry.id is not None:
            self.leave(entry.id)
            if not self._closed:
                self._end_turn(self.now())  # a member without a view is out now, and the caller may join again
        elif not entry.group.done():
            self._entry_by_asked.pop(asked, None)
            with suppress(UsageError):  # it was found a moment ago: Located will say so, and then it is left
                self.core.leave(self.now(), asked)
            if not self._closed:
                self._end_turn(self.now())  # the caller may ask for it again, and must not get the answer to this search

    def _begin(self, id: GroupId, entry: Entry) -> None:
        entry.id = id
        if not self.core.memberships[id].port.options.history_in:
            group = Group(self, id, entry.codec, entry.state)
        elif self._store is not None:
            group = ArchivedGroup(self, id, entry.codec, entry.state, backend=self._store.backend, wants=entry.wants)
        else:
            entry.fail(JoinFailed(id, "its history is in a store, and this node has none: open it with Node(…, store=…)"))
            return
        self._groups[id] = group
        entry.group.set_result(group)

    def groups(self) -> list[GroupInfo]:
        """The groups that this node is in, and those that it has heard of."""
        core = self.core
        inside = [membership.info() for membership in core.memberships.values() if membership.view is not None]
        on_store = [group.info() for group in self._groups.values() if isinstance(group, StoreGroup)]
        return [*inside, *on_store, *core.known()]

    def remember(self, group: Group) -> None:
        """A group that is not of the network."""
        self._groups[group.id] = group

    def forget(self, group: GroupId) -> None:
        self._groups.pop(group, None)

    def discovered(self) -> EventStream[GroupInfo]:
        """The groups that this node has heard of and is not in, and from now on those it hears of."""
        return self._discovered.listen(self.core.known())

    def vanished(self) -> EventStream[GroupInfo]:
        """Stream the groups that end from now on, as they were last known: their last member left. A group whose members all crashed is not
        heard to end."""
        return self._vanished.listen()

    async def ask_groups(self, address: str, *, timeout: float | None = None) -> list[GroupInfo]:
        """Ask the node at `address` which groups it knows, those that it is in and those that it has heard of, and return them.

        Groups that were not known are then in `groups()`, and in `discovered()`. Raises AskRefused if that node was opened with
        `name_server=False`, and TimedOut if no whole answer comes within `timeout` seconds, at most `Settings.question_s`."""
        core = self._awake()
        if address == core.address:
            return self.groups()
        asking = self._questions.ask(core, self.now(), address, timeout)
        self._ask_turn()
        try:
            return await asking
        except TimedOut as error:
            raise TimedOut(self.explain(str(error))) from None

    # -- durable topics --------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """Where the durable topics of this node are."""
        if self._store is None:
            raise UsageError("this node has no store: open it with Node(…, store='sqlite:field.db'), or the address of another")
        return self._store

    def topic(self, name: str, *, type: Any = None) -> Topic:
        """A durable topic on the node's store, under this node's name where it publishes. `type` is what its values are, or bytes."""
        return self.store.topic(name, type=type)

    # -- the network around ----------------------------------------------------------------------------------------------------

    def reject(self, group: GroupId) -> None:
        """Does not want to hear of a group again."""
        self.core.reject(self.now(), group)
        self._ask_turn()

    def advertise(self) -> None:
        """Ask all nodes for their groups now, rejected ones too. A node does it when it starts and repeats it with growing pauses."""
        self.core.advertise(self.now())
        self._ask_turn()

    async def send_outside(self, group: str, data: bytes) -> int:
        """Send to an open group that this node is not in; return the number of the message at this node. Raises SendRefused if the group
        is not known, is closed, or has refused an earlier message."""
        core = self._awake()
        infos = core.directory.find(GroupId(group))
        if not infos:
            raise SendRefused(group, self.explain("the group is not known: wait until it is in `groups()`, or name a seed that knows it"))
        if not infos[0].options.open:
            raise SendRefused(group, "only its members may send: join it, or create it with open=True")
        refused = self._refused_by_group.pop(infos[0].id, None)
        if refused is not None:
            raise SendRefused(group, f"the messages after {refused.taken} were not taken: {refused.why}")
        while True:
            try:
                number = core.submit_guest(self.now(), infos[0].id, data)
            except WouldBlock:
                await asyncio.sleep(core.settings.retry_s)
            else:
                self._ask_turn()
                return number

    def stats(self) -> dict[str, object]:
        """Counters and gauges, plain values."""
        groups = {id: group.stats() for id, group in self._groups.items()}
        return {
            **self.core.stats(),
            "frames_received": self._frames_in,
            "bytes_received": self._bytes_in,
            "frames_sent": self._frames_out,
            "bytes_sent": self._bytes_out,
            "namesakes": dict(self._namesakes),
            "transport": self._driver.stats(),
            "groups": groups,
        }

    # -- what groups call ------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self._driver.now()

    def submit(self, group: GroupId, payload: bytes, reply_to: MessageId | None, after: Sequence[MessageId]) -> MessageId:
        core, driver = self._core, self._driver
        if core is None or group not in core.memberships:
            core = self._inside(group)  # raises
        # The first of a turn leaves at once; what comes after it fills a batch.
        at_once = not self._turn_asked
        sent = core.submit(driver.now(), group, payload, reply_to, after, at_once)
        if at_once:
            self._turn_asked, settled = True, False
            try:
                self._send_out(core.hurried())
                settled = not self._turn_due and core.settled()
            finally:
                self._turn_due = not settled
                driver.call_soon(self._turn)
            if settled:
                self._tell_all(core.told())
        else:
            self._turn_due = True
        self._crowd += _MESSAGE_BYTES + len(payload)
        if self._crowd >= self._crowded_at:
            self.crowded = True
        return sent

    def submit_many(self, group: GroupId, payloads: Sequence[bytes]) -> tuple[int, int]:
        """The number of the first message, and how many were accepted."""
        core = self._inside(group)
        count = core.submit_many(self._driver.now(), group, payloads)
        self._ask_turn()
        self._crowd += count * (_MESSAGE_BYTES + len(payloads[0]))
        self.crowded = self._crowd >= self._crowded_at
        return core.memberships[group].sent - count + 1, count

    def submit_to(self, group: GroupId, to: MemberId, payload: bytes) -> int:
        number = self._inside(group).submit_to(self.now(), group, to, payload)
        self._ask_turn()
        return number

    def ask(self, group: GroupId, payload: bytes, to: MemberId | None) -> int:
        number = self._inside(group).ask(self.now(), group, payload, to)
        self._ask_turn()
        return number

    def reply(self, group: GroupId, to: MemberId, question: int, payload: bytes) -> None:
        self._inside(group).reply(self.now(), group, to, question, payload)
        self._ask_turn()

    def close_question(self, group: GroupId, question: int) -> None:
        if group in self.core.memberships:
            self.core.close_question(self.now(), group, question)
            self._ask_turn()

    def provide_state(
        self, group: GroupId, snapshot: int, state: bytes | None, unread: Sequence[UnreadEvent] = (), reason: str = ""
    ) -> None:
        self._inside(group).provide_state(self.now(), group, snapshot, state, unread, reason)
        self._ask_turn()

    def pause(self, group: Group) -> None:
        if group.id in self.core.memberships:
            self.core.pause(self.now(), group.id)
            self._ask_turn()

    def resume(self, group: Group) -> None:
        if group.id in self.core.memberships:
            self.core.resume(self.now(), group.id)
            self._ask_turn()

    def explain(self, why: str) -> str:
        """Return why a call failed, with what this node has refused so far for want of the right credentials, if anything."""
        refused = "" if self._core is None else self._core.refusals.explain()
        return f"{why}. Refused so far: {refused}" if refused else why

    def leave(self, group: GroupId) -> None:
        if group in self.core.memberships:
            self.core.leave(self.now(), group)
            self._ask_turn()

    def _inside(self, group: GroupId) -> NodeCore:
        core = self._core
        if core is None or group not in core.memberships:
            raise NotInGroup(name_of(group), "it has left, or was put out")
        return core

    def _awake(self) -> NodeCore:
        if self._closed:
            raise UsageError("the node is closed: make another")
        return self.core

    # -- turns -----------------------------------------------------------------------------------------------------------------

    def _receive(self, source: Address, wires: Sequence[bytes], realm: str = "") -> None:
        core = self._core
        if core is None:
            return
        now, calm = self._driver.now(), True
        self._frames_in += len(wires)
        for wire in wires:
            self._bytes_in += len(wire)
            if not core.receive(now, source, wire, realm):
                calm = False
        if not self._turn_asked:
            if calm:
                self._tell_all(core.told())
            elif len(wires) <= _FEW:
                self._end_turn(now)  # nothing else has come that could share it, so nobody need wait
            else:
                self._ask_turn()
        else:
            self._turn_due = True

    def _connection_refused(self, address: Address) -> None:
        if self._core is not None and not self._closed:
            self._core.connection_refused(self._driver.now(), address)
            self._ask_turn()

    def _ask_turn(self) -> None:
        self._turn_due = True
        if not self._turn_asked:
            self._turn_asked = True
            self._driver.call_soon(self._turn)

    def _turn(self) -> None:
        if self._turn_due:
            self._end_turn(self._driver.now())
        else:  # the one message that left at once has been told, too
            self._turn_asked = self.crowded = False
            self._crowd = 0

    def _end_turn(self, now: float) -> None:
        self._turn_asked = self._turn_due = self.crowded = False
        self._crowd = 0
        core = self._core
        assert core is not None, "a turn is of a node that was started"
        effects = core.drain(now)
        if effects.sends:
            self._send_out(effects.sends)
        if effects.events:
            self._tell_all(effects.events)
        deadline = core.deadline
        # A timer that is too early costs one empty tick; setting it anew with every turn would cost more.
        if deadline is not None and deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._driver.call_at(deadline, self._tick_soon)

    def _send_out(self, sends: list[tuple[tuple[Address, ...] | None, bytes, GroupId | None]]) -> None:
        send = self._driver.send
        for to, wire, group in sends:
            self._frames_out += 1
            self._bytes_out += len(wire)
            send(to, wire, group)

    def _tick_soon(self) -> None:
        """A reader that something has just come for goes first: a digest to all others can wait for it."""
        self._driver.call_soon(self._tick)

    def _tick(self) -> None:
        if self._timer is None:
            return  # the node was abandoned a moment ago
        self._timer.cancel()  # another one, perhaps, set in between
        self._timer, self._timer_at = None, float("inf")
        now = self._driver.now()
        self.core.tick(now)
        self._end_turn(now)

    def _tell_all(self, events: list[tuple[GroupId | None, Event]]) -> None:
        groups = self._groups
        for group, event in events:
            if type(event) is tuple and group in groups:
                groups[group].deliver(event)
            elif group is None:
                self._hear(event)
            else:
                self._tell(group, event)

    def _tell(self, id: GroupId, event: Any) -> None:
        group = self._groups.get(id)
        if type(event) is Located:
            entry = self._entry_by_asked.get(event.asked)
            if entry is not None:
                self._begin(id, entry)
            else:
                self.leave(id)  # who asked has given up
        elif type(event) is JoinWaiting:
            pass  # for the logs
        elif type(event) is NameTaken:
            self._namesakes[id] = event.other
        elif group is not None:
            group.take(event)
            if group.departed:
                del self._groups[id]
                self._namesakes.pop(id, None)
        elif type(event) is Departed and id in self._entry_by_asked:
            self._entry_by_asked[id].fail(JoinFailed(id, self.explain(event.reason)))
        elif type(event) is GuestRefused:
            self._refused_by_group[id] = event

    def _hear(self, event: Any) -> None:
        if type(event) is Discovered:
            self._discovered.tell(event.info)
        elif type(event) is Vanished:
            self._vanished.tell(event.info)
        elif type(event) is NameServerAnswer:
            self._questions.hear(event)  # new groups in it were told as Discovered
