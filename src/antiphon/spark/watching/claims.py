"""Messages that a member says are lost to it: `gap` rows, and the parents that an orphaned delivery names.

An orphan's claim is false if the orphan does not name the message, by the row in which it was sent. Any claim is false if the member
delivered the message itself (an orphan's parent: before the orphan, or, where lost messages are repaired, later other than by
synchronisation), or if another member delivered it in a view from which the two went on together. That is known only when both have
installed the next view, so claims wait for it. What a state stands for is no claim. An orphan whose sender did not have the parent when it
sent the orphan is a faulty sender's: its parent may come later.

Keeps: the newest `CLAIMS` of a group, each for `ROUNDS` rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from antiphon.spark.watching.deliveries import Deliveries, Row
from antiphon.spark.watching.sends import Sends
from antiphon.spark.watching.told import Breach, Spot, Told

CLAIMS = 256
ROUNDS = 60


class Claim(Struct, array_like=True):
    """`promise` is what a false one breaks: `agreement` for a gap, `parent_before_child` for an orphan."""

    member: str
    promise: str
    sender: str
    first: int
    last: int
    spot: Spot
    said: str
    """The beginning of a sentence."""
    since: int
    repairs: bool
    """Whether other members' deliveries count."""
    child: tuple[str, int] = ("", 0)
    """The orphan."""


class Claims(Struct, array_like=True):
    open: list[Claim] = field(default_factory=list)
    forgotten: int = 0

    def gap(self, row: Told, rounds: int, promises: list[str]) -> None:
        said = f"{row.member} was told that message {row.first} of {row.sender} is lost"
        repairs = "agreement" in promises
        self._add(Claim(row.member, "agreement", row.sender, row.first, row.last, row.spot, said, rounds, repairs))

    def orphan(self, row: Told, rounds: int, promises: list[str]) -> Iterator[Breach]:
        what = f"{row.member} delivered message {row.first} of {row.sender} as orphaned"
        if not row.names:
            yield Breach("parent_before_child", f"{what} and names no lost parent", (row.spot,))
        for name in row.names:
            said = f"{what} of message {name.number} of {name.sender}"
            repairs = "agreement" in promises
            claim = Claim(row.member, "parent_before_child", name.sender, name.number, name.number, row.spot, said, rounds, repairs)
            claim.child = (row.sender, row.first)
            self._add(claim)

    def judge(
        self,
        given: Mapping[str, Mapping[str, Deliveries]],
        sends: Mapping[str, Sends],
        together: Callable[[int, str, str], bool | None],
        rounds: int,
    ) -> Iterator[Breach]:
        """Report the claims that have become false by now. `given` is what members were given, by member and sender; `sends` what members
        sent."""
        waiting: list[Claim] = []
        for claim in self.open:
            valid = claim.promise == "agreement" or _is_valid(claim, given, sends)
            breach = _unnamed(claim, sends) or _by_itself(claim, given.get(claim.member, {}), valid)
            breach = breach or (_by_others(claim, given, together) if valid else None)
            if breach is not None:
                yield breach
            elif rounds - claim.since <= ROUNDS:
                waiting.append(claim)
        self.open = waiting

    def _add(self, claim: Claim) -> None:
        self.open.append(claim)
        self.forgotten += max(0, len(self.open) - CLAIMS)
        del self.open[:-CLAIMS]


def _is_valid(claim: Claim, given: Mapping[str, Mapping[str, Deliveries]], sends: Mapping[str, Sends]) -> bool:
    """Return whether the orphan's sender is known to have had the parent when it sent the orphan."""
    sender, number = claim.child
    if sender == claim.sender:
        return claim.first < number
    sent = sends[sender].row_of(number) if sender in sends else None
    had = _row_of(claim, given.get(sender, {}))
    return sent is not None and had is not None and had.spot.index < sent.spot.index


def _unnamed(claim: Claim, sends: Mapping[str, Sends]) -> Breach | None:
    """Report an orphan's claim about a message that the orphan does not name."""
    sender, number = claim.child
    sent = sends[sender].row_of(number) if sender in sends else None
    if sent is None or any((name.seqno, name.sender, name.number) == (number, claim.sender, claim.first) for name in sent.names):
        return None
    return Breach(claim.promise, f"{claim.said}, which it does not name", (sent.spot, claim.spot))


def _by_itself(claim: Claim, given: Mapping[str, Deliveries], valid: bool) -> Breach | None:
    row = _row_of(claim, given)
    if row is None:
        return None
    if claim.promise == "agreement":
        if not claim.repairs:
            return None
        return Breach("integrity", f"{claim.said}, and delivered it", (row.spot, claim.spot))
    if row.spot.index < claim.spot.index or (valid and claim.repairs and row.sort != "recovered"):
        return Breach(claim.promise, f"{claim.said}, which it delivered itself", (row.spot, claim.spot))
    return None


def _by_others(
    claim: Claim, given: Mapping[str, Mapping[str, Deliveries]], together: Callable[[int, str, str], bool | None]
) -> Breach | None:
    for other, by_sender in given.items() if claim.repairs else ():
        row = _row_of(claim, by_sender) if other != claim.member else None
        if row is not None and row.sort != "recovered" and together(row.view, claim.member, other):
            return Breach(claim.promise, f"{claim.said}, which {other} delivered in a view that they left together", (row.spot, claim.spot))
    return None


def _row_of(claim: Claim, given: Mapping[str, Deliveries]) -> Row | None:
    deliveries = given.get(claim.sender)
    return None if deliveries is None else deliveries.row_within(claim.first, claim.last)
