"""Settings for tests in virtual time: everything several times sooner than on a real network, for virtual seconds are not free either."""

from __future__ import annotations

from antiphon.model.options import Settings

QUICK = Settings(
    heartbeat_s=0.2,
    suspect_s=0.6,
    probe_s=0.15,
    change_s=1.0,
    settle_s=0.5,
    retry_s=0.1,
    seek_s=0.2,
    seek_max_s=2.0,
    answer_s=0.05,
    nack_max_s=0.5,
    join_s=10.0,
    question_s=1.0,
)
"""Who is silent for 0.6 s is suspected; a view is changed within a second or two."""
