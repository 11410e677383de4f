"""The two ends of what one session sends in one realm.

`SendingChannel` is this node's own: every call takes a new number, so no nonce is used twice with a key. `Channel` is another node's,
as received here: bound to the address it sends from, with its replay window. The address is authenticated with every
datagram, so that a recording sent from elsewhere is worth nothing.
"""

from __future__ import annotations

from antiphon.errors import BadFrame
from antiphon.model.ids import Address
from antiphon.runtime.security.envelope import COUNTER, DATA, HEADER, HEADER_BYTES, head
from antiphon.runtime.security.realm import Realm
from antiphon.runtime.security.window import ReplayWindow

_NONCE_START = bytes(4)
"""The cipher wants 12 bytes; a counter has 8."""


class SendingChannel:
    __slots__ = ("_address", "_cipher", "_data_start", "_session", "counter", "realm")

    def __init__(self, realm: Realm, session: bytes, secret: bytes, address: Address) -> None:
        self.realm, self._session, self._address = realm, session, address.encode()
        self._cipher = realm.cipher(session, secret)
        self._data_start = head(DATA, realm.key_id, session, 0)[: COUNTER.start]
        self.counter = 0

    def seal(self, wire: bytes) -> bytes:
        self.counter += 1
        number = self.counter.to_bytes(8, "big")
        header = self._data_start + number
        return header + self._cipher.encrypt(_NONCE_START + number, wire, header + self._address)

    def seal_as(self, kind: int, content: bytes) -> bytes:
        self.counter += 1
        header = head(kind, self.realm.key_id, self._session, self.counter)
        return header + self._cipher.encrypt(_NONCE_START + header[COUNTER], content, header + self._address)


class Channel:
    __slots__ = ("_cipher", "_source", "expires", "realm", "session", "source", "used", "window")

    def __init__(
        self, realm: Realm, session: bytes, secret: bytes, source: Address, expires: float = float("inf"), highest: int = 0
    ) -> None:
        self.realm, self.session, self.source, self.expires = realm, session, source, expires
        self.window = ReplayWindow(highest)
        self.used = 0.0
        """When something last came: who has been silent longest is forgotten first."""
        self._cipher, self._source = realm.cipher(session, secret), source.encode()

    @property
    def key(self) -> bytes:
        return self.realm.key_id + self.session

    def open(self, datagram: bytes) -> bytes:
        """What is inside; BadFrame if it came before, or was not sealed by this session at this address."""
        number = datagram[COUNTER]
        counter = int.from_bytes(number, "big")
        if not self.window.fresh(counter):
            raise BadFrame("replayed")
        try:
            wire = self._cipher.decrypt(_NONCE_START + number, memoryview(datagram)[HEADER_BYTES:], datagram[HEADER] + self._source)
        except Exception:  # the cipher's own InvalidTag: named here it would have to be imported with the extra, at every call
            raise BadFrame("forged") from None
        self.window.mark(counter)
        return wire
