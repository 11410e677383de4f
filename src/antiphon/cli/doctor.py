"""`antiphon doctor`: what this machine lacks, and what to do about it."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from antiphon.cli import arguments, terminal
from antiphon.cli.diagnosis import FAIL, OK, WARN, Finding, findings
from antiphon.cli.main import BROKEN
from antiphon.cli.reachability import reach
from antiphon.errors import AntiphonError
from antiphon.runtime.configuration import TRANSPORTS
from antiphon.runtime.security import PreSharedKey
from antiphon.runtime.transports.contract import host_and_port

app = typer.Typer(help="Find out what keeps a node from running here, or from reaching others; make a key.", invoke_without_command=True)
_STYLES = {OK: "green", WARN: "yellow", FAIL: "bold red"}
_KEY_BYTES = 32


@app.callback()
def doctor(
    context: typer.Context,
    transport: Annotated[
        str, typer.Option(metavar="NAME", help="udp or tcp: what the node will use.", autocompletion=lambda: list(TRANSPORTS))
    ] = "udp",
    bind: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where the node will listen: is it free?")] = "127.0.0.1:0",
    seed: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="Does a node answer there? Repeat it for several.")
    ] = None,
    key_file: Annotated[Path | None, typer.Option(metavar="FILE", help="Is this a good key?")] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long a seed may take to answer.")] = 3.0,
    no_multicast: Annotated[bool, typer.Option("--no-multicast", metavar="", help="Do not try to join the multicast group.")] = False,
    json: arguments.Json = False,
) -> None:
    """Check this machine: versions, ports, multicast, limits, the clock, a key, and whether seeds answer.

    Each finding is ok, warn (it works, but) or fail (it will not), with what to do next. Leaves with 1 when one of them is fail."""
    if context.invoked_subcommand is not None:
        return
    if transport not in TRANSPORTS:
        raise arguments.refused("--transport", transport, f"choose {' or '.join(TRANSPORTS)}")
    if not 0 < timeout <= 60:
        raise arguments.refused("--timeout", timeout, "choose from above 0 to 60 seconds")
    for address, flag in ((bind, "--bind"), *((address, "--seed") for address in seed or ())):
        host_and_port(address, flag)
    found = list(findings(transport, bind, key_file, not no_multicast))
    if seed:
        found += asyncio.run(_reach(seed, transport, key_file, timeout))
    is_well = all(finding.status != FAIL for finding in found)
    if json:
        terminal.print_json({"ok": is_well, "findings": found})
    else:
        for finding in found:
            _tell(finding)
    if not is_well:
        raise typer.Exit(BROKEN)


@app.command()
def key(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to this new file, readable by you alone.")] = None,
    json: arguments.Json = False,
) -> None:
    """Make a key for all nodes to share: 256 random bits. Without --out it is printed.

    Copy it to every node by a way that nobody else can read, and name it with --key-file. The fingerprint may be told to anybody: nodes
    with the same one have the same key."""
    secret = secrets.token_urlsafe(_KEY_BYTES)
    fingerprint = PreSharedKey(secret).fingerprint
    if out is None:
        if json:
            terminal.print_json({"key": secret, "fingerprint": fingerprint})
        else:
            typer.echo(secret)
        return
    try:
        # Exclusive, and closed to others from the start: a key must neither replace another nor be read before it is closed.
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secret + "\n")
    except FileExistsError:
        raise arguments.refused("--out", str(out), "it exists, and a key is never overwritten; name another file") from None
    if json:
        terminal.print_json({"file": str(out), "fingerprint": fingerprint})
    else:
        terminal.out.print(f"{out}: a new key with the fingerprint {fingerprint}", markup=False, soft_wrap=True)


async def _reach(seeds: list[str], transport: str, key_file: Path | None, timeout: float) -> list[Finding]:
    try:
        credentials = None if key_file is None else PreSharedKey.from_file(key_file)
    except AntiphonError:
        return [Finding(f"seed {seed}", FAIL, "was not asked, for want of the key", "see the finding about the key") for seed in seeds]
    return list(await asyncio.gather(*(reach(seed, transport, credentials, timeout) for seed in seeds)))


def _tell(finding: Finding) -> None:
    line = Text.assemble((f"{finding.status:<5}", _STYLES[finding.status]), (f"{finding.check}: ", "bold"), finding.says)
    if finding.next:
        line.append(f"\n     → {finding.next}", style="dim" if finding.status == OK else "")
    terminal.out.print(line, soft_wrap=True)
