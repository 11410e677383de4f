"""How two nodes with certificates come to believe each other over datagrams.

Theory of operation. Each node seals everything it sends with keys made of its *session secret*, so that one multicast datagram can be
opened by all who know the secret. It gives the secret to whoever has proven, by TLS 1.3 with certificates on both sides, to
be a node of the same authority, and gets the other's in return. The one who has received something that it cannot open calls:

    caller                                       host
    KNOCK   target session, nonce        ──▶     nothing is kept yet; the cookie is made of address, session and nonce
            the host is where it says    ◀──     ECHO    nonce, cookie
    TALK 1  cookie, ClientHello          ──▶     the caller is where it says: from here on there is state, bounded and rate-limited
                                         ◀──     TALK 2  ServerHello … certificate … Finished
    TALK 3  certificate … Finished,      ──▶
            the caller's introduction
                                         ◀──     TALK 4  the host's introduction

An introduction is a session, the address and name that it claims, its secret and its counter. It is believed if the address is the
one it came from and the certificate is made out to the name. What was recorded of a session that is over cannot be introduced: a host
talks only about the session it is in. The caller repeats what is not answered; the host repeats its answer to what is repeated. When
both call at once both succeed, which changes nothing.

Keeps: 256 handshakes as host, for 10 seconds each; another one takes the place of the oldest. Costs: about 1 ms of each side.
"""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from antiphon.errors import BadFrame
from antiphon.model.frames import Number
from antiphon.model.ids import NAME_LIMIT, Address
from antiphon.runtime.security.allowance import Allowance
from antiphon.runtime.security.certificates import Certificates
from antiphon.runtime.security.conversation import Conversation
from antiphon.runtime.security.envelope import (
    ECHO,
    FIRST,
    KIND,
    KNOCK,
    NONCE_BYTES,
    SECOND,
    SESSION,
    SESSION_BYTES,
    TALK,
    THIRD,
    TLS_BYTES_FROM,
    head,
    number_of,
)

SECRET_BYTES = 32
HOSTED = 256
HOSTED_S = 10.0
COOKIE_S = 10.0
FLIGHT_LIMIT = 32 << 10
"""A flight with a certificate chain in it; longer chains belong into no datagram."""


