"""`antiphon node`: run a node, from flags or from a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from antiphon.cli import arguments, terminal
from antiphon.errors import InvalidOption
from antiphon.protocol.registry import ORDERS
from antiphon.runtime.configuration import EXAMPLE, TRANSPORTS, Log, Membership, NodeConfiguration, Security

T = TypeVar("T")

app = typer.Typer(help="Run a node that is in groups: from flags, or from a TOML file.", no_args_is_help=True)


@app.command()
def run(
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file that says all of this; flags go before it.")] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="What the node is called.")] = "",
    transport: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="udp: nodes of a local network find each other by multicast; tcp: through seeds. Without it, udp.",
            autocompletion=lambda: list(TRANSPORTS),
        ),
    ] = "",
    bind: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 is any free one.")] = "",
    seed: Annotated[
        list[str] | None, typer.Option(metavar="HOST:PORT", help="A node to find others through. Repeat it for several.")
    ] = None,
    interface: Annotated[str, typer.Option(metavar="NAME", help="The network to multicast in, by its name or address.")] = "",
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:ORDER]",
            help=f"A group to be in; founded with that order ({', '.join(ORDERS)}) if nobody has; NAME:store for one on the store. "
            "Repeat it for several.",
        ),
    ] = None,
    store: Annotated[str, typer.Option(metavar="URL", help="Where its topics and groups on a store are, as sqlite:field.db.")] = "",
    outbox: Annotated[str, typer.Option(metavar="FILE", help="Keep here what is sent while the store does not answer.")] = "",
    trace: Annotated[str, typer.Option(metavar="DIR", help="Record what happens, in files in this directory.")] = "",
    directory: Annotated[str, typer.Option(metavar="DIR", help="Remember here, across restarts, who founded which group.")] = "",
    metrics: Annotated[str, typer.Option(metavar="PORT", help="Where Prometheus reads metrics: a port, or HOST:PORT.")] = "",
    key_file: Annotated[str, typer.Option(metavar="FILE", help="The key that all nodes share; see `antiphon doctor key`.")] = "",
    certificate: Annotated[str, typer.Option(metavar="FILE", help="The node's own certificate, as PEM.")] = "",
    private_key: Annotated[str, typer.Option(metavar="FILE", help="Its private key.")] = "",
    authority: Annotated[str, typer.Option(metavar="FILE", help="The authority that signs the nodes' certificates.")] = "",
    group_key: Annotated[
        list[str] | None, typer.Option(metavar="GROUP=FILE", help="A group with a key of its own. Repeat it for several.")
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json", metavar="", help="Logs as JSON lines.")] = False,
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")] = "",
    show: Annotated[bool, typer.Option("--print", metavar="", help="Print messages too, not only views.")] = False,
    send: Annotated[str, typer.Option(metavar="GROUP", help="Send each line of stdin to this group.")] = "",
    json: Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object per line instead of text for people.")] = False,
) -> None:
    """Run a node until it is told to stop (Ctrl-C or SIGTERM); then it leaves its groups.

    Prints who it is, and each view of its groups, to stdout; logs go to stderr. The end of stdin does not end it. A node that a group
    put out, or that could not get in, tries again with a growing pause."""
    from antiphon.cli.running import Running
    from antiphon.runtime import logs
    from antiphon.runtime.configuration_file import read
    from antiphon.runtime.run import run as run_coroutine

    given = NodeConfiguration() if config is None else read(config)
    changes: dict[str, Any] = {"name": name, "transport": transport, "bind": bind, "interface": interface, "metrics": metrics}
    changes |= {"store": store, "outbox": outbox, "trace": trace, "directory": directory}
    changes = {field: value for field, value in changes.items() if value}
    if seed:
        changes["seeds"] = tuple(seed)
    if group:
        changes["groups"] = {**given.groups, **dict(_membership(text, given) for text in group)}
    if log_json or log_level:
        changes["log"] = _with_flag("--log-level", Log, json=log_json or given.log.json, level=log_level.upper() or given.log.level)
    if key_file or certificate or private_key or authority or group_key:
        changes["security"] = _security(given.security, key_file, certificate, private_key, authority, group_key or [])
    configuration = _with_flag("", lambda **fields: msgspec.structs.replace(given, **fields), **changes)
    if not configuration.groups:
        raise arguments.refused("--group", "", "a node is in at least one group; for example --group trip:semantic")
    if send and send not in configuration.groups:
        raise arguments.refused("--send", send, f"the node is in {', '.join(configuration.groups)}")
    node = configuration.node()
    logs.configure(json=configuration.log.json, level=configuration.log.level)
    code = run_coroutine(Running(node, configuration.groups, show=show, send=send, json=json).until_stopped())
    raise typer.Exit(code)


@app.command("config")
def print_config() -> None:
    """Print a TOML file with everything in it, to begin with: antiphon node config > node.toml."""
    terminal.out.print(EXAMPLE, markup=False, soft_wrap=True, end="")


def _membership(text: str, given: NodeConfiguration) -> tuple[str, Membership]:
    name, mark, order = text.partition(":")
    if not name or (mark and order not in (*ORDERS, "store")):
        raise arguments.refused("--group", text, f"write NAME, NAME:store, or NAME:ORDER with an order of {', '.join(ORDERS)}")
    known = given.groups.get(name, Membership())
    said = {} if not order else {"on": "store"} if order == "store" else {"order": order}
    return name, _with_flag("--group", lambda **fields: msgspec.structs.replace(known, **fields), **said)


def _security(
    given: Security, key_file: str, certificate: str, private_key: str, authority: str, group_keys: list[str]
) -> Security:
    groups = dict(given.groups)
    for text in group_keys:
        group, mark, file = text.partition("=")
        if not group or not mark or not file:
            raise arguments.refused("--group-key", text, "write GROUP=FILE")
        groups[group] = file
    if key_file or certificate or private_key or authority:
        return _with_flag(
            "", Security, key_file=key_file, certificate=certificate, private_key=private_key, authority=authority, groups=groups
        )
    return msgspec.structs.replace(given, groups=groups)


def _with_flag(flag: str, make: Callable[..., T], **fields: Any) -> T:
    """Makes a part of the configuration; what it refuses is said of the flag it came from."""
    try:
        return make(**fields)
    except InvalidOption as error:
        raise arguments.refused(flag or f"--{error.option.replace('_', '-')}", error.value, error.why) from None
