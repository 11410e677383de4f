"""Everything that comes from sessions which are not known yet, and the questions and answers that make them known.

Promises: no frame of a session comes out before the session has answered, over the same address, a question that did not exist before.
Under a shared key the answer is the question's nonce, sealed with the session's key (`ASK`, `ANSWER`); with certificates it is a TLS
handshake that also hands over the key (`introductions.py`), and a group's realm is asked about under the group's key on top of it, so
that nobody proves for a group what it could prove only for the node. Keeps: what `candidate.py` bounds.
Costs: a datagram that proves to be nothing has caused one derivation and one try of the cipher at most, or with certificates two hashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from antiphon.errors import BadFrame
from antiphon.model.ids import Address
from antiphon.runtime.security.allowance import Allowance
from antiphon.runtime.security.candidate import Candidate, Candidates
from antiphon.runtime.security.channel import Channel, SendingChannel
from antiphon.runtime.security.envelope import (
    ANSWER,
    ASK,
    ASK_BYTES,
    DATA,
    ECHO,
    KEY,
    KEY_ID,
    KIND,
    KNOCK,
    KNOCK_BYTES,
    NONCE_BYTES,
    SESSION,
    SESSION_BYTES,
    TALK,
    TLS_BYTES_FROM,
    number_of,
)
from antiphon.runtime.security.introductions import FLIGHT_LIMIT, Introductions, Peer
from antiphon.runtime.security.realm import Realm
from antiphon.runtime.security.sessions import Sessions

Opened = list[tuple[bytes, str]]
"""Frames, each with its realm."""


class Strangers:
    def __init__(
        self,
        session: bytes,
        node_realm: Realm,
        sending: Mapping[str, SendingChannel],
        sessions: Sessions,
        introductions: Introductions | None,
        *,
        reopen: Callable[[float, Address, bytes], Opened],
        send: Callable[[Address, bytes], None],
        drops: Counter[str],
        random_bytes: Callable[[int], bytes],
        now: float,
    ) -> None:
        self._session, self._node_realm, self._sending = session, node_realm, sending
        self._sessions, self._introductions = sessions, introductions
        self._realms = {channel.realm.key_id: channel.realm for channel in sending.values()}
        self._reopen, self._send, self._drops, self._random_bytes = reopen, send, drops, random_bytes
        self._candidates = Candidates()
        self._answers, self._questions = Allowance(2_000, 2_000, now), Allowance(1_000, 1_000, now)

    def __len__(self) -> int:
        return len(self._candidates)

    def consider(self, now: float, source: Address, datagram: bytes, known: Channel | None) -> Opened:
        """A datagram that is not simply a frame of a `known` session in force. BadFrame if it is refused."""
        realm, session, kind = self._realms.get(datagram[KEY_ID]), datagram[SESSION], datagram[KIND]
        if realm is None:
            raise BadFrame("wrong_key")
        if session == self._session:
            raise BadFrame("reflected")
        if kind in (KNOCK, ECHO, TALK):
            return self._introduce(now, source, datagram)
        if kind != DATA and (kind > TALK or len(datagram) != ASK_BYTES):
            raise BadFrame("malformed")
        if known is not None:
            return self._from_known(now, known, datagram)
        candidate = self._candidates.get(source, datagram[KEY])
        channel = candidate.channel if candidate is not None else self._channel(realm, source, session)
        if channel is None:
            return self._await_introduction(now, source, session, datagram)
        wire = channel.open(datagram)
        if candidate is None:
            candidate = self._admit(Candidate(now, source, channel.key, self._random_bytes(NONCE_BYTES), channel=channel))
        candidate.received += len(datagram)
        if kind == ANSWER:
            if wire != self._session + candidate.nonce:
                raise BadFrame("unasked")
            self._candidates.remove(candidate)
            self._sessions.trust(now, channel)
            return [(frame, realm.name) for frame in candidate.waiting]
        self._ask(now, candidate)
        if kind == ASK:
            self._answer(now, channel, wire)
        elif not self._candidates.hold(candidate, wire):
            raise BadFrame("unproven_dropped")
        return []

    def tick(self, now: float) -> None:
        for candidate in self._candidates:
            if now >= candidate.until:
                self._candidates.remove(candidate)
                self._drops["stale_session"] += len(candidate.waiting)
            else:
                self._ask(now, candidate)
        self._candidates.settle(now)

    def deadline(self) -> float | None:
        return self._candidates.deadline()

    def _from_known(self, now: float, channel: Channel, datagram: bytes) -> Opened:
        if now >= channel.expires:
            self._sessions.forget(channel)
            raise BadFrame("expired_certificate")
        content = channel.open(datagram)
        if datagram[KIND] != ASK:
            raise BadFrame("unasked")
        self._answer(now, channel, content)
        return []

    def _channel(self, realm: Realm, source: Address, session: bytes) -> Channel | None:
        """What opens a stranger's datagrams; None if its session secret has to be learnt first."""
        if self._introductions is None:
            return Channel(realm, session, b"", source)
        peer = self._sessions.peer(source, session)
        return None if peer is None else Channel(realm, session, peer.secret, source, peer.expires)

    def _admit(self, candidate: Candidate) -> Candidate:
        out = self._candidates.admit(candidate)
        if out is not None:
            self._drops["too_many_sessions"] += 1
            self._drops["unproven_dropped"] += len(out.waiting)
        return candidate

    # -- under a shared key ----------------------------------------------------------------------------------------------------

    def _ask(self, now: float, candidate: Candidate) -> None:
        if now >= candidate.ask_at and candidate.may_be_asked:
            if self._questions.take(now):
                self._send(candidate.source, self._question(candidate))
                candidate.asked(now)
            else:
                candidate.postpone(now)
        self._candidates.note(candidate)

    def _question(self, candidate: Candidate) -> bytes:
        if candidate.call is not None:
            return candidate.call.message
        assert candidate.channel is not None, "who is not called has a channel to be asked through"
        # Sealed anew each time: a repetition under the old number would be refused as replayed, also if only the answer was lost.
        return self._sending[candidate.channel.realm.name].seal_as(ASK, candidate.channel.session + candidate.nonce)

    def _answer(self, now: float, channel: Channel, question: bytes) -> None:
        if question[:SESSION_BYTES] != self._session:
            raise BadFrame("stale_session")
        if not self._answers.take(now):
            raise BadFrame("unproven_dropped")
        self._send(channel.source, self._sending[channel.realm.name].seal_as(ANSWER, channel.session + question[SESSION_BYTES:]))

    # -- with certificates -----------------------------------------------------------------------------------------------------

    def _await_introduction(self, now: float, source: Address, session: bytes, datagram: bytes) -> Opened:
        """Nothing can open it before its sender has introduced itself: it waits as it is, and its sender is called."""
        assert self._introductions is not None, "without certificates there is a key for every realm"
        key = self._node_realm.key_id + session
        candidate = self._candidates.get(source, key)
        if candidate is None:
            call = self._introductions.call(session)
            candidate = self._admit(Candidate(now, source, key, call.nonce, call=call))
        candidate.received += len(datagram)
        self._ask(now, candidate)
        if candidate.refused or not self._candidates.hold(candidate, datagram):
            raise BadFrame("unproven_dropped")
        return []

    def _introduce(self, now: float, source: Address, datagram: bytes) -> Opened:
        introductions, kind, size = self._introductions, datagram[KIND], len(datagram)
        fits = TLS_BYTES_FROM < size <= TLS_BYTES_FROM + FLIGHT_LIMIT if kind == TALK else size == KNOCK_BYTES
        if introductions is None or not fits or datagram[KEY_ID] != self._node_realm.key_id:
            raise BadFrame("malformed")
        if kind == KNOCK:
            introductions.knocked(now, source, datagram)
            return []
        if kind == TALK and number_of(datagram) % 2:
            peer = introductions.host(now, source, datagram)
            return [] if peer is None else self._introduced(now, peer)
        candidate = self._candidates.get(source, datagram[KEY])
        if candidate is None or candidate.call is None or candidate.refused:
            raise BadFrame("unasked")
        try:
            peer = introductions.answered(now, source, candidate.call, datagram)
        except BadFrame as bad:
            if bad.reason != "unasked":
                candidate.refuse()
                self._drops["unproven_dropped"] += self._candidates.discard(candidate)
            raise
        if peer is not None:
            return self._introduced(now, peer)
        candidate.ask_at = now
        self._ask(now, candidate)
        return []

    def _introduced(self, now: float, peer: Peer) -> Opened:
        known = self._sessions.peer(peer.source, peer.session)
        # Both may have called: a second introduction of a session must not begin its replay window anew.
        if known is None:
            channel = Channel(self._node_realm, peer.session, peer.secret, peer.source, peer.expires, peer.counter)
            self._sessions.trust(now, channel, peer)
        candidate = self._candidates.get(peer.source, self._node_realm.key_id + peer.session)
        if candidate is None:
            return []
        self._candidates.remove(candidate)
        return [opened for datagram in candidate.waiting for opened in self._reopen(now, peer.source, datagram)]
