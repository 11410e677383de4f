"""The values that flags take, and the sentence for a value that a flag cannot take.

Each function reads one flag's text and returns the value, or raises BadParameter naming the flag and an example that works.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Json: TypeAlias = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON document instead of text for people.")]
Strict: TypeAlias = Annotated[
    bool, typer.Option("--strict", metavar="", help="Exit with status 3 if no violation was found but a promise could not be judged.")
]
Trace: TypeAlias = Annotated[
    Path | None, typer.Option("--trace", metavar="DIR", help="Record what happens, in files in this directory: see antiphon trace.")
]

SEED_LIMIT = 1_000_000
"""The most seeds one command runs."""
_UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


def seeds(text: str, flag: str = "--seeds") -> range:
    """`5` is the seed 5; `0:200` is 0 … 199."""
    found = re.fullmatch(r"(\d{1,12})(?::(\d{1,12}))?", text.strip())
    if found is None:
        raise refused(flag, text, "write FIRST:END, for example 0:200 for the seeds 0 … 199, or one number")
    first = int(found[1])
    end = first + 1 if found[2] is None else int(found[2])
    if end <= first:
        raise refused(flag, text, f"the end must be above the first, for example {first}:{first + 200}")
    if end - first > SEED_LIMIT:
        raise refused(flag, text, f"one command runs at most {SEED_LIMIT:,} seeds; run several with --resume")
    return range(first, end)


def seconds(text: str, flag: str) -> float:
    """`20ms`, `1.5s`, `200us`; a plain number is seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|ms|us|µs)?", text.strip())
    if found is None:
        raise refused(flag, text, "write a time such as 20ms or 1.5s")
    return float(found[1]) * _UNITS_S[found[2] or "s"]


def interval(text: str, flag: str) -> tuple[float, float]:
    """`20ms:200ms`: from 20 to 200 milliseconds."""
    low_text, mark, high_text = text.partition(":")
    low = seconds(low_text, flag)
    high = seconds(high_text, flag) if mark else low
    if high < low:
        raise refused(flag, text, "the shorter time comes first, for example 20ms:200ms")
    return low, high


def existing(path: Path, flag: str) -> Path:
    if not path.is_file():
        raise refused(flag, str(path), "there is no such file" if not path.exists() else "it is not a file")
    return path


def writable(path: Path, flag: str, suffixes: tuple[str, ...]) -> Path:
    """A path that can be written when the work is done: found out before the work, not after."""
    if path.suffix.lower() not in suffixes:
        raise refused(flag, str(path), f"end the file's name in {' or '.join(suffixes)}")
    if path.is_dir():
        raise refused(flag, str(path), "it is a directory; name a file in it")
    if not path.absolute().parent.is_dir():
        raise refused(flag, str(path), f"the directory {path.parent} does not exist; create it first")
    return path


def refused(flag: str, value: object, why: str) -> typer.BadParameter:
    return typer.BadParameter(f"{value!r}: {why}", param_hint=repr(flag))
