"""The key itself, and what only a shared key has to hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import BadFile, InvalidOption
from antiphon.runtime.security import PreSharedKey

FRAME = b"\x93 a frame of the protocol, as long as they usually are at the least"


@pytest.mark.parametrize("secret", ["", "correct horse", b"0123456789abcde", "a" * 64, 12])
def test_a_secret_that_can_be_guessed_is_refused_and_not_repeated(secret: Any) -> None:
    """A short key would be tried out within minutes; a key in an error message would be in everybody's log."""
    with pytest.raises(InvalidOption) as refused:
        PreSharedKey(secret)
    assert not secret or isinstance(secret, int) or str(secret) not in str(refused.value)
    assert isinstance(secret, int) or "antiphon doctor key" in str(refused.value)


def test_a_key_never_shows_itself() -> None:
    """It would be printed with the options of a node."""
    key = PreSharedKey("0123456789abcdef0123")
    assert "0123456789" not in repr(key) + str(key)
    assert key.fingerprint == PreSharedKey(b"0123456789abcdef0123").fingerprint != PreSharedKey("0123456789abcdef0124").fingerprint


def test_a_key_is_read_from_a_file(network: Any, tmp_path: Path) -> None:
    """The line end that every editor adds would make another key of it."""
    file = tmp_path / "key"
    file.write_text("0123456789abcdef0123\n")
    network.start("ana", PreSharedKey.from_file(file)), network.start("ben", PreSharedKey("0123456789abcdef0123"))
    network.say("ana", "ben", FRAME)
    assert network.got["ben"] == [(FRAME, "")]


@pytest.mark.parametrize("content", [None, "short\n", "x" * 5_000])
def test_a_file_that_holds_no_key_is_named(tmp_path: Path, content: str | None) -> None:
    """The node would start with the wrong key and hear nobody."""
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BadFile, match="make one with") as refused:
        PreSharedKey.from_file(file)
    assert refused.value.file == str(file)


def test_another_key_neither_reads_nor_sends(network: Any) -> None:
    """The neighbours' nodes would be in our groups."""
    ana = network.start("ana", PreSharedKey("the nodes' own: 7b1e0f4a93"))
    eve = network.start("eve", PreSharedKey("the nodes' own: 7b1e0f4a94"))
    network.say("eve", "ana", FRAME)
    network.say("ana", "eve", FRAME)
    assert network.got["ana"] == network.got["eve"] == []
    assert ana.drops == eve.drops == {"wrong_key": 1}
    assert ana.stats() == {"sessions": 0, "unproven": 0, "handshakes": 0, "drops": {"wrong_key": 1}}


def test_a_key_id_without_the_key_makes_no_work_that_stays(network: Any) -> None:
    """The key id can be copied from any datagram: whoever does would fill the tables of strangers."""
    key = PreSharedKey("the nodes' own: 7b1e0f4a93")
    network.start("ana", key)
    ben = network.start("ben", key)
    start = network.sealers["ana"].seal(FRAME, "")[:12]
    for number in range(500):
        network.inject(f"eve{number}", "ben", start + number.to_bytes(16, "big") + bytes(8) + b"x" * 60)
    assert ben.drops == {"forged": 500}
    assert ben.stats()["unproven"] == 0
    assert ben.outgoing() == []


def test_an_answer_proves_only_what_was_asked(network: Any) -> None:
    """An answer recorded once would prove a session for ever."""
    key = PreSharedKey("the nodes' own: 7b1e0f4a93")
    network.start("ana", key), network.start("ben", key)
    network.say("ana", "ben", FRAME)
    (answer,) = [datagram for source, _, datagram in network.recorded if source == "ana" and datagram[3] == 2]
    network.loses = lambda source, to, datagram: source == "ben"
    ben = network.start("ben", key)
    network.got.clear()
    network.say("ana", "ben", FRAME)
    network.inject("ana", "ben", answer)
    assert network.got["ben"] == []
    assert ben.drops == {"unasked": 1}
