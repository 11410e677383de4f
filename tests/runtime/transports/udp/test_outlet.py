"""Sending without waiting, through a socket that does what the test says."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from antiphon.runtime.transports.udp.outlet import QUEUE_BYTES, Outlet, Where

Play = Callable[[Coroutine[Any, Any, None]], None]
ANA, BEN = ("127.0.0.1", 1), ("127.0.0.1", 2)


class MoodySocket:
    """A socket that refuses with the errors it is given, one after the other, and then takes everything. The descriptor is a real one,
    always writable, so that the event loop asks again at once."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)
        self.sent: list[tuple[bytes, Where]] = []
        self.real = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def fileno(self) -> int:
        return self.real.fileno()

    def sendto(self, datagram: bytes, to: Where) -> int:
        if self.errors:
            raise OSError(self.errors.pop(0), "moody")
        self.sent.append((datagram, to))
        return len(datagram)


def outlet(moody: MoodySocket) -> tuple[Outlet, Counter[str], list[Where]]:
    drops: Counter[str] = Counter()
    refused: list[Where] = []
    return Outlet(moody, drops, refused.append), drops, refused  # type: ignore[arg-type]


async def _sent(moody: MoodySocket, count: int) -> None:
    async with asyncio.timeout(20):
        while len(moody.sent) < count:
            await asyncio.sleep(0.001)


def test_behind_a_full_socket_datagrams_wait_in_order(play: Play) -> None:
    """A burst would lose what the socket does not take at once, or overtake itself."""

    async def story() -> None:
        moody = MoodySocket(errno.EAGAIN, errno.EAGAIN, errno.ENOBUFS, errno.EAGAIN)
        out, drops, _ = outlet(moody)
        expected = [(b"%d" % number, ANA if number % 2 else BEN) for number in range(10)]
        for datagram, to in expected:
            assert out.put(datagram, to)
        assert out.waiting_bytes == 10
        await _sent(moody, 10)
        assert moody.sent == expected
        assert (out.waiting_bytes, out.sent_datagrams, out.sent_bytes) == (0, 10, 10)
        assert not drops
        out.close()
        moody.real.close()

    play(story())


def test_the_queue_has_an_end(play: Play) -> None:
    """A network that takes nothing would fill the memory with what waits for it."""

    async def story() -> None:
        moody = MoodySocket(*[errno.EAGAIN] * 3)
        out, drops, _ = outlet(moody)
        datagram = bytes(60_000)
        fits = QUEUE_BYTES // len(datagram)
        for _ in range(fits + 5):
            assert out.put(datagram, ANA)
        assert drops == {"send_queue_full": 5}
        await _sent(moody, fits)
        assert out.put(datagram, ANA)
        assert len(moody.sent) == fits + 1
        out.close()
        moody.real.close()

    play(story())


def test_what_is_refused_is_counted_by_its_name_and_told(play: Play) -> None:
    """A node without a route would seem to send."""

    async def story() -> None:
        moody = MoodySocket(errno.ENETUNREACH, errno.ECONNREFUSED, errno.EAGAIN, errno.EAGAIN, errno.ENETDOWN)
        out, drops, refused = outlet(moody)
        assert not out.put(b"1", ANA)
        assert not out.put(b"2", ANA)
        assert out.put(b"3", ANA)  # waits, and is refused later
        assert out.put(b"4", BEN)
        await _sent(moody, 1)
        assert moody.sent == [(b"4", BEN)]
        assert refused == [ANA]
        assert drops == {"send_enetunreach": 1, "send_econnrefused": 1, "send_enetdown": 1}
        out.close()
        moody.real.close()

    play(story())


def test_closing_sends_what_can_be_sent_and_counts_the_rest(play: Play) -> None:
    """A leaving node's last words would vanish without a trace."""

    async def story() -> None:
        for errors, sent, dropped in (([errno.EAGAIN], 2, 0), ([errno.EAGAIN] * 2, 0, 2)):
            moody = MoodySocket(*errors)
            out, drops, _ = outlet(moody)
            out.put(b"last", ANA)
            out.put(b"words", ANA)
            out.close()
            assert (len(moody.sent), drops["closed"]) == (sent, dropped)
            moody.real.close()
            await asyncio.sleep(0.01)  # a reader or writer left behind would be called now

    play(story())
