"""Whether a seed answers: first whether somebody listens there, then whether a node does, and finds the way back."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

from antiphon.cli.diagnosis import FAIL, OK, WARN, Finding
from antiphon.errors import AntiphonError
from antiphon.model.ids import Address
from antiphon.runtime.node import Node
from antiphon.runtime.transports.contract import address_of, host_and_port

if TYPE_CHECKING:
    from antiphon.runtime.security import PreSharedKey

_LOOK_S = 0.05


async def reach(seed: str, transport: str, credentials: PreSharedKey | None, timeout: float) -> Finding:
    """One finding about the seed, after at most about twice `timeout`."""
    check, (name, port) = f"seed {seed}", host_and_port(seed, "--seed")
    try:
        kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
        async with asyncio.timeout(timeout):
            family = socket.AF_INET if transport == "udp" else socket.AF_UNSPEC
            found = await asyncio.get_running_loop().getaddrinfo(name, port, family=family, type=kind)
            host = str(found[0][4][0])
            if transport == "tcp":
                _, writer = await asyncio.open_connection(host, port)
                writer.close()
    except socket.gaierror:
        return Finding(check, FAIL, f"{name} is not a name that can be looked up", "check its spelling, or give its address")
    except TimeoutError:
        return Finding(check, FAIL, f"nothing answers within {timeout:g} s", "check the address, and firewalls on the way")
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        return Finding(check, FAIL, f"no connection: {why}", "check that the node runs, and its --bind")
    return await _ask(check, address_of(host, port), transport, credentials, timeout)


async def _ask(check: str, seed: Address, transport: str, credentials: PreSharedKey | None, timeout: float) -> Finding:
    is_near = seed.startswith(("127.", "[::1]"))
    bind = ("127.0.0.1:0" if not seed.startswith("[") else "[::1]:0") if is_near else ("0.0.0.0:0" if seed[0] != "[" else "[::]:0")
    more = {"multicast": None} if transport == "udp" else {}
    node = Node("doctor", transport=transport, bind=bind, seeds=[seed], credentials=credentials, name_server=False, **more)
    try:
        async with node:
            node.core.ask_groups(node.now(), seed)
            node.advertise()
            try:
                async with asyncio.timeout(timeout):
                    while not _understood(node):
                        await asyncio.sleep(_LOOK_S)
            except TimeoutError:
                refused = node.core.refusals.explain()
                says = f"nobody answers a question within {timeout:g} s" + (f" ({refused})" if refused else "")
                status = WARN if transport == "tcp" else FAIL
                what = "check that a node runs there, that it can connect back to this machine, and that it has the same --key-file"
                return Finding(check, status, says, what)
            groups = [info.id.partition("#")[0] for info in node.groups()]
    except (AntiphonError, OSError) as error:
        return Finding(check, FAIL, f"no node could be opened to ask from: {error}", "see the findings about ports")
    return Finding(check, OK, f"a node answers{'; it knows of ' + ', '.join(sorted(groups)[:8]) if groups else ''}")


def _understood(node: Node) -> bool:
    """Whether a frame came that this node can read; one that has a key it does not have is none."""
    stats = node.stats()
    received, drops = stats["frames_received"], stats["drops"]
    return isinstance(received, int) and isinstance(drops, dict) and received > sum(drops.values())
