"""Which message names which: a member must be given what is named before what names it.

Who names whom is said where a message was sent; whether the order was kept is seen where both were delivered. A pair is judged when the
last of the three has been read. A parent that came by synchronisation after its child lies before the point at which a newcomer began,
and a child that was delivered as orphaned, or recovered as one, names the parents that are lost (`claims` judges whether they are):
neither is a breach.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from antiphon.spark.watching.deliveries import Deliveries
from antiphon.spark.watching.told import Breach, Named, Told

PAIRS = 65_536
Message = tuple[str, int]


class Parents(Struct, array_like=True):
    parents: dict[str, dict[int, list[Message]]] = field(default_factory=dict)
    """By the child's sender and number."""
    children: dict[str, dict[int, list[Message]]] = field(default_factory=dict)
    """By the parent's sender and number."""
    amount: int = 0
    forgotten: int = 0

    def send(self, sender: str, names: Iterable[Named], given: Mapping[str, Mapping[str, Deliveries]]) -> Iterator[Breach]:
        """`given` is what members were given, by member and sender."""
        for name in names:
            self.parents.setdefault(sender, {}).setdefault(name.seqno, []).append((name.sender, name.number))
            self.children.setdefault(name.sender, {}).setdefault(name.number, []).append((sender, name.seqno))
            self.amount += 1
            for member, by_sender in given.items():
                yield from _judged(member, by_sender, (sender, name.seqno), (name.sender, name.number))

    def deliver(self, row: Told, by_sender: Mapping[str, Deliveries]) -> Iterator[Breach]:
        """After the row has been taken."""
        for number in _within(self.parents.get(row.sender), row):
            for parent in self.parents[row.sender][number]:
                yield from _judged(row.member, by_sender, (row.sender, number), parent)
        for number in _within(self.children.get(row.sender), row):
            for child in self.children[row.sender][number]:
                # Within one row a child and its parent have just been looked at.
                if child[0] != row.sender or not row.first <= child[1] <= row.last:
                    yield from _judged(row.member, by_sender, child, (row.sender, number))

    def close(self, through: Mapping[str, int]) -> None:
        """Forgets the pairs of which everybody has both, and the oldest of too many."""
        for sender, numbers in list(self.parents.items()):
            for number in list(numbers):
                closed = number <= through.get(sender, 0) and all(named <= through.get(whose, 0) for whose, named in numbers[number])
                if closed or self.amount > PAIRS:
                    self.forgotten += 0 if closed else len(numbers[number])
                    self._drop(sender, number)

    def _drop(self, sender: str, number: int) -> None:
        for whose, named in self.parents[sender].pop(number):
            self.amount -= 1
            children = self.children[whose]
            children[named].remove((sender, number))
            if not children[named]:
                del children[named]
            if not children:
                del self.children[whose]
        if not self.parents[sender]:
            del self.parents[sender]


def _within(numbers: Mapping[int, object] | None, row: Told) -> list[int]:
    if not numbers:
        return []
    if len(numbers) < row.last - row.first:
        return [number for number in numbers if row.first <= number <= row.last]
    return [number for number in range(row.first, row.last + 1) if number in numbers]


def _judged(member: str, by_sender: Mapping[str, Deliveries], child: Message, parent: Message) -> Iterator[Breach]:
    if child[0] not in by_sender or parent[0] not in by_sender:
        return
    early, late = by_sender[child[0]].row_of(child[1]), by_sender[parent[0]].row_of(parent[1])
    if early is None or late is None or late.sort == "recovered":
        return
    if parent in early.lost or (early.sort == "orphaned" and not early.lost):
        return  # whether that is true is judged in `claims`
    if early.spot.index < late.spot.index or (early.spot == late.spot and child[1] < parent[1]):
        sentence = f"{member} delivered message {child[1]} of {child[0]} before message {parent[1]} of {parent[0]}, which it names"
        yield Breach("parent_before_child", sentence, (early.spot, late.spot))
