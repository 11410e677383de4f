"""Logs of a node: one line per event, key=value for people or JSON for machines, on the standard logger `antiphon`.

    antiphon.runtime.logs.configure(json=True)      # before the node starts; or give the logger `antiphon` handlers of your own

    2026-05-04T10:20:30.123Z INFO    group.view node=ana group=trip view=4 members=3 joined=cleo

| event                  | level   | says                                                                                           |
|------------------------|---------|------------------------------------------------------------------------------------------------|
| node.started           | INFO    | where it listens                                                                               |
| node.closed            | INFO    |                                                                                                |
| group.waiting          | WARNING | a join has waited for a second: for what                                                       |
| group.name_taken       | WARNING | another group has the name of one that this node is in                                         |
| directory.unwritable   | WARNING | the file in which the node remembers founders cannot be written                                |
| group.joined           | INFO    | the first view of this node in the group                                                       |
| group.view             | INFO    | who joined and who left                                                                        |
| group.lost_members     | WARNING | a view without members that did not say that they leave: dead, or beyond a partition            |
| group.merged           | WARNING | sides of a partition are one group again                                                       |
| group.no_majority      | WARNING | this side may not go on (`partitions="majority"`)                                              |
| group.synchronised     | INFO    | this member has caught up                                                                      |
| group.gap              | WARNING | messages that nobody has any more                                                              |
| group.suspects         | WARNING | members that do not answer                                                                     |
| group.trusts           | INFO    | some of them that answer again                                                                 |
| group.left             | INFO    | this node left; WARNING when it did not mean to, with the reason                               |
| security.refused       | WARNING | a peer's frames or connections have not the right credentials: why, and what to do; once per peer |
| transport.connected    | INFO    | how many connections were made since the last line                                             |
| transport.disconnected | WARNING | how many were lost                                                                             |
| drops                  | WARNING | what was dropped, where and why: the first of each reason at once, then at most a line a minute |

Everything comes from the node's events and stats; nothing is said per message. Where nobody listens nothing is done; where somebody does,
stats are read once a second (about 0.1 ms per group). What peers are called is quoted, so that nobody can forge a line.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

import msgspec

from antiphon.errors import InvalidOption

LOGGER = logging.getLogger("antiphon")
LOGGER.addHandler(logging.NullHandler())
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_TEXT_LIMIT = 1_024


def configure(*, json: bool = False, level: str = "INFO", stream: TextIO | None = None) -> logging.Handler:
    """Writes the logs to a stream, stderr if none is given, instead of to whatever an earlier call named."""
    if level.upper() not in LEVELS:
        raise InvalidOption("level", level, f"choose one of {', '.join(LEVELS)}")
    for handler in list(LOGGER.handlers):
        if isinstance(handler.formatter, KeyValueFormatter | JsonFormatter):
            LOGGER.removeHandler(handler)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if json else KeyValueFormatter())
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False  # or a program that logs everything would say everything twice
    return handler


def is_heard() -> bool:
    """Whether anybody listens."""
    logger: logging.Logger | None = LOGGER
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return LOGGER.isEnabledFor(logging.WARNING)
        logger = logger.parent if logger.propagate else None
    return False


def log(level: int, event: str, fields: Mapping[str, Any]) -> None:
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, Line(event, fields))


class Line:
    """What is logged; any handler can write it, because as text it is key=value."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: Mapping[str, Any]) -> None:
        self.event, self.fields = event, fields

    def __str__(self) -> str:
        return " ".join([self.event, *(f"{key}={_quoted(value)}" for key, value in self.fields.items())])


class KeyValueFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_moment(record.created)} {record.levelname:<7} {_with_trace(self, record, record.getMessage())}"


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"at": _moment(record.created), "level": record.levelname}
        if isinstance(record.msg, Line):
            line |= {"event": record.msg.event, **record.msg.fields}
        else:
            line |= {"event": "message", "text": record.getMessage()}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def _with_trace(formatter: logging.Formatter, record: logging.LogRecord, text: str) -> str:
    return f"{text}\n{formatter.formatException(record.exc_info)}" if record.exc_info else text


def _moment(seconds: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1_000):03}Z"


def _quoted(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = ",".join(map(str, value))
    text = str(value)
    if text and text.isprintable() and not any(character in ' ="' for character in text):
        return text[:_TEXT_LIMIT]
    return msgspec.json.encode(text[:_TEXT_LIMIT]).decode()