class Introduction(Struct, array_like=True, frozen=True):
    """What each side tells the other once TLS has proven who it is."""

    session: Annotated[bytes, Meta(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]
    address: Annotated[str, Meta(max_length=255)]
    name: Annotated[str, Meta(max_length=NAME_LIMIT)]
    secret: Annotated[bytes, Meta(min_length=SECRET_BYTES, max_length=SECRET_BYTES)]
    counter: Number


class Peer(NamedTuple):
    """A session that has been introduced."""

    source: Address
    session: bytes
    name: str
    secret: bytes
    counter: int
    expires: float


class Call:
    """A handshake from the caller's side: `message` is what has to be sent, and sent again until it is answered."""

    __slots__ = ("conversation", "message", "nonce", "step", "target")

    def __init__(self, target: bytes, nonce: bytes, message: bytes) -> None:
        self.target, self.nonce, self.message = target, nonce, message
        self.step = 0
        """The number of the flight that was sent last; 0 while knocking."""
        self.conversation: Conversation | None = None

    @property
    def answered(self) -> bool:
        return self.step > 0


class _Hosted:
    """The same from the host's side: flight `step` has been taken, and `reply` is the answer to it. When the last flight has come only
    the reply is kept, for a caller that did not get it."""

    __slots__ = ("conversation", "reply", "step", "until")

    def __init__(self, conversation: Conversation, until: float) -> None:
        self.conversation: Conversation | None = conversation
        self.until = until
        self.step, self.reply = 0, b""


class Introductions:
    def __init__(
        self,
        certificates: Certificates,
        *,
        name: str,
        session: bytes,
        address: Address,
        key_id: bytes,
        secret: bytes,
        counter: Callable[[], int],
        send: Callable[[Address, bytes], None],
        drops: Counter[str],
        random_bytes: Callable[[int], bytes],
        now: float,
    ) -> None:
        self._client, self._server = certificates.client_context(), certificates.server_context()
        self._name, self._session, self._address, self._key_id, self._secret = name, session, address, key_id, secret
        self._counter, self._send, self._drops, self._random_bytes = counter, send, drops, random_bytes
        self._cookie_secret = random_bytes(32)
        self._hosted: dict[tuple[Address, bytes, bytes], _Hosted] = {}
        self._echoes = Allowance(1_000, 1_000, now)
        self._handshakes = Allowance(100, 200, now)

    def __len__(self) -> int:
        return len(self._hosted)

    # -- the caller ------------------------------------------------------------------------------------------------------------

    def call(self, target: bytes) -> Call:
        nonce = self._random_bytes(NONCE_BYTES)
        return Call(target, nonce, head(KNOCK, self._key_id, self._session, 0) + target + nonce)

    def answered(self, now: float, source: Address, call: Call, datagram: bytes) -> Peer | None:
        """What the host says next: afterwards `call.message` is the reply, or its introduction is returned. BadFrame if it is not to be
        believed; "unasked" if it says nothing about the call."""
        conversation = call.conversation
        if conversation is None:
            if datagram[KIND] != ECHO or datagram[FIRST] != call.nonce:
                raise BadFrame("unasked")
            call.conversation = Conversation(self._client, server_side=False)
            self._go_on(call, datagram[SECOND])
            return None
        if datagram[KIND] != TALK or datagram[SECOND] != call.nonce or number_of(datagram) != call.step + 1:
            raise BadFrame("unasked")
        if conversation.established:
            conversation.advance(datagram[TLS_BYTES_FROM:])
            return self._believe(now, source, call.target, conversation)
        conversation.advance(datagram[TLS_BYTES_FROM:])
        if not conversation.established:
            raise BadFrame("malformed")
        conversation.say(self._introduction())
        self._go_on(call, datagram[THIRD])
        return None

    def _go_on(self, call: Call, cookie: bytes) -> None:
        assert call.conversation is not None, "a call goes on only after its conversation has begun"
        call.step += 1 if call.step == 0 else 2
        call.message = b"".join(
            (head(TALK, self._key_id, self._session, call.step), call.target, call.nonce, cookie, call.conversation.flight())
        )

    # -- the host --------------------------------------------------------------------------------------------------------------

    def knocked(self, now: float, source: Address, datagram: bytes) -> None:
        if datagram[FIRST] != self._session:
            raise BadFrame("stale_session")
        if not self._echoes.take(now):
            raise BadFrame("unproven_dropped")
        cookie = self._cookie(source, datagram[SESSION], datagram[SECOND], now)
        self._send(source, head(ECHO, self._key_id, self._session, 0) + datagram[SECOND] + cookie)

    def host(self, now: float, source: Address, datagram: bytes) -> Peer | None:
        """Flight 1 or 3 of a caller; its introduction comes with 3. BadFrame if it is not to be believed."""
        step, caller, nonce, cookie = number_of(datagram), datagram[SESSION], datagram[SECOND], datagram[THIRD]
        if datagram[FIRST] != self._session:
            raise BadFrame("stale_session")
        if not any(hmac.compare_digest(cookie, self._cookie(source, caller, nonce, at)) for at in (now, now - COOKIE_S)):
            raise BadFrame("forged")
        hosted = self._hosted.get((source, caller, nonce))
        if hosted is None:
            if step != 1:
                raise BadFrame("unasked")
            hosted = self._begin(now, (source, caller, nonce))
        if step == hosted.step and hosted.reply:
            self._send(source, hosted.reply)
            return None
        conversation, peer = hosted.conversation, None
        if conversation is None or step != (3 if hosted.step else 1):
            raise BadFrame("unasked")
        hosted.step, hosted.reply = step, b""
        if step == 3:
            hosted.conversation = None
        try:
            conversation.advance(datagram[TLS_BYTES_FROM:])
            if conversation.established:
                peer = self._believe(now, source, caller, conversation)
                conversation.say(self._introduction())
        finally:
            # Also when it is refused: the alert tells an honest caller what is wrong with its certificate.
            flight = conversation.flight()
            if flight:
                hosted.reply = head(TALK, self._key_id, self._session, step + 1) + caller + nonce + cookie + flight
                self._send(source, hosted.reply)
        return peer

    def tick(self, now: float) -> None:
        # All are kept equally long, so the first to come is the first to go.
        while self._hosted and next(iter(self._hosted.values())).until <= now:
            del self._hosted[next(iter(self._hosted))]

    def deadline(self) -> float | None:
        return next(iter(self._hosted.values())).until if self._hosted else None

    def _begin(self, now: float, key: tuple[Address, bytes, bytes]) -> _Hosted:
        if not self._handshakes.take(now):
            raise BadFrame("too_many_sessions")
        if len(self._hosted) >= HOSTED:
            self._drops["too_many_sessions"] += 1
            del self._hosted[next(iter(self._hosted))]
        hosted = self._hosted[key] = _Hosted(Conversation(self._server, server_side=True), now + HOSTED_S)
        return hosted

    def _cookie(self, source: Address, caller: bytes, nonce: bytes, at: float) -> bytes:
        epoch = int(at // COOKIE_S).to_bytes(8, "big", signed=True)
        return hmac.digest(self._cookie_secret, epoch + caller + nonce + source.encode(), "sha256")[:NONCE_BYTES]

    # -- both ------------------------------------------------------------------------------------------------------------------

    def _introduction(self) -> bytes:
        return msgspec.msgpack.encode(Introduction(self._session, self._address, self._name, self._secret, self._counter()))

    def _believe(self, now: float, source: Address, session: bytes, conversation: Conversation) -> Peer:
        try:
            said = msgspec.msgpack.decode(conversation.heard(), type=Introduction)
        except msgspec.MsgspecError:
            raise BadFrame("malformed") from None
        subject = conversation.subject()
        if now >= subject.expires:
            raise BadFrame("expired_certificate")
        if said.name not in subject.names:
            raise BadFrame("wrong_name")
        # Somebody in between who passes a handshake on would otherwise have its own address believed.
        if said.session != session or said.address != source:
            raise BadFrame("forged")
        return Peer(source, session, said.name, said.secret, said.counter, subject.expires)
