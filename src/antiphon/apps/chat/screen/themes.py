"""The colours of the chat, for dark and for light terminals. Both keep text at a contrast of 4.5:1 or more on their background."""

from __future__ import annotations

from textual.theme import Theme

NIGHT = Theme(
    name="antiphon-night",
    dark=True,
    primary="#7cb7ff",
    secondary="#b6a1ff",
    accent="#ffb86b",
    success="#7ddc9a",
    warning="#ffd479",
    error="#ff8f8f",
    foreground="#e6e9ef",
    background="#14171c",
    surface="#1a1e25",
    panel="#232832",
)
DAY = Theme(
    name="antiphon-day",
    dark=False,
    primary="#1d5fa8",
    secondary="#6a3fb5",
    accent="#a34a00",
    success="#1f7040",
    warning="#7d5600",
    error="#b3261e",
    foreground="#1f2328",
    background="#ffffff",
    surface="#f6f8fa",
    panel="#e8ecf1",
)
