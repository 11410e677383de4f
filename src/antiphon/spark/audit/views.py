"""Views: one view is one thing to all who install it, who installs it is in it, nobody is in it twice, ids grow, and all on one side come
from one view."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.spark.audit.finding import Finding
from antiphon.spark.audit.ledger import GroupLedger, Install, MemberLedger


def judge(ledger: GroupLedger) -> Iterator[Finding]:
    if "views" not in ledger.promises:
        return
    yield Finding(ledger.group, "views", checked=sum(len(member.installs) for member in ledger.members.values()))
    first_by_view: dict[int, tuple[MemberLedger, Install]] = {}
    first_by_side: dict[tuple[int, tuple[int, ...]], tuple[MemberLedger, Install, Install]] = {}
    for member in ledger.members.values():
        before: Install | None = None
        for install in member.installs:
            yield from _by_itself(ledger, member, before, install)
            other, same = first_by_view.setdefault(install.view, (member, install))
            if (install.members, install.sides) != (same.members, same.sides):
                what = "other members" if install.members != same.members else "other sides"
                story = f"@{member.member} and @{other.member} installed one view with {what}"
                yield Finding(ledger.group, "views", amount=1, story=story, rows=[(other.member, same.at), (member.member, install.at)])
            if before is not None:
                side = _side_of(member, before, install)
                mate, first, come = first_by_side.setdefault((install.view, side), (member, before, install))
                if first.view != before.view:
                    story = f"@{member.member} and @{mate.member} are on one side of a view and come from different ones"
                    rows = [
                        (mate.member, first.at),
                        (mate.member, come.at),
                        (member.member, before.at),
                        (member.member, install.at),
                    ]
                    yield Finding(ledger.group, "views", amount=1, story=story, rows=rows)
            before = install
        yield from _stability(ledger, member)


def _by_itself(ledger: GroupLedger, member: MemberLedger, before: Install | None, install: Install) -> Iterator[Finding]:
    me = member.member
    if me not in install.members:
        yield Finding(ledger.group, "views", amount=1, story=f"@{me} installed a view in which it is not", rows=[(me, install.at)])
    if len(set(install.members)) < len(install.members):
        twice = next(one for place, one in enumerate(install.members) if one in install.members[:place])
        yield Finding(ledger.group, "views", amount=1, story=f"@{me} installed a view that has @{twice} twice", rows=[(me, install.at)])
    if before is not None and install.view <= before.view:
        again = "the same view again" if install.view == before.view else "an earlier view after a later one"
        yield Finding(ledger.group, "views", amount=1, story=f"@{me} installed {again}", rows=[(me, before.at), (me, install.at)])


def _side_of(member: MemberLedger, before: Install, install: Install) -> tuple[int, ...]:
    """With whom it came into the view. Where no sides are told, all who were in a view before came from one."""
    return next((side for side in install.sides if member.member in side), ())


def _stability(ledger: GroupLedger, member: MemberLedger) -> Iterator[Finding]:
    """That a view is stable is told only when every member has installed it."""
    for view, index in member.settled.items():
        install = member.install_of(view)
        for other in install.members if install is not None else ():
            absent = ledger.members.get(other)
            if absent is not None and absent.known and absent.complete and absent.install_of(view) is None:
                story = f"@{member.member} was told that everybody has a view which @{other} never installed"
                yield Finding(ledger.group, "views", amount=1, story=story, rows=[(member.member, index)])
