"""What can be found out about this machine before a node runs on it: each check is a finding with what to do next.

Nothing is sent to the network but to seeds that were named. To see whether multicast is possible its group is joined on each interface,
which the system may announce to the next router; nothing is sent to the group itself.
"""

from __future__ import annotations

import importlib.util
import re
import socket
import struct
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from msgspec import Struct

from antiphon.errors import AntiphonError
from antiphon.runtime.security import PreSharedKey
from antiphon.runtime.transports.contract import host_and_port
from antiphon.runtime.transports.udp.interface import Interface, interfaces
from antiphon.runtime.transports.udp.socket_pair import BUFFER_BYTES, enlarge, granted
from antiphon.runtime.transports.udp.transport import MULTICAST

OK, WARN, FAIL = "ok", "warn", "fail"
_PYTHON, _MSGSPEC = (3, 11), (0, 19)
_EXTRA = re.compile(r"(?P<package>[\w.-]+).*extra == ['\"](?P<extra>\w+)['\"]")
_LEAST_FILES = 256
_LEAST_BUFFER = 2 << 20
_NOT_BEFORE_S = 1_735_689_600
"""The beginning of 2025: a clock that shows less was never set."""
_STEP_S = 0.02


class Finding(Struct, frozen=True):
    """`status` is ok, warn (works, but) or fail (will not work); `next` is what to do, if anything."""

    check: str
    status: str
    says: str
    next: str = ""


def findings(transport: str, bind: str, key_file: Path | None, multicast: bool) -> Iterator[Finding]:
    """All that can be found out without anybody else."""
    yield _python()
    yield _msgspec()
    yield _event_loop()
    yield _extras()
    yield _port("tcp", bind if transport == "tcp" else "127.0.0.1:0")
    yield _port("udp", bind if transport == "udp" else "127.0.0.1:0")
    if multicast:
        yield from _multicast()
    yield _buffers()
    yield _files()
    yield _clock()
    yield from _key(key_file)


def _python() -> Finding:
    has = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _PYTHON:
        return Finding("python", FAIL, f"Python {has} is too old", "install Python 3.11 or newer")
    return Finding("python", OK, f"Python {has}")


def _msgspec() -> Finding:
    has = version("msgspec")
    if tuple(int(part) for part in has.split(".")[:2]) < _MSGSPEC:
        return Finding("msgspec", FAIL, f"msgspec {has} is too old", "pip install --upgrade msgspec")
    return Finding("msgspec", OK, f"msgspec {has}")


def _event_loop() -> Finding:
    if _is_installed("uvloop"):
        return Finding("event loop", OK, f"uvloop {version('uvloop')}")
    says = "asyncio's own; with uvloop a node carries about twice as much"
    return Finding("event loop", WARN, says, "" if sys.platform == "win32" else "pip install uvloop")


def _extras() -> Finding:
    packages_by_extra: dict[str, list[str]] = {}
    for needed in requires("antiphon") or ():
        found = _EXTRA.match(needed)
        if found is not None and found["extra"] not in ("all", "dev"):
            packages_by_extra.setdefault(found["extra"], []).append(found["package"])
    missing = [extra for extra, packages in packages_by_extra.items() if not all(map(_is_installed, packages))]
    there = [extra for extra in packages_by_extra if extra not in missing]
    says = f"installed: {', '.join(there) or 'none'}" + (f"; not installed: {', '.join(missing)}" if missing else "")
    return Finding("extras", OK, says, f"when you need them: pip install 'antiphon[{','.join(missing)}]'" if missing else "")


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def _port(kind: str, bind: str) -> Finding:
    host, port = host_and_port(bind, "--bind")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as sock:
            if kind == "tcp":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            bound = sock.getsockname()[1]
    except OSError as error:
        says = f"cannot listen at {bind}: {error.strerror or error}"
        return Finding(f"{kind} port", FAIL, says, "choose an address of this machine and a free port; 0 is any free one")
    return Finding(f"{kind} port", OK, f"can listen at {host}, port {bound}{' is free' if port else ', for example'}")


def _multicast() -> Iterator[Finding]:
    group, port = host_and_port(MULTICAST)
    present = [each for each in interfaces() if each.up] or [Interface("", "0.0.0.0", 0, 1_500)]
    outside = 0
    for interface in present:
        name = f"{interface.name or 'the default interface'} ({interface.address})"
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                where = struct.pack("4s4si", socket.inet_aton(group), socket.inet_aton(interface.address), interface.index)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, where if interface.index else where[:8])
        except OSError as error:
            yield Finding("multicast", WARN, f"cannot be joined on {name}: {error.strerror}", "use seeds there: --seed HOST:PORT")
        else:
            outside += not interface.is_loopback
            yield Finding("multicast", OK, f"{group}:{port} can be joined on {name}, MTU {interface.mtu:,}")
    if outside:
        how = "to see whether it gets through: antiphon node run --name NAME --group test, on two machines"
        yield Finding("multicast", OK, "whether switches pass it on is not tested", how)
    else:
        yield Finding("multicast", WARN, "only this machine itself can be reached by it", "name seeds: --seed HOST:PORT")


def _buffers() -> Finding:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        enlarge(sock)
        receive, _ = granted(sock)
    if receive < _LEAST_BUFFER:
        wants = f"sysctl -w net.core.rmem_max={BUFFER_BYTES} net.core.wmem_max={BUFFER_BYTES}" if sys.platform == "linux" else ""
        return Finding("udp buffer", WARN, f"the system grants {receive:,} bytes: under load datagrams are lost, and repaired", wants)
    return Finding("udp buffer", OK, f"the system grants {receive:,} bytes")


def _files() -> Finding:
    try:
        import resource
    except ImportError:
        return Finding("open files", OK, "this system has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Finding("open files", OK, "no limit")
    says = f"{soft:,}: over tcp, enough for about {max(0, (soft - 32) // 2):,} peers"
    if soft < _LEAST_FILES:
        return Finding("open files", WARN, says, f"ulimit -n {hard if 0 < hard < 4_096 else 4_096}")
    return Finding("open files", OK, says)


def _clock() -> Finding:
    wall, steady = time.time(), time.monotonic()
    time.sleep(_STEP_S)
    drift = abs((time.time() - wall) - (time.monotonic() - steady))
    if wall < _NOT_BEFORE_S:
        says = f"it shows {time.strftime('%Y-%m-%d', time.gmtime(wall))}: certificates and history go by it"
        return Finding("clock", FAIL, says, "set it, or let it be set: timedatectl set-ntp true")
    if drift > _STEP_S / 2:
        return Finding("clock", WARN, f"it was moved by {drift * 1_000:.0f} ms while looked at", "run this again; if it stays, look at NTP")
    return Finding("clock", OK, time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(wall)))


def _key(path: Path | None) -> Iterator[Finding]:
    if path is None:
        return
    try:
        key = PreSharedKey.from_file(path)
    except AntiphonError as error:
        yield Finding("key", FAIL, str(error), f"antiphon doctor key --out {path}")
        return
    yield Finding("key", OK, f"its fingerprint is {key.fingerprint}: the same on every node that has it")
    if sys.platform != "win32" and path.stat().st_mode & 0o077:
        yield Finding("key", WARN, "others on this machine can read the file", f"chmod 600 {path}")
    if importlib.util.find_spec("cryptography") is None:
        yield Finding("key", FAIL, "sealing needs the package cryptography", "pip install 'antiphon[security]'")
