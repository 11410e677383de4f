"""Who may take part, and nobody else: credentials, and the sealer that enforces them.

Theory of operation. A node without credentials believes everything that reaches it. With `PreSharedKey` or `Certificates` it believes
only what was sealed (AES-256-GCM) by a session that has proven itself; a group whose name has a key of its own is a realm that even the
other nodes cannot enter.

    candidate ──(answers a fresh question; with certificates: a TLS 1.3 handshake)──▶ proven ──(certificate expires, a new session
       │                                                                                │       at its address, longest silent
       └─(silent for 5 s, refused, or no room)──▶ forgotten ◀───────────────────────────┘       of 4,096)

A session begins with the start of a node and ends with it: there is no key to keep and no counter to save. On TCP certificates are
TLS's own affair (`server_context`, `client_context`), and only groups' keys and shared keys seal.
"""

from __future__ import annotations

from antiphon.runtime.security.certificates import Certificates, peer_name, peer_names, refusal_of
from antiphon.runtime.security.envelope import SEAL_BYTES
from antiphon.runtime.security.preshared import PreSharedKey
from antiphon.runtime.security.sealer import Sealer

__all__ = ["SEAL_BYTES", "Certificates", "PreSharedKey", "Sealer", "peer_name", "peer_names", "refusal_of"]
