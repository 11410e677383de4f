"""Seals what a node sends and opens what it receives, between the driver and its transport. No I/O: time and chance are arguments.

The driver calls `seal` for every frame, `open` for every datagram, `tick` when `deadline` has passed; after `open` and `tick` it sends
what `outgoing` returns. A frame comes out of `open` with the realm whose key it was sealed with, and must be believed only in that realm:
`realm_of` says which realm a group is in, and a frame about a group that comes in any other is not to be looked at.

Promises, for a realm that has a key: nothing comes out that was not sealed by a holder of the key (or of a certificate), by a session
that is alive now, at the address it came from, and not before. What is refused is counted in `drops` under its reason; nothing received
raises. A realm that has none (no credentials; or TCP with certificates, where TLS guards the connection) passes through as it is.

| reason                | the datagram was                                                                                         |
|-----------------------|----------------------------------------------------------------------------------------------------------|
| no_key                | not sealed at all                                                                                        |
| wrong_key             | sealed with a key that this node does not have                                                           |
| forged                | changed on its way, made up, or sent from another address than its own                                   |
| replayed              | here before, or too old to know                                                                          |
| stale_session         | of a session that did not show that it is alive, or about one that this node is no longer in             |
| expired_certificate   | from a node whose certificate is outside its dates                                                       |
| untrusted_certificate | from a node whose certificate no trusted authority signed                                                |
| wrong_name            | from a node whose certificate is made out to another name                                                |
| refused_by_peer       | a peer's refusal of this node's own certificate                                                          |
| malformed             | not of the envelope's form                                                                               |
| unasked               | an answer to nothing that was asked: late, repeated, or made up                                          |
| reflected             | this node's own                                                                                          |
| unproven_dropped      | from a session that has yet to prove itself, above what may wait                                         |
| too_many_sessions     | (a session) forgotten because of the bound on sessions, and asked anew when it goes on                   |

Keeps: 4,096 sessions (`sessions.py`), and what may wait for strangers to prove themselves (`candidate.py`).
Costs: 52 bytes per frame; seal and open take 0.9 and 2.0 µs at 100 B, 1.2 and 2.3 µs at 1 KiB, 10 and 9 µs at 60 kB; a stranger's
datagram at most one try of the cipher (`pytest -s tests/runtime/security/test_cost.py` prints them for the machine at hand).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping

from antiphon.errors import BadFrame, InvalidOption
from antiphon.model.ids import Address, name_of
from antiphon.model.refusals import SAYS, Refusals, is_worth_a_word
from antiphon.runtime.security.allowance import Allowance
from antiphon.runtime.security.certificates import Certificates
from antiphon.runtime.security.channel import SendingChannel
from antiphon.runtime.security.envelope import (
    DATA,
    KEY,
    KEY_ID,
    KEY_ID_BYTES,
    KIND,
    MAGIC,
    NOTICE,
    NOTICE_BYTES,
    SEAL_BYTES,
    SEALED_LIMIT,
    SESSION_BYTES,
)
from antiphon.runtime.security.introductions import SECRET_BYTES, Introductions
from antiphon.runtime.security.preshared import PreSharedKey
from antiphon.runtime.security.realm import Realm, extract
from antiphon.runtime.security.sessions import Sessions
from antiphon.runtime.security.strangers import Opened, Strangers

_NOTICES_PER_S = 20
_BAD_CERTIFICATE = bytes(KEY_ID_BYTES)
"""What a notice has in place of a key id, if it was a certificate that was refused."""


class Sealer:
    """One per start of a node: the session is as old as the sealer. `name` is what the node's certificate must be made out to."""

    def __init__(
        self,
        credentials: PreSharedKey | Certificates | None,
        keys: Mapping[str, PreSharedKey] | None = None,
        *,
        address: Address,
        now: float,
        name: str = "",
        random_bytes: Callable[[int], bytes] = os.urandom,
        refusals: Refusals | None = None,
    ) -> None:
        """`refusals` counts, by peer, what was refused for want of the right credentials."""
        self.refusals = refusals or Refusals()
        self._notices = Allowance(_NOTICES_PER_S, _NOTICES_PER_S, now)
        self.session = random_bytes(SESSION_BYTES)
        self.drops: Counter[str] = Counter()
        node_realm = _node_realm(credentials)
        self._key_id, self._guards_node = node_realm.key_id, credentials is not None
        realms = [node_realm] if self._guards_node else []
        for group, key in (keys or {}).items():
            if not isinstance(key, PreSharedKey) or not group:
                raise InvalidOption("keys", {group: type(key).__name__}, "give each group's name a PreSharedKey")
            realms.append(key.group_realm(node_realm, group))
        secret = random_bytes(SECRET_BYTES) if isinstance(credentials, Certificates) else b""
        self._sending = {realm.name: SendingChannel(realm, self.session, secret, address) for realm in realms}
        self._sessions = Sessions(node_realm, self.drops)
        self._by_source = self._sessions.by_source
        self._outgoing: list[tuple[Address, bytes]] = []
        self._deadline: float | None = None
        self._introductions = None
        if isinstance(credentials, Certificates):
            self._introductions = Introductions(
                credentials,
                name=name,
                session=self.session,
                address=address,
                key_id=node_realm.key_id,
                secret=secret,
                counter=lambda: self._sending[""].counter,
                send=self._send,
                drops=self.drops,
                random_bytes=random_bytes,
                now=now,
            )
        self._strangers = Strangers(
            self.session,
            node_realm,
            self._sending,
            self._sessions,
            self._introductions,
            reopen=self.open,
            send=self._send,
            drops=self.drops,
            random_bytes=random_bytes,
            now=now,
        )

    def realm_of(self, group: str | None) -> str:
        """The realm that frames about this group (its id or name; None: about no group) are sealed in, and must have come in."""
        name = "" if group is None else name_of(group)
        return name if name in self._sending else ""

    def seal(self, wire: bytes, realm: str) -> bytes:
        sending = self._sending.get(realm)
        if sending is not None:
            return sending.seal(wire)
        if realm or self._guards_node:
            raise InvalidOption("realm", realm, "this node has no key for it: ask realm_of for the realm of a group")
        return wire

    def open(self, now: float, source: Address, datagram: bytes) -> Opened:
        """The frames that may be believed now: that of the datagram, those that waited for its sender to prove itself, or none."""
        if not datagram.startswith(MAGIC):
            return self._unsealed(now, source, datagram)
        if not SEAL_BYTES <= len(datagram) <= SEALED_LIMIT:
            self._take_notice(source, datagram)
            return []
        channels = self._by_source.get(source)
        channel = None if channels is None else channels.get(datagram[KEY])
        try:
            if channel is not None and datagram[KIND] == DATA and now < channel.expires:
                wire = channel.open(datagram)
                channel.used = now
                return [(wire, channel.realm.name)]
            opened = self._strangers.consider(now, source, datagram, channel)
        except BadFrame as bad:
            self.drops[bad.reason] += 1
            if bad.reason in SAYS:
                self._refuse(now, source, bad.reason)
            opened = []
        self._set_deadline()
        return opened

    def outgoing(self) -> list[tuple[Address, bytes]]:
        """Questions and answers of the sealer's own, to be sent as they are."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    @property
    def deadline(self) -> float | None:
        """When `tick` is due; None: there is nothing to wait for."""
        return self._deadline

    def tick(self, now: float) -> None:
        if self._introductions is not None:
            self._introductions.tick(now)
        self._strangers.tick(now)
        self._set_deadline()

    def name_at(self, source: Address) -> str | None:
        """With certificates: the name that the node at this address has proven to have."""
        return self._sessions.name_at(source)

    def stats(self) -> dict[str, object]:
        handshakes = 0 if self._introductions is None else len(self._introductions)
        return {"sessions": len(self._sessions), "unproven": len(self._strangers), "handshakes": handshakes, "drops": dict(self.drops)}

    def _refuse(self, now: float, source: Address, cause: str) -> None:
        """Counts a refusal. A node with another key, or none, is told now and then that there is one here: it would hear nothing."""
        count = self.refusals.note(source, cause)
        if cause != "refused_by_peer" and is_worth_a_word(count) and self._notices.take(now):
            key_id = self._key_id if cause in ("wrong_key", "no_key") else _BAD_CERTIFICATE
            self._send(source, MAGIC + bytes((NOTICE,)) + key_id)

    def _take_notice(self, source: Address, datagram: bytes) -> None:
        """Counts a peer's notice, which nobody can prove and nobody answers."""
        is_notice = len(datagram) == NOTICE_BYTES and datagram[KIND] == NOTICE
        if is_notice and datagram[KEY_ID] == self._key_id:
            is_notice = len(self._sending) > self._guards_node  # with the same key for the node, what was refused is of a group's key
        refused = self._introductions is not None and datagram[KEY_ID] == _BAD_CERTIFICATE
        if is_notice:
            self.refusals.note(source, "refused_by_peer" if refused else "wrong_key")
        else:
            self.drops["malformed"] += 1

    def _unsealed(self, now: float, source: Address, datagram: bytes) -> Opened:
        if datagram[:1] == MAGIC[:1]:
            self.drops["malformed"] += 1
            return []
        if self._guards_node:
            self.drops["no_key"] += 1
            self._refuse(now, source, "no_key")
            return []
        return [(datagram, "")]

    def _set_deadline(self) -> None:
        hosted = None if self._introductions is None else self._introductions.deadline()
        self._deadline = min((at for at in (self._strangers.deadline(), hosted) if at is not None), default=None)

    def _send(self, to: Address, datagram: bytes) -> None:
        self._outgoing.append((to, datagram))


def _node_realm(credentials: PreSharedKey | Certificates | None) -> Realm:
    if isinstance(credentials, PreSharedKey):
        return credentials.node_realm()
    if isinstance(credentials, Certificates):
        return Realm("", extract(b"antiphon certificates", b""))
    if credentials is None:
        return Realm("", extract(b"antiphon no credential", b""))
    raise InvalidOption("credentials", type(credentials).__name__, "give a PreSharedKey, Certificates, or None")
