"""Where the servers are and what was said about them: `nats://[user:password@]host:port[,host:port…]?sync=always&replicas=3&prefix=…`.

`sync=always` is the operator's word that the servers sync every write before they acknowledge it (`sync_interval: always`). A client cannot
see that setting, so without the word no receipt says `synced`. The password never appears in `url`, `repr` or errors.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

from antiphon.errors import BadStore

_PORT = 4222
_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,32}")
_REPLICAS = (1, 3, 5)
_TIMEOUT_LIMIT_S = 600.0
_OPTIONS = ("prefix", "replicas", "sync", "timeout_s")


class Credentials(Struct, frozen=True):
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"Credentials({self.user!r}, …)"


class JetStreamAddress(Struct, frozen=True, kw_only=True):
    url: str
    """As it was given, without the password."""
    servers: tuple[str, ...]
    credentials: Credentials = Credentials()
    synced: bool = False
    replicas: int = 1
    prefix: str = "antiphon"
    timeout_s: float = 10.0
    """How long a call may take, with everything that is tried again."""


def parse(url: str) -> JetStreamAddress:
    scheme, _, rest = url.partition("://")
    address, _, query = rest.partition("?")
    login, _, hosts = address.rpartition("@")
    user, colon, password = login.partition(":")
    shown = f"{scheme}://{f'{user}@' if login else ''}{hosts}{f'?{query}' if query else ''}"
    if scheme not in ("nats", "tls") or not hosts:
        raise BadStore(shown, "say nats://host:port, or nats://host:port,host:port,… for a cluster")
    if login and not (user and colon):
        raise BadStore(shown, "say who you are as nats://user:password@host:port")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise BadStore(shown, f"{unknown[0]!r} is not an option of it; there are {', '.join(_OPTIONS)}")
    if options.get("sync", "always") != "always":
        raise BadStore(shown, "sync=always says that the servers sync before they acknowledge; leave it out where they do not")
    prefix = options.get("prefix", "antiphon")
    if not _PREFIX.fullmatch(prefix):
        raise BadStore(shown, f"prefix={prefix} must be 1 to 32 letters, digits, - or _")
    try:
        replicas, timeout_s = int(options.get("replicas", "1")), float(options.get("timeout_s", "10"))
    except ValueError as error:
        raise BadStore(shown, f"replicas and timeout_s are numbers ({error})") from None
    if replicas not in _REPLICAS:
        raise BadStore(shown, f"replicas={replicas} is not among {_REPLICAS}")
    if not 0 < timeout_s <= _TIMEOUT_LIMIT_S:
        raise BadStore(shown, f"timeout_s={timeout_s} is no time to wait; give it seconds above 0 and up to {_TIMEOUT_LIMIT_S:.0f}")
    return JetStreamAddress(
        url=shown,
        servers=tuple(f"{scheme}://{_with_port(host, shown)}" for host in hosts.split(",")),
        credentials=Credentials(unquote(user), unquote(password)),
        synced="sync" in options,
        replicas=replicas,
        prefix=prefix,
        timeout_s=timeout_s,
    )


def _with_port(host: str, shown: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):  # a bare [v6] address ends so
        name, port = host, str(_PORT)
    if not name or not port.isdigit() or not 0 < int(port) < 65_536:
        raise BadStore(shown, f"{host!r} is not a host and a port")
    return f"{name}:{port}"
