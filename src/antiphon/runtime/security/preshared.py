"""A key that everybody who may take part holds.

Keeps: the secret, in memory, and never shows it. Whoever has it can read, send and speak in anybody's name in its realm; who does not
has nothing. It is a key and no password: it must come from a random generator, because whoever records one datagram can try
guesses without asking anybody.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from antiphon.errors import BadFile, InvalidOption
from antiphon.runtime.security.realm import Realm, expand, extract

SECRET_BYTES = 16
_DISTINCT = 6
"""Random bytes, even spelt as hexadecimal digits, have more different values than this."""
_FILE_LIMIT = 4_096
_MAKE_ONE = "make one with `antiphon doctor key` or secrets.token_urlsafe(32) and give it to every node"


class PreSharedKey:
    """`PreSharedKey(secret)`: text (used as UTF-8) or bytes, at least 16 of them."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str | bytes) -> None:
        if not isinstance(secret, str | bytes):
            raise InvalidOption("secret", type(secret).__name__, "give text or bytes")
        raw = secret.encode() if isinstance(secret, str) else bytes(secret)
        # The secret itself is in no message: messages end in logs.
        if len(raw) < SECRET_BYTES:
            raise InvalidOption("secret", f"<{len(raw)} bytes>", f"a key has at least {SECRET_BYTES} random bytes: {_MAKE_ONE}")
        if len(set(raw)) < _DISTINCT:
            raise InvalidOption("secret", f"<{len(raw)} bytes>", f"it repeats itself, so it is no random key: {_MAKE_ONE}")
        self._secret = raw

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> PreSharedKey:
        """The key in a file, without the white space around it."""
        try:
            with Path(path).open("rb") as file:
                raw = file.read(_FILE_LIMIT + 1)
        except OSError as error:
            raise BadFile(str(path), 1, f"the key cannot be read ({error.strerror}): {_MAKE_ONE}") from None
        if len(raw) > _FILE_LIMIT:
            raise BadFile(str(path), 1, f"it has more than {_FILE_LIMIT:,} bytes, so it is no key: {_MAKE_ONE}")
        try:
            return cls(raw.strip())
        except InvalidOption as error:
            raise BadFile(str(path), 1, error.why) from None

    @property
    def fingerprint(self) -> str:
        """The same at all who hold the same key, and useless to everybody else: for logs, and for people on the phone."""
        return expand(extract(b"antiphon fingerprint", self._secret), b"fingerprint")[:4].hex()

    def node_realm(self) -> Realm:
        return Realm("", extract(b"antiphon shared key", self._secret))

    def group_realm(self, node: Realm, name: str) -> Realm:
        return node.within(name, self._secret)

    def __repr__(self) -> str:
        return f"PreSharedKey(fingerprint={self.fingerprint!r})"
