"""A node's configuration file: what it says, and the sentence for what it cannot say."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from antiphon.errors import BadFile, InvalidOption
from antiphon.model.options import GroupOptions, Settings
from antiphon.runtime.configuration import EXAMPLE, Membership, NodeConfiguration
from antiphon.runtime.configuration_file import read

KEY = "a9v2Kq0zT7mXbN4cR8wLpJ6hYdE1sGfU"


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "node.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_the_example_can_be_run_as_it_is(tmp_path: Path) -> None:
    """The first thing that a newcomer tries would be refused."""
    configuration = read(written(tmp_path, EXAMPLE))
    assert (configuration.name, configuration.transport) == ("ana", "udp")
    assert configuration.groups["trip"].options() == {
        **{field: getattr(GroupOptions(), field) for field in GroupOptions.__struct_fields__},
        "order": "semantic",
    }
    assert configuration.settings == Settings()


def test_the_example_says_what_safe_delivery_is() -> None:
    """Somebody would choose it for a promise that it does not make: that every member has a message before any reads it."""
    (line,) = re.findall(r"^# delivery = .*$", EXAMPLE, flags=re.MULTILINE)
    assert "majority" in line
    assert "every" not in line


def test_everything_in_the_example_that_is_commented_out_exists(tmp_path: Path) -> None:
    """Somebody who takes away a # would be told that there is no such key, or would change something by it."""
    every = re.sub(r"^# (?=\w+ = )", "", EXAMPLE, flags=re.MULTILINE)
    with pytest.raises(BadFile, match="only a group with partitions='majority' waits for its founders"):
        read(written(tmp_path, every))
    assert read(written(tmp_path, '[groups.trip]\npartitions = "majority"\nexpect = 3')).groups["trip"].founders == 3
    every = re.sub(r"^expect.*$", "", every, flags=re.MULTILINE)
    with pytest.raises(BadFile, match="a key or a certificate"):
        read(written(tmp_path, every))
    configuration = read(written(tmp_path, re.sub(r"^key_file.*$", "", every, flags=re.MULTILINE)))
    assert configuration.settings == Settings(), "what is commented out shows the default"
    assert configuration.groups["trip"] == Membership(order="semantic")
    assert configuration.security.groups == {"board": str(tmp_path / "board.key")}
    assert (configuration.seeds, configuration.metrics, configuration.interface) == (("192.168.1.7:4040",), "9464", "eth0")
    known = set(NodeConfiguration.__struct_fields__)
    assert {key for key in known if not re.search(rf"^\[?{key}\b", every, re.MULTILINE)} == set(), "everything is in the example"


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("name = 3", 1, "name: Expected `str`, got `int`"),
        ('\n\nnmae = "ana"', 3, "nmae: there is no such key; did you mean name?"),
        ('colour = "red"', 1, "there are name, transport"),
        ('name = "ana', 1, "it is not TOML"),
        ('name = "ana"\nname = "ben"', 2, "it is not TOML"),
        ('transport = "pigeon"', 1, "transport = 'pigeon': choose udp or tcp"),
        ('seeds = "one:1"', 1, "seeds: Expected `array`"),
        ('seeds = [\n  1]', 1, "seeds: Expected `str`"),
        ('transport = "tcp"\ninterface = "eth0"', 2, "where to multicast"),
        ('[groups.trip]\norder = "totl"', 2, "groups.trip.order = 'totl': choose one of unordered"),
        ('[groups.trip]\n\nordr = "total"', 3, "did you mean order?"),
        ('[groups."a trip"]\nwindow = "9"', 2, "groups.a trip.window: Expected `int`"),
        ('groups.trip.window = 0', 1, "groups.trip.window = 0"),
        ('[groups.a]\norder = "fifo"\n[groups.b]\norder = "causal"\nmulticast = "besteffort"', 4, "use reliable"),
        ('[groups.trip]\nhistory = "some"', 2, "last 100"),
        ('[groups.trip]\npartitions = "majority"', 1, "write the number of nodes that found it, or a list of their names"),
        ('[groups.trip]\npartitions = "majority"\nexpect = ["ana", "ana"]', 3, "the name of each founder once"),
        ('[groups.trip]\npartitions = "majority"\nexpect = "ana"', 3, "groups.trip.expect: Expected `int | array`"),
        ('[groups.trip]\nhistory = "last 0"', 2, "last 100"),
        ('store = "sqlite:a.db"\n[groups.trip]\non = "moon"', 3, "groups.trip.on = 'moon': choose network, or store"),
        ('store = "sqlite:a.db"\n[groups.trip]\non = "store"\norder = "causal"', 4, "the order of the store"),
        ('store = "sqlite:a.db"\n[groups.trip]\non = "store"\nsilence_s = 0', 4, "a number of seconds above 0"),
        ('[groups.trip]\nhistory_in = "memory"', 2, "choose 'store'"),
        ('name = "ana"\n[groups.trip]\non = "store"', 1, "the group trip needs one: say which"),
        ('name = "ana"\n[groups.trip]\nhistory_in = "store"', 1, "the group trip needs one: say which"),
        ('outbox = "out.db"', 1, "it keeps what a store does not take"),
        ("store = 3", 1, "store: Expected `str`"),
        ("[groups]\ntrip = 1", 2, "groups.trip: Expected `object`"),
        ("groups = 1", 1, "groups: Expected `object`"),
        ("[settings]\nheartbeat_s = -1", 2, "settings.heartbeat_s = -1.0: must be above zero"),
        ("[settings]\nheartbeats_s = 1", 2, "did you mean heartbeat_s?"),
        ('[security]\ncertificate = "a.pem"', 1, "a certificate needs all of"),
        ("[security.groups]\nboard = 3", 1, "security.groups: Expected `str`"),
        ('[log]\nlevel = "loud"', 2, "log.level = 'loud': choose one of DEBUG"),
        ("[log]\njson = 1", 2, "log.json: Expected `bool`"),
        (b"name = '\xff'", 1, "not UTF-8"),
        (b"#" * 2_000_000, 1, "no configuration"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(tmp_path: Path, text: str | bytes, line: int, complaint: str) -> None:
    """Somebody with one wrong word in a file would have to guess which, or the node would ignore it and do something else."""
    file = written(tmp_path, text)
    with pytest.raises(BadFile) as caught:
        read(file)
    assert (caught.value.file, caught.value.line) == (str(file), line), caught.value
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named_with_what_to_do(tmp_path: Path) -> None:
    """The first try would end in a traceback."""
    with pytest.raises(BadFile, match="antiphon node config"):
        read(tmp_path / "missing.toml")


def test_a_store_in_a_file_is_beside_the_configuration(tmp_path: Path) -> None:
    """Two nodes started from different folders would have a store each, and never meet."""
    text = 'name = "ana"\ntransport = "tcp"\nbind = "127.0.0.1:0"\nstore = "sqlite:field.db"\noutbox = "out.db"\n'
    configuration = read(written(tmp_path, text + '[groups.root]\non = "store"\nsilence_s = 4.0\nretention_s = 60.0'))
    assert (configuration.store, configuration.outbox) == (f"sqlite:{tmp_path / 'field.db'}", str(tmp_path / "out.db"))
    assert configuration.groups["root"].options() == {"on": "store", "silence_s": 4.0, "retention_s": 60.0}
    for address in ("nats://127.0.0.1:4222", "memory:", "sqlite:/var/field.db"):
        assert read(written(tmp_path, f'store = "{address}"')).store == address

    async def story() -> None:
        async with configuration.node() as node:
            group = await node.join("root", create=True, **configuration.groups["root"].options())
            await group.send(b"kept")
            info = await node.topic(f"group/{group.id}").info()
            assert info.options.retention_s == 60.0
        assert (tmp_path / "field.db").exists()
        assert (tmp_path / "out.db").exists()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_node_is_made_as_the_file_says(tmp_path: Path) -> None:
    """The file would be read and then forgotten."""
    (tmp_path / "node.key").write_text(KEY)
    (tmp_path / "board.key").write_text(KEY[::-1])
    file = written(
        tmp_path,
        """
        name = "ana"
        transport = "tcp"
        bind = "127.0.0.1:0"
        metrics = "0"
        security = { key_file = "node.key", groups = { board = "board.key" } }
        settings = { heartbeat_s = 0.5 }
        groups.trip = { order = "total", history = "last 5" }
        """,
    )

    async def story() -> None:
        configuration = read(file)
        async with configuration.node() as node:
            assert (node.name, node.settings.heartbeat_s) == ("ana", 0.5)
            assert str(node.metrics_address).startswith("127.0.0.1:")
            transport = node.stats()["transport"]
            assert isinstance(transport, dict)
            assert (transport["kind"], "security" in transport) == ("tcp", True)
            assert configuration.groups["trip"].wanted() == ("last", 5)
            wanted = configuration.groups["trip"]
            group = await node.join("trip", create=True, history=wanted.wanted(), timeout=20, **wanted.options())
            assert group.options.order == "total"

    asyncio.run(story())


def test_a_node_without_a_name_is_refused() -> None:
    """Nodes would meet that cannot be told apart."""
    with pytest.raises(InvalidOption, match="--name"):
        NodeConfiguration().node()
