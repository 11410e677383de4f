"""Whose certificate is not in order takes no part: on connections (TLS) and on datagrams, by the same rules."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest

cryptography = pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: E402

from antiphon.errors import BadFile, InvalidOption  # noqa: E402
from antiphon.runtime.security import Certificates, peer_name, peer_names, refusal_of  # noqa: E402

FRAME = b"\x93 a frame of the protocol, as long as they usually are at the least"
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def connect(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """The two ends of a connection without a network; ssl.SSLError as the end that refuses raises it."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(down, up, server_side=False), server.wrap_bio(up, down, server_side=True))
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


def expired(authority: Any, name: str) -> Certificates:
    return authority.issue(name, begins=NOW - 9 * DAY, ends=NOW - DAY)  # type: ignore[no-any-return]


def not_yet(authority: Any, name: str) -> Certificates:
    return authority.issue(name, begins=NOW + DAY, ends=NOW + 9 * DAY)  # type: ignore[no-any-return]


# -- connections -----------------------------------------------------------------------------------------------------------------


def test_both_ends_of_a_connection_know_each_other(authority: Any) -> None:
    """Nobody could say whose connection it is."""
    ana, ben = connect(
        authority.issue("ana", alternatives=("ana", "ana.example")).client_context(), authority.issue("ben").server_context()
    )
    assert peer_name(ana) == "ben"
    assert peer_names(ben) == ("ana", "ana.example")
    assert ana.version() == ben.version() == "TLSv1.3"


def test_a_client_that_shows_no_certificate_is_refused(authority: Any) -> None:
    """TLS as browsers use it proves only the server: everybody could come in."""
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.load_verify_locations(authority.path)
    with pytest.raises(ssl.SSLError) as refused:
        connect(bare, authority.issue("ben").server_context())
    assert refusal_of(refused.value) == "untrusted_certificate"


@pytest.mark.parametrize(("make", "reason"), [(expired, "expired_certificate"), (not_yet, "expired_certificate")])
@pytest.mark.parametrize("calls", [True, False])
def test_a_certificate_outside_its_dates_is_refused_by_either_end(authority: Any, make: Any, reason: str, calls: bool) -> None:
    """A certificate that should have been renewed for a reason would go on for ever."""
    caller, host = (make(authority, "eve"), authority.issue("ben")) if calls else (authority.issue("ben"), make(authority, "eve"))
    with pytest.raises(ssl.SSLError) as refused:
        connect(caller.client_context(), host.server_context())
    assert refusal_of(refused.value) == reason


@pytest.mark.parametrize("calls", [True, False])
def test_a_certificate_of_another_authority_is_refused_by_either_end(authority: Any, other_authority: Any, calls: bool) -> None:
    """Anybody can make an authority; only ours counts."""
    eve, ben = other_authority.issue("eve", trusts=authority.path), authority.issue("ben")
    caller, host = (eve, ben) if calls else (ben, eve)
    with pytest.raises(ssl.SSLError) as refused:
        connect(caller.client_context(), host.server_context())
    assert refusal_of(refused.value) == "untrusted_certificate"


# -- the files -------------------------------------------------------------------------------------------------------------------


def test_files_that_cannot_work_are_named_at_once(authority: Any, other_authority: Any, tmp_path: Path) -> None:
    """The node would start, and be refused by everyone without knowing why."""
    ana, ben = authority.issue("ana"), authority.issue("ben")
    private = serialization.load_pem_private_key(Path(ana.key).read_bytes(), password=None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"password")
        )
    )
    for files, culprit, why in (
        ((tmp_path / "gone.pem", ana.key, ana.authority), tmp_path / "gone.pem", "cannot be read"),
        ((ana.certificate, ben.key, ana.authority), ben.key, "not the key of"),
        ((ana.certificate, locked, ana.authority), locked, "without a password"),
        ((ana.certificate, ana.key, ana.key), ana.key, "holds no certificate"),
    ):
        with pytest.raises(BadFile, match=why) as refused:
            Certificates(*files)
        assert refused.value.file == str(culprit)


def test_a_certificate_that_others_would_refuse_is_refused_at_home(authority: Any, other_authority: Any) -> None:
    """An operator would look for the fault in the network."""
    authority.issue("ana", alternatives=("ana-2",)).check("ana")
    authority.issue("ana", alternatives=("ana-2",)).check("ana-2")
    for certificates, why in (
        (authority.issue("ben"), "made out to 'ben'"),
        (expired(authority, "ana"), "outside its dates"),
        (authority.issue("ana", trusts=other_authority.path), "does not vouch"),
        (authority.issue("ana", usages=(ExtendedKeyUsageOID.SERVER_AUTH,)), "clientAuth"),
    ):
        with pytest.raises(InvalidOption, match=why):
            certificates.check("ana")


# -- datagrams -------------------------------------------------------------------------------------------------------------------


def meet(network: Any, ana: Certificates, eve: Certificates) -> None:
    """Eve sends to ana and ana to eve, until both have given up."""
    network.start("ana", ana), network.start("eve", eve)
    for _ in range(3):
        network.say("eve", "ana", FRAME)
        network.say("ana", "eve", FRAME)
        network.wait(7)


