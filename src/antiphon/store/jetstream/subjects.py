"""Names as tokens of subjects and streams, and the subjects of one topic.

A token cannot contain dots, spaces, stars or slashes. Plain names stand for themselves, so that an operator can read them; any other text
is `=` and its base64: reversible, no two alike, and at most 172 characters for the longest name.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from antiphon.store.records import TopicOptions

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def token(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    return "=" + urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")


def name_of(token: str) -> str:
    if not token.startswith("="):
        return token
    coded = token[1:]
    return urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode("utf-8", "surrogatepass")


class TopicSubjects:
    """Where everything of one topic is."""

    __slots__ = (
        "all",
        "base",
        "claim",
        "control",
        "floor",
        "holder",
        "keyed",
        "look",
        "shared",
        "stream",
        "subscribers",
        "value",
        "written",
    )

    def __init__(self, prefix: str, topic: str) -> None:
        self.stream = f"{prefix}-t-{token(topic)}"
        self.base = f"{prefix}.t.{token(topic)}"
        self.all = f"{self.base}.>"
        self.written = f"{self.base}.w.>"
        """The condition of every write. The server looks at every subject that matches it, so keys, which may be many, do not."""
        self.value = f"{self.base}.w.v"
        self.shared = f"{self.base}.w.v.*"
        self.keyed = f"{self.base}.k.*"
        self.holder = f"{self.base}.w.pub"
        self.claim = f"{self.base}.w.claim"
        self.control = f"{self.base}.c.>"
        self.floor = f"{self.base}.c.floor"
        self.look = f"{self.base}.c.look"
        self.subscribers = f"{self.base}.c.sub.*"

    def values_of(self, publisher: str) -> str:
        """Values of a shared topic."""
        return f"{self.value}.{token(publisher)}"

    def of_key(self, key: str) -> str:
        return f"{self.base}.k.{token(key)}"

    def of_publisher(self, publisher: str) -> str:
        return f"{self.base}.p.{token(publisher)}"

    def of_subscriber(self, subscriber: str) -> str:
        return f"{self.base}.c.sub.{token(subscriber)}"

    def values(self, options: TopicOptions) -> str:
        return self.keyed if options.mutable else self.shared if options.shared else self.value


def stream_prefix(prefix: str) -> str:
    return f"{prefix}-t-"


def every_topic(prefix: str) -> str:
    return f"{prefix}.t.>"
