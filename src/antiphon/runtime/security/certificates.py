"""Credentials of a node's own: a certificate, its private key, and the authorities whose certificates are believed.

Promises: a node whose certificate no trusted authority signed, or is outside its dates, or is not made out to the name that the node
claims, takes no part. On TCP this is mutual TLS 1.3 (`server_context`, `client_context`); on datagrams the same contexts prove both
sides to each other before any frame is believed (`introductions.py`), so one and the same rule holds on every transport.
Keeps: the three paths; the files are read when a context is made. Costs: about 1 ms at each side per pair of nodes that meet (P-256).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path

from antiphon.errors import BadFile, BadFrame, InvalidOption
from antiphon.runtime.security.conversation import Conversation, Subject, refusal_of

_PASSWORD = ""
"""An encrypted key is an error: without any password OpenSSL would ask for one at the terminal and stop the event loop."""


class Certificates:
    """`Certificates(certificate, key, authority)`: PEM files with the node's chain (its own first), its private key, and the CAs."""

    __slots__ = ("authority", "certificate", "key")

    def __init__(self, certificate: str | PathLike[str], key: str | PathLike[str], authority: str | PathLike[str]) -> None:
        self.certificate, self.key, self.authority = fspath(certificate), fspath(key), fspath(authority)
        self.client_context()

    def server_context(self) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        # Nobody resumes a session: who comes back is verified again, and a handshake stays four flights.
        context.num_tickets = 0
        return context

    def client_context(self) -> ssl.SSLContext:
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def check(self, name: str) -> None:
        """Raises InvalidOption, with what to do, if others would refuse a node of this name: the certificate meets its own judge."""
        caller = Conversation(self.client_context(), server_side=False)
        host = Conversation(self.server_context(), server_side=True)
        try:
            for _ in range(2):
                host.advance(caller.flight())
                caller.advance(host.flight())
        except BadFrame as bad:
            why = (
                "it is outside its dates: have it renewed"
                if bad.reason == "expired_certificate"
                else f"{self.authority} does not vouch for it as both serverAuth and clientAuth: have it signed for both"
            )
            raise InvalidOption("certificate", self.certificate, why) from None
        subject = caller.subject()
        if name not in subject.names:
            made_out = " or ".join(repr(known) for known in subject.names) or "nobody"
            raise InvalidOption(
                "certificate", self.certificate, f"it is made out to {made_out}: call the node so, or make one for {name!r}"
            )

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        for path in (self.certificate, self.key, self.authority):
            try:
                Path(path).open("rb").close()
            except OSError as error:
                raise BadFile(path, 1, f"cannot be read ({error.strerror}): give the path of a PEM file") from None
        try:
            context.load_cert_chain(self.certificate, self.key, password=_PASSWORD)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise BadFile(self.key, 1, f"it is not the key of {self.certificate}") from None
            raise BadFile(self.key, 1, f"with {self.certificate} it must be a PEM key without a password, and a PEM chain") from None
        try:
            context.load_verify_locations(self.authority)
        except ssl.SSLError:
            raise BadFile(self.authority, 1, "it holds no certificate: give the PEM file of the authority that signs the nodes") from None
        return context

    def __repr__(self) -> str:
        return f"Certificates({self.certificate!r}, {self.key!r}, {self.authority!r})"


def peer_names(connection: ssl.SSLObject | ssl.SSLSocket) -> tuple[str, ...]:
    """The names that the verified certificate at the other end is made out to; a node must claim one of them in its hello."""
    certificate: Mapping[str, object] | None = connection.getpeercert()
    return Subject.of(certificate or {}).names


def peer_name(connection: ssl.SSLObject | ssl.SSLSocket) -> str:
    """The first of them, or "" if it has none."""
    return next(iter(peer_names(connection)), "")


__all__ = ["Certificates", "peer_name", "peer_names", "refusal_of"]
