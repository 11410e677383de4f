"""A threaded chat on a group: each line stands under the one that it answers, at everybody, whatever came first.

    group ──events──▶ Room ──lines──▶ Conversation ──placements──▶ ConversationView (screen) or Console (plain)
      ◀──ChatLine──── say

`Conversation` is the tree and knows neither groups nor screens. A `Room` reads one group into it, the `Lobby` has the rooms of a node and
the groups that it has heard of. Two faces draw them: `screen`, for people, and `Console`, line by line, for pipes and scripts. Everything
that came from others goes through `harmless` before either shows it.
"""

from __future__ import annotations

from antiphon.apps.chat.conversation import Conversation
from antiphon.apps.chat.entries import Line, Notice, Placement
from antiphon.apps.chat.line import ChatLine, Unsayable
from antiphon.apps.chat.lobby import Lobby
from antiphon.apps.chat.room import Room

__all__ = ["ChatLine", "Conversation", "Line", "Lobby", "Notice", "Placement", "Room", "Unsayable"]
