"""A TLS 1.3 handshake without a connection: bytes of the other side in, bytes for the other side out.

The four flights are taken from and given to whoever carries them; here they travel in datagrams. Nothing of the cryptography is ours.
What the other side does wrong is BadFrame with the name of its counter; what is left to say then (an alert) is in `flight`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import NamedTuple

from antiphon.errors import BadFrame

_SAID_LIMIT = 4_096
_OUTSIDE_DATES = (9, 10)
"""OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""


class Subject(NamedTuple):
    """Whom a certificate is made out to, and until when."""

    names: tuple[str, ...]
    """The common name, then the DNS names: those of nodes are plain words, compared letter by letter."""
    expires: float

    @classmethod
    def of(cls, certificate: Mapping[str, object]) -> Subject:
        """From what `ssl` says of a verified certificate."""
        names: list[str] = []
        subject, alternatives, until = (certificate.get(part) for part in ("subject", "subjectAltName", "notAfter"))
        for relative in subject if isinstance(subject, tuple) else ():
            names.extend(value for key, value in relative if key == "commonName")
        for key, value in alternatives if isinstance(alternatives, tuple) else ():
            if key == "DNS" and value not in names:
                names.append(value)
        return cls(tuple(names), float(ssl.cert_time_to_seconds(until)) if isinstance(until, str) else 0.0)


class Conversation:
    __slots__ = ("_incoming", "_outgoing", "_tls", "established")

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self.established = False
        """The other side's certificate has been verified, and everything said from now on is between the two."""
        if not server_side:
            self.advance(b"")

    def advance(self, flight: bytes) -> None:
        self._incoming.write(flight)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise BadFrame(refusal_of(error)) from None
        self.established = True

    def flight(self) -> bytes:
        """What has to be sent now."""
        return self._outgoing.read()

    def say(self, content: bytes) -> None:
        self._tls.write(content)

    def heard(self) -> bytes:
        try:
            return self._tls.read(_SAID_LIMIT)
        except ssl.SSLWantReadError:
            raise BadFrame("malformed") from None
        except ssl.SSLError as error:
            raise BadFrame(refusal_of(error)) from None

    def subject(self) -> Subject:
        return Subject.of(self._tls.getpeercert() or {})


def refusal_of(error: ssl.SSLError) -> str:
    """Under which name a failed handshake is counted."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return "expired_certificate" if error.verify_code in _OUTSIDE_DATES else "untrusted_certificate"
    reason = error.reason or ""
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "untrusted_certificate"
    return "refused_by_peer" if "ALERT" in reason else "malformed"
