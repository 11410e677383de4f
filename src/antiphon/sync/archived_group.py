"""A group on a network whose history is in the store, without await."""

from __future__ import annotations

from antiphon.api.archived_group import ArchivedGroup as AsyncArchivedGroup
from antiphon.store.groups.archive import PATIENCE_S
from antiphon.sync.background import Background
from antiphon.sync.group import Group
from antiphon.sync.past import Past


class ArchivedGroup(Group):
    def __init__(self, group: AsyncArchivedGroup, background: Background) -> None:
        """Made by `Node.create` and `Node.join` of a group with `history_in="store"`."""
        super().__init__(group, background)
        self._kept = group

    def archived(self) -> Past:
        """Every message that is in the archive now, each once, from the oldest on."""
        return Past(self._kept.archived(), self._background)

    def flush_archive(self, *, timeout: float = PATIENCE_S) -> bool:
        """Whether everything that was delivered here is in the archive within this time."""
        return self._background.run(self._kept.flush_archive(timeout=timeout))
