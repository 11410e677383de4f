"""A scenario file: its lines, what each printed when it was recorded, and what it prints now.

Reading is total: a file is either carried out to its end, or a BadFile names the line and what to write instead. The text
of a result is the file with every recorded line replaced by what was printed now, so a rewrite of a scenario that passes changes
nothing, byte for byte.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from msgspec import Struct

from antiphon.debugger.words import Word, split
from antiphon.errors import AntiphonError, BadFile
from antiphon.sim.oracles import Violation
from antiphon.sim.scenario.commands import Performance
from antiphon.sim.scenario.expects import Unmet

FILE_LIMIT = 1 << 20
LINES_LIMIT = 10_000
LINE_LIMIT = 4_000
_RECORDED = ">"


class ScenarioResult(Struct, frozen=True):
    """How a scenario went. `ok`: everything expected happened, nothing recorded differs, no promise was broken. `text` is the
    file as it would be recorded now; `differences` are lines for people: expectations that failed, then a unified diff."""

    ok: bool
    text: str
    differences: list[str]
    violations: list[Violation]


def run_text(text: str, name: str = "<scenario>", rewrite: bool = False, trace: str | os.PathLike[str] | None = None) -> ScenarioResult:
    """Carries out a scenario. With `rewrite`, printed lines that differ from the recorded ones are no failure; failed expectations
    and broken promises still are. With `trace` its groups are recorded, in files in this directory."""
    lines = _lines(text, name)
    performance = Performance(run=Path(name).stem or "scenario" if trace is not None else "")
    told: list[str] = []
    unmet: list[str] = []
    below_command = False
    for number, line in enumerate(lines, 1):
        if line.startswith(_RECORDED):
            if not below_command:
                raise BadFile(name, number, "a recorded line stands directly below the command that printed it")
            continue
        told.append(line)
        words = _words(line, name, number)
        below_command = bool(words)
        if not words:
            continue
        try:
            printed = performance.do(words)
        except Unmet as failure:
            unmet.append(f"{name}:{number}: {line.strip()}: {failure}")
            printed = []
        except (ValueError, AntiphonError) as wrong:
            raise BadFile(name, number, str(wrong)) from wrong
        told += [f"{_RECORDED} {output}".rstrip() for item in printed for output in item.split("\n")]
    for world in performance.scene.recorded:
        world.write_trace(Path(trace or "."))
    new = "".join(f"{line}\n" for line in told)
    old = "".join(f"{line}\n" for line in lines)
    differences = unmet
    if old != new and not rewrite:
        diff = difflib.unified_diff(old.splitlines(), new.splitlines(), f"{name} (recorded)", f"{name} (now)", lineterm="")
        differences = [*unmet, *diff]
    violations = performance.scene.violations
    return ScenarioResult(not differences and not violations, new, differences, violations)


def run_file(
    path: str | os.PathLike[str], rewrite: bool = False, trace: str | os.PathLike[str] | None = None
) -> ScenarioResult:
    """Carries out a scenario file; with `rewrite`, records in it what is printed now; with `trace`, writes what happened there."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(FILE_LIMIT + 1)
    except OSError as failure:
        raise BadFile(str(path), 0, f"cannot be read: {failure.strerror or failure}") from failure
    if len(data) > FILE_LIMIT:
        raise BadFile(str(path), 0, f"is larger than {FILE_LIMIT:,} bytes: split it")
    try:
        text = data.decode()
    except UnicodeDecodeError as failure:
        raise BadFile(str(path), data.count(b"\n", 0, failure.start) + 1, "is not UTF-8 text") from failure
    result = run_text(text, str(path), rewrite, trace)
    if rewrite and result.text != text:
        # Beside the file and then in its place, so that nobody ever reads half a scenario.
        beside = file.with_name(file.name + ".new")
        beside.write_text(result.text, encoding="utf-8", newline="\n")
        beside.replace(file)
    return result


def _lines(text: str, name: str) -> list[str]:
    if len(text) > FILE_LIMIT:
        raise BadFile(name, 0, f"is larger than {FILE_LIMIT:,} characters: split it")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if len(lines) > LINES_LIMIT:
        raise BadFile(name, LINES_LIMIT + 1, f"a scenario has at most {LINES_LIMIT:,} lines")
    lines = [line.rstrip() for line in lines]
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_LIMIT:
            raise BadFile(name, number, f"a line has at most {LINE_LIMIT:,} characters")
    return lines


def _words(line: str, name: str, number: int) -> list[Word]:
    try:
        return split(line)
    except ValueError as wrong:
        raise BadFile(name, number, str(wrong)) from wrong
