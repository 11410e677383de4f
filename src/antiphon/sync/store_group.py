"""A group on a store, without await: a group like any other, whose messages are all in the store."""

from __future__ import annotations

from antiphon.api.store_group import StoreGroup as AsyncStoreGroup
from antiphon.sync.background import Background
from antiphon.sync.group import Group
from antiphon.sync.past import Past


class StoreGroup(Group):
    def __init__(self, group: AsyncStoreGroup, background: Background) -> None:
        """Made by `Node.create` and `Node.join` with `on="store"`."""
        super().__init__(group, background)
        self._kept = group

    def archived(self) -> Past:
        """Every message of the group that is in the store now, from the oldest on."""
        return Past(self._kept.archived(), self._background)
