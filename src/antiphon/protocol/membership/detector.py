"""Who is still there: silence, then questions, then a verdict.

Every frame of the view counts as a sign of life; digests come at least every `heartbeat_s` (where there are none, over `besteffort`,
beats do). Who is silent for `suspect_s` is asked
directly, and through up to `_HELPERS` others, `probes` times. A direct answer ends it. If only others hear the member, it is reached
through one of them. If nobody does, or it says that it is in another view, it is lost to this one; should it be heard again before a
new view is made, the verdict is withdrawn.

A transport with connections can say that a member's connection was closed and that its address refuses another (`suspect_early`). That is
no proof: the member is asked at once, `_EARLY_S` apart, and anything that is heard of it, directly or through others, ends the
suspicion. There is one such series per member in `suspect_s`, so that a connection that flaps does not cause more.

Keeps two times per member. Costs nothing but that while all are heard; a silent member costs a few frames per probe.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.model.control import Beat, Enquire, Ping, Pong, Vouch
from antiphon.model.ids import Address, MemberId
from antiphon.protocol.membership.port import Port
from antiphon.protocol.routes import Routes
from antiphon.protocol.timers import Timer

_HELPERS = 3
_EARLY_S = 0.25
"""The time between two questions to a member whose address refuses connections; `probe_s` if that is less."""


class _Probe:
    """One series of questions about a silent member."""

    __slots__ = ("attempts", "early_since", "until", "voucher")

    def __init__(self, early_since: float | None = None) -> None:
        self.attempts, self.until = 0, 0.0
        self.early_since = early_since
        """When its address refused a connection, if that is why it is asked: silence until then does not matter."""
        self.voucher: Address | None = None


class Detector:
    def __init__(
        self,
        port: Port,
        routes: Routes,
        lost: Callable[[MemberId, bool], None],
        found: Callable[[MemberId], None],
        first: Callable[[], MemberId],
    ) -> None:
        """`lost` is told of each member that is taken for dead, and whether its address also refuses connections."""
        self._port, self._routes, self._lost, self._found, self._first = port, routes, lost, found, first
        self.heard: dict[MemberId, float] = {}
        """When each other member of the view was last heard."""
        self._probes: dict[MemberId, _Probe] = {}
        self._next_early: dict[MemberId, float] = {}
        """Before which time a refused connection of a member is not taken as a sign again."""
        self._suspected: set[MemberId] = set()
        self._timer: Timer | None = None
        self._beat_at = 0.0
        self._beats = port.options.multicast == "besteffort"
        """Whether nothing else says that this member lives: there are no digests."""

    def on_view(self) -> None:
        port = self._port
        members = port.view.members if port.view is not None else ()
        self.heard = {member: port.now for member in members if member != port.me}
        self._suspected.clear()
        self._next_early = {member: when for member, when in self._next_early.items() if member in self.heard}
        self.stop()
        self._look_later()

    def stop(self) -> None:
        self._probes.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def doubt(self, member: MemberId) -> None:
        """Somebody else does not hear the member: ask it now."""
        if member in self.heard and member not in self._probes and member not in self._suspected:
            self._ask(member)

    def suspect_early(self, member: MemberId) -> None:
        """Ask a member at once, in short intervals: its connection was closed and its address refuses another."""
        port = self._port
        if member not in self.heard or member in self._suspected or port.now < self._next_early.get(member, port.now):
            return
        self._next_early[member] = port.now + port.settings.suspect_s
        probe = self._probes[member] = _Probe(early_since=port.now)
        self._ask(member)
        self._review_later(member, probe)

    def _review_later(self, member: MemberId, probe: _Probe) -> None:
        self._port.call_in(min(_EARLY_S, self._port.settings.probe_s), lambda: self._review_early(member, probe))

    def _review_early(self, member: MemberId, probe: _Probe) -> None:
        if self._probes.get(member) is not probe or probe.early_since is None:
            return  # answered, or in another view
        if self.heard[member] > probe.early_since:
            del self._probes[member]
            return
        self._judge(member, probe)
        if self._probes.get(member) is probe:
            self._review_later(member, probe)

    def suspect(self, member: MemberId) -> None:
        """The member is taken for dead. Only a frame that comes from now on speaks for it."""
        self._probes.pop(member, None)
        if member in self.heard:
            self._suspected.add(member)
            self.heard[member] = min(self.heard[member], self._port.now - self._port.settings.suspect_s)

    def receive_pong(self, frame: Pong, source: Address) -> None:
        if frame.member in self._probes and self._port.address_by_member.get(frame.member) == source:
            if frame.here:
                self.heard[frame.member] = self._port.now
                del self._probes[frame.member]
            else:
                self._condemn(frame.member)

    def receive_vouch(self, frame: Vouch, source: Address) -> None:
        probe = self._probes.get(frame.member)
        if probe is not None and source in self._port.address_by_member.values():
            if frame.here:
                probe.voucher = source
            else:
                self._condemn(frame.member)

    def _look_later(self) -> None:
        if self.heard:
            self._timer = self._port.call_in(self._port.settings.probe_s * self._port.rng.uniform(0.4, 0.6), self._look)

    def _look(self) -> None:
        port = self._port
        if self._beats and port.view is not None and port.now >= self._beat_at:
            self._beat_at = port.now + port.settings.heartbeat_s / 2
            port.broadcast(Beat(port.group, port.me, port.view.id))
        self.heard.pop(port.me, None)  # heard through a forged source; it must not be suspected by itself
        for member, when in list(self.heard.items()):
            if (early := self._probes.get(member)) is not None and early.early_since is not None:
                continue
            if port.now - when < port.settings.suspect_s:
                self._probes.pop(member, None)
                if member in self._suspected:
                    self._suspected.discard(member)
                    self._found(member)
            elif member not in self._suspected:
                probe = self._probes.get(member)
                if probe is None or port.now >= probe.until:
                    self._judge(member, probe)
        self._look_later()

    def _judge(self, member: MemberId, probe: _Probe | None) -> None:
        address = self._port.address_by_member.get(member)
        if probe is not None and probe.voucher is not None and address is not None:
            # Only others hear it. The time that the first frame takes over the new way is granted.
            self._routes.go_through(self._port.now, address, probe.voucher)
            self.heard[member] = self._port.now
            del self._probes[member]
        elif probe is not None and probe.attempts >= self._port.settings.probes:
            self._condemn(member, gone=probe.early_since is not None)
        else:
            self._ask(member)

    def _condemn(self, member: MemberId, gone: bool = False) -> None:
        if member not in self._suspected:
            self.suspect(member)
            self._lost(member, gone)

    def _ask(self, member: MemberId) -> None:
        port = self._port
        address, view = port.address_by_member.get(member), port.view
        if address is None or view is None:
            return
        probe = self._probes.setdefault(member, _Probe())
        probe.attempts += 1
        probe.until = port.now + port.settings.probe_s
        port.send((member,), Ping(probe.attempts, port.group, member, view.id))
        others = [other for other in view.members if other not in (member, port.me) and other not in self._suspected]
        helpers = port.rng.sample(others, min(_HELPERS, len(others)))
        first = self._first()
        if first in others and first not in helpers:
            helpers.append(first)
        port.send(helpers, Enquire(probe.attempts, port.group, member, view.id, address))
