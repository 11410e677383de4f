"""A process with a UDP transport, told what to do by lines on its input: for tests on hosts of a made network.

    speaker.py '{"seeds": [...], "interface": "eth1"}'

Says its address, then what it hears; `{"send": [addresses], "text": …, "size": bytes to fill up to}`, `{"broadcast": text}`,
`{"stats": true}` are its commands. Ends when its input does.
"""

from __future__ import annotations

import asyncio
import json
import sys

from antiphon.model.ids import Address
from antiphon.runtime.transports.udp import UdpTransport


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def main() -> None:
    transport = UdpTransport(**json.loads(sys.argv[1]))

    def take(source: Address, wires: list[bytes]) -> None:
        for wire in wires:
            say(heard=(source, wire.rstrip(b".").decode()))

    await transport.open(take)
    say(address=transport.address)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        command = json.loads(line)
        if "send" in command:
            transport.send(tuple(map(Address, command["send"])), command["text"].encode().ljust(command["size"], b"."))
        elif "broadcast" in command:
            transport.broadcast(command["broadcast"].encode())
        else:
            say(stats=transport.stats())
    await transport.close()


asyncio.run(main())
