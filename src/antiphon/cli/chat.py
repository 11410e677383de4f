"""`antiphon chat`: a threaded chat, on the whole screen or line by line."""

from __future__ import annotations

import asyncio
import getpass
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli import terminal
from antiphon.cli.arguments import refused

if TYPE_CHECKING:
    from antiphon.runtime.node import Node

_TRANSPORTS = ("udp", "tcp")


def chat(
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What others call you; your login name without it.")] = None,
    group: Annotated[str | None, typer.Option(metavar="NAME", help="The group to go to; it is founded if nobody has.")] = None,
    transport: Annotated[str, typer.Option(metavar="udp|tcp", help="udp finds others on the local network; tcp needs a --seed.")] = "udp",
    bind: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where this node listens; any free port without it.")] = None,
    seed: Annotated[list[str] | None, typer.Option(metavar="HOST:PORT", help="A node to find others through; may be repeated.")] = None,
    key_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The key that all hold; without it everybody can read.")] = None,
    plain: Annotated[
        bool, typer.Option("--plain", metavar="", help="Line by line, for pipes and scripts: /help lists the commands.")
    ] = False,
    light: Annotated[bool, typer.Option("--light", metavar="", help="Colours for a light terminal; F9 changes them.")] = False,
) -> None:
    """Talk in threads: every line stands under the one that it answers.

    `antiphon chat --name ana --group trip` in one terminal and `antiphon chat --name ben --group trip` in another, on one machine or one
    local network, find each other. Where multicast does not reach, name somebody's address, which the chat shows, as --seed. Where stdin or
    stdout is no terminal it is --plain.
    """
    if transport not in _TRANSPORTS:
        raise refused("--transport", transport, "choose udp or tcp")
    from antiphon.runtime.node import Node
    from antiphon.runtime.security import PreSharedKey

    key = None if key_file is None else PreSharedKey.from_file(key_file)
    node = Node(name or _login(), transport=transport, bind=bind, seeds=seed or (), credentials=key)
    invitation = f"{terminal.program()} chat --name NAME --group {shlex.quote(group or 'GROUP')} --transport {transport}"
    invitation += "" if key_file is None else " --key-file FILE"
    by_line = plain or not (sys.stdin.isatty() and sys.stdout.isatty())
    asyncio.run(_by_line(node, group, invitation) if by_line else _on_screen(node, group, transport, invitation, light))


async def _by_line(node: Node, group: str | None, invitation: str) -> None:
    from antiphon.apps.chat.console import Console, reader, typed
    from antiphon.apps.chat.lobby import Lobby

    async with node:
        lobby = Lobby(node)
        _print(f"* {node.name} at {node.address}; others come with: {invitation} --seed {node.address}")
        running = asyncio.ensure_future(Console(lobby, _print).run(typed(reader(sys.stdin.fileno())), group))
        _on_signals(running.cancel)
        try:
            with suppress(asyncio.CancelledError):
                await running
        finally:
            await lobby.close()


async def _on_screen(node: Node, group: str | None, transport: str, invitation: str, light: bool) -> None:
    from antiphon.apps.chat.lobby import Lobby
    from antiphon.apps.chat.screen import ChatApp

    async with node:
        lobby = Lobby(node)
        where = f"{node.name} at {transport} {node.address}"
        app = ChatApp(lobby, group, where=where, invitation=f"{invitation} --seed {node.address}", light=light)
        _on_signals(app.exit)
        try:
            await app.run_async()
        finally:
            await lobby.close()


def _on_signals(end: Callable[[], object]) -> None:
    """Asked to go, it leaves its groups and gives the terminal back as it was."""
    for name in ("SIGTERM", "SIGHUP"):
        with suppress(AttributeError, NotImplementedError):  # Windows has neither
            asyncio.get_running_loop().add_signal_handler(getattr(signal, name), end)


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        raise refused("--name", "", "nobody is logged in: give a name, for example --name ana") from None


def _print(line: str) -> None:
    print(line, flush=True)
