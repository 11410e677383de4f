"""The chat on a terminal's whole screen, drawn with Textual."""

from __future__ import annotations

from antiphon.apps.chat.screen.app import ChatApp

__all__ = ["ChatApp"]
