"""Which address of this machine others can reach."""

from __future__ import annotations

import socket

_ANY = {"0.0.0.0", "::"}


def reachable_host(bound: str) -> str:
    """The host to tell others when a socket is bound to `bound`: the same, or where it is bound everywhere the address from which this
    machine would leave. Nothing is sent."""
    if bound not in _ANY:
        return bound
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "::1" if family == socket.AF_INET6 else "127.0.0.1"
