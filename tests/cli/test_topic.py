"""`antiphon topic` and `antiphon store`: what they print, what they keep, and the sentence for everything that cannot be."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import antiphon.sync
from antiphon.cli.main import OK, UNUSABLE, main
from antiphon.store import StoreSettings

PROGRAM = [sys.executable, "-c", "import sys; from antiphon.cli.main import main; sys.exit(main())"]


def called(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    return subprocess.run([*PROGRAM, *words], input=given, capture_output=True, text=True, timeout=90, check=False)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:{tmp_path / 'field.db'}"
    monkeypatch.setenv("ANTIPHON_STORE", url)
    return url


def said(capfdbinary: pytest.CaptureFixture[bytes], *words: str, code: int = OK) -> str:
    assert main(["topic", *words]) == code
    out, err = capfdbinary.readouterr()
    return (out if code == OK else err).decode()


def told(capfdbinary: pytest.CaptureFixture[bytes], *words: str) -> Any:
    return json.loads(said(capfdbinary, *words, "--json"))


@pytest.mark.usefixtures("store")
def test_a_reader_goes_on_where_it_left_off(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A script that is run every hour would print everything again, or miss what came meanwhile."""
    assert told(capfdbinary, "publish", "crash", "two cars", "a bike")["last"] == 2
    assert said(capfdbinary, "subscribe", "crash", "--id", "ambulance", "--limit", "1") == "two cars\n"
    assert said(capfdbinary, "subscribe", "crash", "--id", "ambulance", "--peek") == "a bike\n"
    assert said(capfdbinary, "subscribe", "crash", "--id", "ambulance") == "a bike\n"
    assert said(capfdbinary, "subscribe", "crash", "--id", "ambulance") == ""
    assert said(capfdbinary, "subscribe", "crash", "--id", "fire", "--start", "1") == "a bike\n"


def test_peeking_does_not_disturb_a_live_reader(store: str) -> None:
    """Somebody who debugs a reader in production would end it."""
    peek = ("topic", "subscribe", "crash", "--store", store, "--peek", "--id")
    with antiphon.sync.open_store(store, name="hotline") as opened:
        crash = opened.topic("crash")
        crash.publish_many([b"one", b"two", b"three", b"four"])
        reader = crash.subscribe(3600.0, id="ambulance")
        assert reader.read(20).data == b"one"
        reader.done(1)
        reader.done_one([3])
        for _ in range(2):
            peeked = called(*peek, "ambulance")
            assert (peeked.returncode, peeked.stdout) == (OK, "two\nfour\n"), "from its position, without what it has marked done"
        assert reader.read(20).data == b"two"
        reader.done(2)  # it was not fenced
        assert called(*peek, "ambulance", "--start", "0", "--limit", "1").stdout == "one\n"
        assert called(*peek, "nobody").stdout == "one\ntwo\nthree\nfour\n"
        refused = called(*peek, "ambulance", "--lease", "1s")
        assert refused.returncode == UNUSABLE
        assert "leave --lease out" in refused.stderr
        # The reader goes on, with the position that it had, and nobody has become a subscriber.
        assert reader.read(20).data == b"four"
        reader.done(4)
        assert [(one.id, one.position, one.epoch) for one in crash.subscribers()] == [("ambulance", 4, 1)]


def test_who_keeps_a_topic_is_told(store: str) -> None:
    """An operator whose disk fills up would see that nothing is collected, and not why."""
    with antiphon.sync.open_store(store, name="unit 7", settings=StoreSettings(collect_s=0)) as opened:
        for topic in ("crash", "fire"):
            opened.topic(topic).register(retention_s=0.0)
            opened.topic(topic).publish_many([b"one", b"two"])
        reader = opened.topic("crash").subscribe(3600.0, id="ambulance")
        reader.read(20)
        opened.collect()
        report = json.loads(called("topic", "gc", "--store", store, "--json").stdout)
        assert report["collected"]["fire"]["floor"] == 2, "whoever reads another topic holds nothing"
        assert report["held"]["fire"] == []
        (hold,) = report["held"]["crash"]
        assert (hold["kind"], hold["id"], hold["node"], hold["first"]) == ("subscriber", "ambulance", "unit 7", 1)
        assert hold["until"] - hold["since"] == 3600 * 10**9
        assert hold["since"] <= report["time"] <= hold["until"]
        words = called("topic", "gc", "--store", store).stdout
        assert "kept from number 1 on for subscriber ambulance, read and not confirmed at node unit 7: published " in words


@pytest.mark.usefixtures("store")
def test_a_command_without_stdin_ends() -> None:
    """A job that is started without a stdin would publish nothing and wait for ever, or crash with the store's file as its stdin."""
    for words in (["topic", "publish", "crash"], ["topic", "publish", "crash", "two cars"], ["topic", "list"]):
        command = subprocess.run(
            ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, *words], capture_output=True, text=True, timeout=90, check=False
        )
        if words[1:] == ["publish", "crash"]:
            assert command.returncode == UNUSABLE
            assert "there is no stdin" in command.stderr
        else:
            assert (command.returncode, command.stderr) == (OK, "")


