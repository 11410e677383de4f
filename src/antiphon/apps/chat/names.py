"""What to call whom: two who bear one name are told apart.

The first that was met here with a name is called by it, the others have a number that no name can contain: `ana#2`. Nobody can choose to be
called like somebody who is there already. Keeps an entry per member that was met, until `keep` says whose are wanted.
"""

from __future__ import annotations

from collections.abc import Container

from antiphon.model.ids import MemberId, name_of


class Names:
    def __init__(self) -> None:
        self._number_by_name: dict[str, dict[MemberId, int]] = {}

    def meet(self, member: MemberId) -> int:
        """Somebody is here, or was; returns which of those with the name it is."""
        numbers = self._number_by_name.setdefault(name_of(member), {})
        if member not in numbers:
            numbers[member] = max(numbers.values(), default=0) + 1
        return numbers[member]

    def call(self, member: MemberId) -> str:
        number = self.meet(member)
        return name_of(member) if number == 1 else f"{name_of(member)}#{number}"

    def keep(self, wanted: Container[MemberId]) -> None:
        """Forgets all others."""
        for name, numbers in list(self._number_by_name.items()):
            kept = {member: number for member, number in numbers.items() if member in wanted}
            if kept:
                self._number_by_name[name] = kept
            else:
                del self._number_by_name[name]
