"""Where a node said that it is: a numeric host and a port, spelt in the one way in which nodes spell it.

Peers' addresses are never looked up: whoever can send a frame could make this node ask name servers for whatever it likes, and wait.
"""

from __future__ import annotations

from ipaddress import ip_address

from antiphon.errors import InvalidOption
from antiphon.runtime.transports.contract import address_of, host_and_port


def place_of(address: str) -> tuple[str, int] | None:
    """The host and port of a peer's address; None when no peer can be there."""
    try:
        host, port = host_and_port(address)
        numeric = str(ip_address(host))
    except (InvalidOption, ValueError):
        return None
    return (numeric, port) if port and address_of(numeric, port) == address else None
