"""A network of sealers that can be recorded, cut and lied to, and an authority that signs whatever a test wants."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography", reason="security needs the package cryptography: pip install 'antiphon[security]'")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from antiphon.model.ids import Address
from antiphon.runtime.security import Certificates, PreSharedKey, Sealer

START = datetime.datetime.now(datetime.UTC)
"""OpenSSL verifies dates by the machine's clock, so certificates are made around it."""
DAY = datetime.timedelta(days=1)


class Network:
    """Sealers by the address they are at. What is sent arrives unless `loses` says otherwise; everything sent is recorded."""

    def __init__(self) -> None:
        self.now = START.timestamp()
        self.sealers: dict[str, Sealer] = {}
        self.got: dict[str, list[tuple[bytes, str]]] = defaultdict(list)
        self.recorded: list[tuple[str, str, bytes]] = []
        self.loses: Callable[[str, str, bytes], bool] = lambda source, to, datagram: False

    def start(self, name: str, credentials: Any, keys: dict[str, PreSharedKey] | None = None) -> Sealer:
        self.sealers[name] = Sealer(credentials, keys, address=Address(name), now=self.now, name=name)
        return self.sealers[name]

    def say(self, source: str, to: str, wire: bytes, realm: str = "") -> bytes:
        """Seals and sends a frame, and carries everything that comes of it."""
        sealed = self.sealers[source].seal(wire, realm)
        self.inject(source, to, sealed)
        return sealed

    def inject(self, source: str, to: str, datagram: bytes) -> None:
        self._carry(source, to, datagram)
        self.settle()

    def settle(self) -> None:
        for _ in range(100):
            waiting = [(source, to, datagram) for source, sealer in self.sealers.items() for to, datagram in sealer.outgoing()]
            if not waiting:
                return
            for source, to, datagram in waiting:
                self._carry(source, to, datagram)
        raise AssertionError("two sealers answer each other for ever")

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            due = [sealer.deadline for sealer in self.sealers.values() if sealer.deadline is not None]
            if not due or min(due) > until:
                break
            self.now = max(self.now, min(due))
            for sealer in self.sealers.values():
                if sealer.deadline is not None and sealer.deadline <= self.now:
                    sealer.tick(self.now)
                    assert sealer.deadline is None or sealer.deadline > self.now, "a deadline in the past keeps the event loop busy"
            self.settle()
        self.now = until

    def _carry(self, source: str, to: str, datagram: bytes) -> None:
        self.recorded.append((source, to, datagram))
        if to in self.sealers and not self.loses(source, to, datagram):
            self.got[to] += self.sealers[to].open(self.now, Address(source), datagram)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder, self.name = folder, name
        self.path = folder / f"{name}.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (
            self._builder(self._subject, self._key.public_key(), START - 30 * DAY, START + 365 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        alternatives: tuple[str, ...] = (),
        begins: datetime.datetime = START - DAY,
        ends: datetime.datetime = START + DAY,
        trusts: Path | None = None,
        usages: tuple[x509.ObjectIdentifier, ...] = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    ) -> Certificates:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key(), begins, ends)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(other) for other in alternatives]), critical=False)
        stem = self.folder / f"{self.name}-{name or 'nobody'}-{key.private_numbers().private_value % 10**8}"
        chain, private = stem.with_suffix(".pem"), stem.with_suffix(".key")
        chain.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return Certificates(chain, private, trusts or self.path)

    def _builder(self, subject: x509.Name, key: Any, begins: datetime.datetime, ends: datetime.datetime) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(ends)
        )


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def other_authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "others")


@pytest.fixture(params=["shared key", "certificates"])
def credentials(request: pytest.FixtureRequest, authority: Authority) -> Callable[[str], PreSharedKey | Certificates]:
    """A node's credentials by its name, of either kind."""
    key = PreSharedKey("the nodes' own: 7b1e0f4a93")
    return lambda name: key if request.param == "shared key" else authority.issue(name)
