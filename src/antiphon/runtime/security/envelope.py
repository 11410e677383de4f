"""What a sealed datagram looks like from outside.

| bytes   | field      | says                                                                                         |
|---------|------------|----------------------------------------------------------------------------------------------|
| 0 … 2   | magic      | sealed, and how: 0xC1 begins no MessagePack value, so no unsealed frame begins like this     |
| 3       | kind       | what is inside                                                                               |
| 4 … 11  | key id     | which realm's key it wants; made of the key, says nothing about it                           |
| 12 … 27 | session    | 16 random bytes, new with every start of the sender                                          |
| 28 … 35 | counter    | the sender's own, never used twice: the cipher's nonce, and the place in the replay window   |
| 36 …    | ciphertext | with its tag; the header and the sender's address are authenticated along with it            |

| kind   | sealed | bytes | says                                                                                         |
|--------|--------|-------|----------------------------------------------------------------------------------------------|
| DATA   | yes    | 52 +  | a frame                                                                                      |
| ASK    | yes    | 84    | target session, nonce: are you alive now?                                                    |
| ANSWER | yes    | 84    | the asker's session, its nonce                                                               |
| KNOCK  | no     | 68    | target session, nonce: show me your certificate                                              |
| ECHO   | no     | 68    | the knocker's nonce, a cookie: so you are where you say you are                              |
| TALK   | no     | 84 +  | target session, nonce, cookie, a flight of TLS; the counter is its number, 1 … 4             |
| NOTICE | no     | 12    | something was refused here, which uses this key (0: a certificate); ends there, and proves nothing |

No kind that answers somebody whose address is unproven is larger than what it answers.
"""

from __future__ import annotations

from antiphon.model.frames import FRAME_LIMIT

MAGIC = b"\xc1A\x01"
DATA, ASK, ANSWER, KNOCK, ECHO, TALK, NOTICE = range(7)

KEY_ID_BYTES = 8
SESSION_BYTES = 16
NONCE_BYTES = 16
HEADER_BYTES = 36
TAG_BYTES = 16
SEAL_BYTES = HEADER_BYTES + TAG_BYTES
"""By how much a sealed frame is longer than the frame: transports need room for it."""
ASK_BYTES = SEAL_BYTES + SESSION_BYTES + NONCE_BYTES
KNOCK_BYTES = HEADER_BYTES + SESSION_BYTES + NONCE_BYTES
NOTICE_BYTES = 4 + KEY_ID_BYTES
SEALED_LIMIT = FRAME_LIMIT + SEAL_BYTES
"""The largest datagram that is looked at."""

KIND = 3
KEY_ID = slice(4, 12)
SESSION = slice(12, 28)
KEY = slice(4, 28)
"""Key id and session together: which key opens it."""
COUNTER = slice(28, 36)
HEADER = slice(0, HEADER_BYTES)
FIRST = slice(36, 52)
SECOND = slice(52, 68)
THIRD = slice(68, 84)
TLS_BYTES_FROM = 84
"""Where the fields of the unsealed kinds lie, in the order of the table."""


def head(kind: int, key_id: bytes, session: bytes, counter: int) -> bytes:
    return b"".join((MAGIC, bytes((kind,)), key_id, session, counter.to_bytes(8, "big")))


def number_of(datagram: bytes) -> int:
    return int.from_bytes(datagram[COUNTER], "big")