@pytest.mark.parametrize("make", [expired, not_yet])
def test_datagrams_of_a_node_with_an_expired_certificate_are_worth_nothing(network: Any, authority: Any, make: Any) -> None:
    """On datagrams a certificate would be checked less than on connections."""
    meet(network, authority.issue("ana"), make(authority, "eve"))
    assert network.got == {"ana": [], "eve": []}
    assert network.sealers["ana"].drops["expired_certificate"] > 0
    assert network.sealers["eve"].drops["refused_by_peer"] > 0
    assert network.sealers["ana"].stats()["sessions"] == 0


def test_datagrams_of_a_node_of_another_authority_are_worth_nothing(network: Any, authority: Any, other_authority: Any) -> None:
    """Anybody can make an authority; only ours counts."""
    meet(network, authority.issue("ana"), other_authority.issue("eve", trusts=authority.path))
    assert network.got == {"ana": [], "eve": []}
    assert network.sealers["ana"].drops["untrusted_certificate"] > 0
    assert network.sealers["ana"].stats()["sessions"] == 0


def test_a_node_may_not_take_anothers_name(network: Any, authority: Any) -> None:
    """Every node with any certificate could be anybody."""
    meet(network, authority.issue("ana"), authority.issue("ben"))
    assert network.got["ana"] == []
    assert network.sealers["ana"].drops["wrong_name"] > 0
    assert network.sealers["ana"].name_at("eve") is None


def test_the_name_behind_an_address_is_the_certificates(network: Any, authority: Any) -> None:
    """Whoever asks who sits at an address would be told what the one there likes."""
    meet(network, authority.issue("ana"), authority.issue("eve"))
    assert network.sealers["ana"].name_at("eve") == "eve"
    assert network.sealers["ana"].name_at("nowhere") is None
    assert len(network.got["ana"]) == len(network.got["eve"]) == 3


def test_a_session_ends_with_its_certificate(network: Any, authority: Any) -> None:
    """Whoever never restarts would need its certificate once in a lifetime."""
    network.start("ana", authority.issue("ana", ends=NOW + 9 * DAY))
    network.start("ben", authority.issue("ben", ends=NOW + DAY))
    network.say("ben", "ana", FRAME)
    network.wait(DAY.total_seconds() + 10)
    network.say("ben", "ana", FRAME)
    network.wait(30)
    assert network.got["ana"] == [(FRAME, "")]
    assert network.sealers["ana"].drops["expired_certificate"] == 1
    assert network.sealers["ana"].stats()["sessions"] == 0
    network.say("ben", "ana", FRAME)
    network.wait(30)
    assert network.got["ana"] == [(FRAME, "")]
    assert network.sealers["ana"].drops["expired_certificate"] == 2, "and it is not let in anew"
    network.say("ben", "ana", FRAME)
    talked = len(network.recorded)
    for _ in range(20):
        network.say("ben", "ana", FRAME)
    assert len(network.recorded) == talked + 20, "nor is there a handshake for every frame"


def test_a_refused_node_is_not_talked_to_again_at_once(network: Any, authority: Any, other_authority: Any) -> None:
    """With every datagram a stranger would buy a handshake."""
    network.start("ana", authority.issue("ana")), network.start("eve", other_authority.issue("eve"))
    network.say("eve", "ana", FRAME)
    refused = network.sealers["ana"].drops["untrusted_certificate"]
    assert refused == 1
    for _ in range(100):
        network.say("eve", "ana", FRAME)
    assert network.sealers["ana"].drops["untrusted_certificate"] == refused
    assert network.sealers["ana"].drops["unproven_dropped"] == 101


def test_a_second_introduction_does_not_open_the_window_again(network: Any, authority: Any) -> None:
    """Whoever makes two nodes introduce themselves twice could play back what was said in between."""
    network.start("ana", authority.issue("ana"))
    ben = network.start("ben", authority.issue("ben"))
    held_back: list[bytes] = []

    def loses(source: str, to: str, datagram: bytes) -> bool:
        """Both call at once; ben's last flight is held back, so ana learns of ben as the caller and later again as the host."""
        if (source, datagram[3], datagram[35]) == ("ben", 5, 3):
            held_back.append(datagram)
            return True
        return False

    network.loses = loses
    for source, to, datagram in (("ana", "ben", network.sealers["ana"].seal(FRAME, "")), ("ben", "ana", ben.seal(FRAME, ""))):
        network._carry(source, to, datagram)
    network.settle()
    assert network.got["ben"] == network.got["ana"] == [(FRAME, "")]
    recorded = list(network.recorded)
    network.loses = lambda source, to, datagram: False
    network.inject("ben", "ana", held_back[0])
    assert network.recorded[-1][2][3] == 5, "ana has answered the held back flight, so it was a second introduction"
    for source, to, datagram in recorded:
        network.inject(source, to, datagram)
    assert network.got["ben"] == network.got["ana"] == [(FRAME, "")]


def test_strangers_do_not_push_out_somebody_who_is_answering(network: Any, authority: Any) -> None:
    """Made-up sessions cost nothing: a few hundred of them a second would keep every real node out."""
    network.start("ana", authority.issue("ana"))
    ben = network.start("ben", authority.issue("ben"))
    network.loses = lambda source, to, datagram: (source, datagram[3]) == ("ana", 5)
    network.say("ana", "ben", FRAME)
    network.loses = lambda source, to, datagram: False
    start = ben.seal(FRAME, "")[:12]
    for number in range(1_000):
        ben.open(network.now, f"eve{number}", start + number.to_bytes(16, "big") + bytes(8) + b"x" * 60)
    ben.outgoing()
    network.wait(1)
    assert network.got["ben"] == [(FRAME, "")]
