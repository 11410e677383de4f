"""A group in one process and in virtual time: members, the network between them, faults, and a log of all that happened.

The endpoints are the real ones; the world is only their driver (`sim.ground`), and their membership service: views are what
`install_view` says. Messages sent at one instant leave as one batch. Callbacks may send; that is the member's next turn.

    world = ViewWorld(seed=7, members=("a", "b", "c"), options=GroupOptions(order="causal"))
    question = world.send("a", b"Did you visit Delhi?")
    world.on_deliver("b", lambda message, payload, reply_to: None)
    assert world.settle(10.0)

The same seed and the same calls give the same run, byte for byte, in every process. What happened is in `logs`, one per incarnation.

Keeps everything that happened: memory grows with the messages of a run. Cost: five members and 200 messages, 20 to 40 ms over `reliable`
or `tree`; several times that where more frames travel (`flood`, safe delivery).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from antiphon.debugger.tap import Passage
from antiphon.model.ids import MemberId, MessageId, new_group_id, new_member_id
from antiphon.model.options import GroupOptions, Settings
from antiphon.model.view import View
from antiphon.protocol.endpoint import Endpoint
from antiphon.protocol.sync.ledger import Ledger
from antiphon.sim.carrier import Place
from antiphon.sim.ground import Ground
from antiphon.sim.log import Sent, hash_of
from antiphon.sim.member import Member
from antiphon.sim.network import NetworkModel
from antiphon.sim.rest import at_rest


class ViewWorld(Ground[Member]):
    def __init__(
        self,
        seed: int = 1,
        members: Sequence[str] = ("a", "b", "c"),
        options: GroupOptions | None = None,
        settings: Settings | None = None,
        network: NetworkModel | None = None,
        trace: bool | str = False,
    ) -> None:
        """A group of `members`, all in its first view at time 0. With `trace` what happens is recorded (`rows`, `write_trace`)."""
        super().__init__(seed, members, settings, network, trace)
        self.options = options or GroupOptions()
        self._ids = random.Random(f"{seed}/ids")
        self._member_by_id: dict[Place, Member] = {}
        self._group = new_group_id("group", self._ids)
        self._past = Ledger()
        """What was delivered in views that have ended: a newcomer knows it, as by synchronisation."""
        for name in self.names:
            self._start(name)
        self._view = View(1, tuple(self._process(name).id for name in self.names))
        for name in self.names:
            self._join(self._process(name), None)

    # -- questions -------------------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The view that was installed last."""
        return self._view

    def id_of(self, name: str) -> MemberId:
        """The member id of the current incarnation."""
        return self._process(name).id

    def endpoint(self, name: str) -> Endpoint:
        """The endpoint of the current incarnation; UsageError while it is in no view."""
        return self._process(name).core

    # -- the application -------------------------------------------------------------------------------------------------------

    def send(self, name: str, payload: bytes, reply_to: MessageId | None = None, after: Sequence[MessageId] = ()) -> MessageId:
        """Sends as the application of `name` would; raises what `Endpoint.submit` raises, and UsageError when it cannot act."""
        member = self._process(name)
        message = member.acting().submit(member.now(), payload, reply_to, after)
        names = (*after,) if reply_to is None else (reply_to, *after)
        member.log.events.append(Sent(self.now, message, names, reply_to is not None, hash_of(payload)))
        return message

    def settle(self, limit_s: float) -> bool:
        """Runs until the group is at rest, and says whether that happened within `limit_s`. At rest: nothing that matters is in
        flight, and all who live and run in the latest view have the same messages, without gaps, and hold none back."""
        return self.wait_for(self._at_rest, limit_s)

    # -- views -----------------------------------------------------------------------------------------------------------------

    def begin_flush(self, names: Iterable[str]) -> None:
        """Stops the sending of these members until the next view, so that they can become level."""
        for name in names:
            self._process(name).flush()

    def install_view(self, names: Iterable[str]) -> View:
        """Makes the current incarnations of `names` the group, at all of them that live, at once. Call `begin_flush` and `settle`
        first: the living members of the old view must hold the same messages. Newcomers start after what those hold."""
        self._end_turns()
        members = [self._process(name) for name in names]
        view = View(self._view.id + 1, tuple(member.id for member in members))
        self._view = view
        veterans = [member for member in members if member.alive and member.joined]
        cut: dict[MemberId, int] = {}
        for member in veterans:
            for sender, (high, *above) in zip(member.core.view.members, member.core.holdings(), strict=False):
                for low, last in ((1, high), *zip(above[::2], above[1::2], strict=True)):
                    if low <= last:
                        self._past.add(sender, low, last)
            member.install(view)
            for sender, position in member.core.multicast.positions().items():
                cut[sender] = max(position, cut.get(sender, 0))
        for member in members:
            if member.alive and not member.joined:
                self._join(member, {sender: cut[sender] for sender in view.members if sender in cut})
        return view

    def _start(self, name: str) -> None:
        member = Member(name, new_member_id(name, self._ids), self._scheduler, self._touched.append)
        self._process_by_name[name] = self._member_by_id[member.id] = member
        self._processes.append(member)
        self.logs.append(member.log)

    def _join(self, member: Member, cut: dict[MemberId, int] | None) -> None:
        rng = random.Random(f"{self.seed}/member/{member.id}")
        recorder = None if self.tracing is None else self.tracing.recorder(member.name, member.now)
        member.join(self._group, self._view, self.options, self.settings, rng, cut, recorder)
        for sender, low, high in self._past:
            if sender not in self._view:
                member.core.know(sender, low, high)

    # -- one turn --------------------------------------------------------------------------------------------------------------

    def _end_turn(self, process: Member) -> None:
        effects, application = process.core.drain(process.now()), self._application_by_name[process.name]
        for destination, wire in effects.sends:
            self._carrier.cast(process.id, process.others if destination is None else destination, wire)
        for event in effects.events:
            if process.alive:  # a callback may crash its own member
                application.hear(self.now, process.log, event)
        process.arm()

    def _sample(self, process: Member) -> None:
        process.sample()

    def _arrive(self, passage: Passage) -> None:
        self._member_by_id[passage.destination].arrive(passage.source, passage.wire)

    def _at_rest(self) -> bool:
        if self._carrier.in_flight:
            return False
        living = [member for member in map(self._member_by_id.__getitem__, self._view.members) if member.alive and not member.paused]
        return not any(member.waiting for member in living) and at_rest([member.core for member in living], self.options)
