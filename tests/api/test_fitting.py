"""Settings that nobody chose fit the network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from antiphon.api.node_arguments import fit_settings
from antiphon.model.options import Settings


def driver(lossless: bool) -> Any:
    return SimpleNamespace(frame_bytes=50_000, lossless=lossless)


def test_where_nothing_is_lost_members_say_less_often_that_nothing_was() -> None:
    """On TCP every fortieth of a second each member would wake all others, and a message that comes just then would wait."""
    plain, patient = fit_settings(None, driver(lossless=False)), fit_settings(None, driver(lossless=True))
    assert (plain.digest_s, plain.nack_s) == (Settings().digest_s, Settings().nack_s)
    assert patient.digest_s >= 10 * plain.digest_s
    assert patient.frame_bytes == plain.frame_bytes == 50_000


@pytest.mark.parametrize("heartbeat_s", [0.03, 0.2, 5.0])
def test_a_chosen_heartbeat_is_never_refused(heartbeat_s: float) -> None:
    """A program that worked over UDP would fail over TCP, with a complaint about a setting that it never made."""
    fitting = fit_settings(Settings(heartbeat_s=heartbeat_s), driver(lossless=True))
    assert fitting.heartbeat_s == heartbeat_s >= fitting.digest_s


def test_what_was_chosen_stays() -> None:
    """Who tunes a group would see no effect."""
    assert fit_settings(Settings(digest_s=0.1, frame_bytes=9_000), driver(lossless=True)).digest_s == 0.1
