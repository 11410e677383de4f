"""What the judges of a group have before them: its ledger, and the sheets of its members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from antiphon.spark.audit.finding import Compare
from antiphon.spark.audit.ledger import GroupLedger
from antiphon.spark.audit.life import ODD_LEDGER
from antiphon.spark.audit.promised import Description, agreed, described
from antiphon.spark.audit.sheet import Limits
from antiphon.spark.audit.sheets import Sheets
from antiphon.spark.audit.total import BLOCK
from antiphon.spark.audit.walker import about_of


@dataclass
class Evidence:
    """A group's ledger, and what is beside it."""

    ledger: GroupLedger
    names_of: tuple[str, str]
    """The run and the group."""
    sheets: Sheets = field(default_factory=Sheets)
    large: set[int] = field(default_factory=set)
    """Members without a sheet, because they have too many rows."""
    odd: set[str] = field(default_factory=set)
    names: int = 0
    """What all sends together name."""
    runs: dict[tuple[int, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    """By member and sender: first, last and rows of what was delivered, as the walk saw it."""
    begins: dict[int, tuple[int, dict[int, int], set[int]]] = field(default_factory=dict)
    """Of members that did not want everything: the index of their first view, from where on each sender's stream begins, its members."""

    @classmethod
    def of(cls, group: int, rows: Iterable[Mapping[str, Any]], limits: Limits) -> Evidence:
        """Of a group's entries."""
        return _Gathering(group, limits.of_group).of(rows)

    def same_places(self, compare: Compare) -> bool:
        """Whether two members certainly had the same at those places that both have."""
        one, other = (self.sheets.get(member) for member in (compare.one, compare.other))
        if one is None or other is None:
            return False
        mine, theirs = (sheet.at_places(compare.view, compare.block, BLOCK) for sheet in (one, other))
        return all(mine[place] == theirs[place] for place in range(compare.places) if place in mine and place in theirs)


class _Gathering:
    """Entries on their way into a ledger."""

    def __init__(self, group: int, most: int) -> None:
        """`most` rows on all sheets together."""
        self._group, self._most = group, most
        self._rows: list[Mapping[str, Any]] = []
        self._runs: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
        self._sent: dict[int, dict[str, Any]] = {}
        self._sheet_rows = 0

    def of(self, rows: Iterable[Mapping[str, Any]]) -> Evidence:
        evidence = Evidence(GroupLedger(self._group, {}), ("", ""))
        descriptions: list[Description] = []
        firsts: dict[int, Mapping[str, Any]] = {}
        for row in rows:
            kind, member = row["kind"], row["member_id"]
            if kind == "range":
                self._runs[member, row["sender_id"]].append(row)
            elif kind == "sheet":
                self._sheet(evidence, row)
            elif kind == "sent" and row["note"] is None:
                self._send(row)
            elif kind == "group":
                descriptions.append(described(row["note"]))
                self._rows.append({**row, "last": row["contiguous"]})
                evidence.names_of = (row["run"], row["group"])
                firsts.setdefault(member, {})
            else:
                if kind == "view" and str(about_of(row["note"]).get("previous")) == "0":
                    firsts[member] = row if not firsts.get(member) or row["index"] < firsts[member]["index"] else firsts[member]
                self._rows.append(row)
        promises = agreed(descriptions)
        holes, in_order = "agreement" not in promises, "fifo" in promises
        ranges = [
            one
            for (member, sender), runs in self._runs.items()
            for one in self._merged(evidence, runs, holes and member != sender, in_order)
        ]
        evidence.ledger = GroupLedger.of(self._group, [*self._rows, *self._sent.values(), *ranges])
        if any(one.promises != promises for one in descriptions):
            # What the walk kept of a member depends on the promises that the member stated.
            evidence.odd.add(ODD_LEDGER)
            evidence.large |= {*evidence.ledger.members}
            evidence.sheets.clear()
        for member, life in evidence.ledger.members.items():
            if life.known and life.wants not in ("founder", "all") and firsts.get(member):
                row = firsts[member]
                begins = {name["sender"]: name["number"] for name in reversed(row["names"] or ())}
                evidence.begins[member] = (row["index"], begins, set(row["members"] or ()))
        evidence.runs = {key: [(run["first"], run["last"], run["rows"]) for run in runs] for key, runs in self._runs.items()}
        return evidence

    def _sheet(self, evidence: Evidence, row: Mapping[str, Any]) -> None:
        member = row["member_id"]
        if row["note"] is not None:
            evidence.odd |= set(row["note"].split())
            evidence.names += row["amount"]
            self._sheet_rows += row["rows"]
        if row["sheet"] is None or self._sheet_rows > self._most or evidence.large:
            evidence.large |= {member, *evidence.sheets}
            evidence.sheets.clear()
        else:
            evidence.sheets.add(member, row["index"], row["sheet"])

    def _send(self, row: Mapping[str, Any]) -> None:
        """All that a member sent is one range; those of guests are beside it."""
        one = self._sent.setdefault(row["member_id"], dict(row))
        one["first"], one["index"] = min(one["first"], row["first"]), min(one["index"], row["index"])
        one["last"], one["high"] = max(one["last"], row["last"]), max(one["high"], row["high"])

    def _merged(self, evidence: Evidence, runs: list[Mapping[str, Any]], holes: bool, in_order: bool) -> list[dict[str, Any]]:
        """Runs of one member and sender as ranges; see `ranges`."""
        merged: list[dict[str, Any]] = []
        furthest = latest = -1
        for run in sorted(runs, key=lambda run: (run["first"], run["index"])):
            if run["first"] <= furthest or (run["index"] < latest and in_order):
                evidence.odd.add(ODD_LEDGER)
            last = merged[-1] if merged else None
            hole = run["first"] > furthest + 1 and not holes
            if last is None or hole or (last["view"], last["note"]) != (run["view"], run["note"]):
                merged.append({**run, "doubled": 0, "inverted": 0})
            else:
                last["last"], last["amount"] = max(last["last"], run["last"]), last["amount"] + run["amount"]
                last["index"], last["high"] = min(last["index"], run["index"]), max(last["high"], run["high"])
            furthest, latest = max(furthest, run["last"]), max(latest, run["high"])
        return merged
