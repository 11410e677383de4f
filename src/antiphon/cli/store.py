"""`antiphon store`: a JetStream server, or a cluster of three, on this machine, for development."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli import arguments, terminal

_LOOK_S = 0.2

app = typer.Typer(help="Stores for durable topics. A file needs no server: use sqlite:PATH.", no_args_is_help=True)


@app.command()
def serve(
    servers: Annotated[int, typer.Option(metavar="COUNT", help="1, or 3 for a cluster that survives the loss of one.")] = 1,
    directory: Annotated[Path, typer.Option(metavar="DIRECTORY", help="Where they keep what they are given.")] = Path("antiphon-store"),
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65_533, help="The first server's port; the others follow. 0: free ones.")
    ] = 4222,
    json: arguments.Json = False,
) -> None:
    """Start NATS servers with JetStream from the wheel, on the loopback interface, and print the address of the store.

    They sync every write before they acknowledge it. What they keep is in the directory, and is there again the next time. A server that
    ends by itself is started again, after a pause that grows from half a second to 30 s while it keeps ending; the others go on meanwhile.
    Each such event is a line on stderr. Ctrl-C or SIGTERM ends all. For development: everybody on this machine may use them."""
    from antiphon.store.jetstream.server import LocalServers
    from antiphon.store.jetstream.supervisor import ServerSupervisor

    if servers not in (1, 3):
        raise arguments.refused("--servers", servers, "one server, or a cluster of three")
    ports = tuple(range(port, port + servers)) if port else ()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with LocalServers(servers, directory, ports) as running:
        if json:
            terminal.print_json({"url": running.url, "directory": str(running.directory), "processes": running.processes})
        else:
            terminal.out.print(f"{running.url}", style="bold", markup=False, soft_wrap=True)
            advice = f"in {directory}; give it to others as --store, or as ANTIPHON_STORE. Ctrl-C ends it."
            terminal.out.print(advice, markup=False, soft_wrap=True)
        terminal.out.file.flush()
        supervisor = ServerSupervisor(running, time.monotonic(), _report)
        while True:
            time.sleep(_LOOK_S)
            supervisor.tick(time.monotonic())


def _report(event: str) -> None:
    terminal.err.print(f"{time.strftime('%H:%M:%S')} {event}", markup=False, soft_wrap=True)