@pytest.mark.usefixtures("store")
def test_what_all_are_done_with_is_collected_and_shown(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """An operator could not see who keeps the store from getting smaller."""
    told(capfdbinary, "publish", "crash", "a", "b", "c")
    said(capfdbinary, "subscribe", "crash", "--id", "quick", "--lease", "2h")
    said(capfdbinary, "subscribe", "crash", "--id", "slow", "--limit", "1")
    lags = {one["id"]: one["lag"] for one in told(capfdbinary, "info", "crash")["subscribers"]}
    assert lags == {"quick": 0, "slow": 2}
    assert told(capfdbinary, "gc")["collected"] == {"crash": {"floor": 1, "removed": 1}}
    assert [(topic["name"], topic["floor"], topic["values"]) for topic in told(capfdbinary, "list")["topics"]] == [("crash", 1, 2)]
    assert "slow" in said(capfdbinary, "info", "crash")
    assert "crash" in said(capfdbinary, "list")


@pytest.mark.usefixtures("store")
def test_a_late_reader_is_told_what_is_gone(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Somebody who reads from the beginning would not know that there was more."""
    told(capfdbinary, "publish", "crash", "a", "b")
    said(capfdbinary, "subscribe", "crash", "--id", "first")
    told(capfdbinary, "gc")
    told(capfdbinary, "publish", "crash", "c")
    lines = [json.loads(line) for line in said(capfdbinary, "subscribe", "crash", "--id", "first", "--json").splitlines()]
    assert [line["data"] for line in lines] == ["c"], "it has had the others"
    late = [json.loads(line) for line in said(capfdbinary, "subscribe", "crash", "--id", "late", "--start", "0", "--json").splitlines()]
    assert late[0] == {"gap": {"first": 1, "last": 2, "why": "collected"}}
    assert [line["data"] for line in late[1:]] == ["c"]


@pytest.mark.usefixtures("store")
def test_lines_of_stdin_are_published_in_order() -> None:
    """A log that is piped into a topic would come out shuffled or short."""
    lines = "".join(f"line {number}\n" for number in range(3_000))
    called("topic", "publish", "log", given=lines)
    assert called("topic", "subscribe", "log").stdout == lines


def test_lines_are_published_as_they_come(store: str) -> None:
    """What a program says once an hour would be in the topic when it has said a thousand things; and be lost with it before."""
    with subprocess.Popen([*PROGRAM, "topic", "publish", "log"], stdin=subprocess.PIPE) as publishing:
        assert publishing.stdin is not None
        for line in ("first", "second"):
            publishing.stdin.write(f"{line}\r\n".encode())
            publishing.stdin.flush()
            come = called("topic", "subscribe", "log", "--follow", "--limit", "1")
            assert come.stdout == f"{line}\n"
        publishing.stdin.write(b"without an end")
    assert publishing.returncode == OK
    assert called("topic", "subscribe", "log", "--store", store).stdout == "without an end\n"


@pytest.mark.usefixtures("store")
def test_a_line_that_is_too_long_is_refused_and_not_cut() -> None:
    """A large document would be in the topic as two halves, of which nobody knows that they belong together."""
    assert called("topic", "publish", "log", given=f"{'x' * (1 << 20)}\n").returncode == OK
    refused = called("topic", "publish", "log", given=f"before\n{'x' * (18 << 20)}\nafter\n")
    assert refused.returncode == UNUSABLE
    assert "may have 16,777,216" in refused.stderr
    assert [len(line) for line in called("topic", "subscribe", "log").stdout.splitlines()] == [1 << 20, len("before")]


def test_while_stdin_is_silent_the_command_can_be_ended(tmp_path: Path) -> None:
    """Ctrl-C would not be heard, or leave a process that nobody sees."""
    out = f"sqlite:{tmp_path / 'field.db'}"
    with subprocess.Popen(
        [*PROGRAM, "topic", "publish", "log", "--store", out], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as publishing:
        assert publishing.stdin is not None
        publishing.stdin.write(b"a\n")
        publishing.stdin.flush()
        assert called("topic", "subscribe", "log", "--follow", "--limit", "1", "--store", out).stdout == "a\n"
        publishing.send_signal(signal.SIGINT)
        _, said = publishing.communicate(timeout=60)
    assert publishing.returncode != OK
    assert b"Traceback" not in said
    assert b"Fatal" not in said


@pytest.mark.usefixtures("store")
def test_mutable_and_shared_topics(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A topic made from the command line could only be of one kind."""
    told(capfdbinary, "publish", "units", "free", "--mutable", "--key", "car 1")
    told(capfdbinary, "publish", "units", "busy", "--key", "car 1")
    assert said(capfdbinary, "subscribe", "units") == "busy\n"
    told(capfdbinary, "publish", "log", "a", "--shared", "--as", "ana")
    told(capfdbinary, "publish", "log", "b", "--as", "ben")
    assert said(capfdbinary, "subscribe", "log") == "a\nb\n"


@pytest.mark.usefixtures("store")
def test_another_publisher_is_refused_unless_it_takes_over(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Two scripts would write to one topic without knowing of each other."""
    told(capfdbinary, "publish", "crash", "a", "--as", "hotline")
    assert "--takeover" in said(capfdbinary, "publish", "crash", "b", "--as", "prank", code=UNUSABLE)
    assert told(capfdbinary, "publish", "crash", "b", "--as", "prank", "--takeover")["last"] == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("info", "nothing"), "no such topic"),
        (("gc", "nothing"), "no such topic"),
        (("subscribe", "crash", "--lease=-3s"), "a lease is an age"),
        (("subscribe", "crash", "--lease", "soon"), "90s, 30m"),
        (("subscribe", "crash", "--lease", "900000d"), "a hundred years"),
        (("subscribe", "crash", "--start", "middle"), "earliest"),
        (("list", "--store", "sqlite:{tmp}/small.db?max_bytes=40000"), "give it"),
        (("list", "--store", "oracle://db"), "sqlite:PATH"),
        (("list", "--store", "sqlite:{tmp}/none/x.db"), "directory"),
        (("list", "--store", "sqlite:{tmp}"), "cannot be used as a store"),
        (("list", "--store", "sqlite:{tmp}/noise.db"), "cannot be used as a store"),
        (("list", "--store", "sqlite:{tmp}/foreign.db"), "cannot be used as a store"),
        (("publish", " crash", "x"), "no spaces around it"),
    ],
)
def test_what_cannot_be_is_said_in_one_sentence(
    words: tuple[str, ...], sentence: str, store: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A typo would end in a traceback, or in an empty answer."""
    (tmp_path / "noise.db").write_bytes(os.urandom(8_192))
    with sqlite3.connect(tmp_path / "foreign.db") as foreign:
        foreign.execute("create table recipes (name text)")
    foreign.close()
    said(capfdbinary, "publish", "crash", "two cars")
    words = tuple(word.replace("{tmp}", str(tmp_path)) for word in words)
    complaint = said(capfdbinary, *words, code=UNUSABLE)
    assert sentence in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("words", [("list",), ("info", "crash"), ("gc",), ("subscribe", "crash")])
def test_looking_at_a_mistyped_address_makes_no_store(
    words: tuple[str, ...], store: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """An empty file would lie where somebody looks for the store."""
    complaint = said(capfdbinary, *words, code=UNUSABLE)
    assert f"{store} cannot be used as a store: there is no such file" in complaint
    assert complaint.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_who_follows_may_come_before_anybody_has_published(store: str, tmp_path: Path) -> None:
    """The order in which two programs are started would matter; or a reader would make the store, also where its name is mistyped."""
    with subprocess.Popen(
        [*PROGRAM, "topic", "subscribe", "crash", "--follow", "--limit", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        assert following.stderr is not None
        assert following.stderr.readline() == f"{store} is not there yet: waiting for somebody to publish there\n"
        assert list(tmp_path.iterdir()) == []
        assert called("topic", "publish", "crash", "two cars").returncode == OK
        assert following.communicate(timeout=90) == ("two cars\n", "")


def test_a_full_store_says_so_and_keeps_what_it_has(tmp_path: Path) -> None:
    """A disk that is full would look like a bug, or lose what was acknowledged."""
    small = f"sqlite:{tmp_path / 'small.db'}?max_bytes=1048576"
    assert called("topic", "publish", "log", "first", "--store", small).returncode == OK
    full = called("topic", "publish", "log", "--store", small, given="".join(f"{'x' * 60_000}\n" for _ in range(30)))
    assert full.returncode == UNUSABLE
    assert "is full" in full.stderr
    assert called("topic", "subscribe", "log", "--limit", "1", "--store", small).stdout == "first\n"


def test_a_local_server_serves_until_it_is_stopped(tmp_path: Path) -> None:
    """Whoever tries JetStream would have to install and configure a server first, or be left with one that runs for ever."""
    pytest.importorskip("nats", reason="nats-py is not installed: pip install 'antiphon[nats]'")
    command = [*PROGRAM, "store", "serve", "--port", "0", "--directory", str(tmp_path / "js"), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        text = ""
        while not text.endswith("}\n") or text.count("{") != text.count("}"):
            line = serving.stdout.readline()
            assert line, "it ended early"
            text += line
        about = json.loads(text)
        called("topic", "publish", "crash", "a", "--store", about["url"])
        assert called("topic", "subscribe", "crash", "--store", about["url"]).stdout == "a\n"
        serving.send_signal(signal.SIGTERM)
        serving.wait(timeout=60)
    gone = called("topic", "list", "--store", about["url"])
    assert gone.returncode == UNUSABLE
    assert "does not answer" in gone.stderr
