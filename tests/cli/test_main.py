"""The door: exit codes, and one sentence for whatever cannot be done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon import __version__
from antiphon.cli.main import BROKEN, OK, UNUSABLE, main

GOOD = """group semantic reliable members A B seed 7
A sends q1 "Did you visit Delhi?"
settle
expect B delivered q1
check
> every promise is kept
"""

FILES = {
    "taken": "",
    "empty.py": "x = 1\n",
    "raises.py": "x = 1\nraise ValueError('on purpose')\n",
    "leaves.py": "raise SystemExit('go away')\n",
    "garbled.py": "x = 1\n\nx = = 2\n",
    "late.py": "def register():\n    1 / 0\n",
}


def test_help_and_version_are_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody who only looks around would be told that something went wrong."""
    assert main([]) == OK
    assert "demo" in capsys.readouterr().out
    assert main(["--help"]) == OK
    assert "leaves with 0" in capsys.readouterr().out
    assert main(["-h"]) == OK
    assert "antiphon demo" in capsys.readouterr().out
    assert main(["--version"]) == OK
    assert capsys.readouterr().out == f"antiphon {__version__}\n"


@pytest.mark.parametrize(("noun", "verb"), [("sim", "swarm"), ("bench", "core")])
def test_a_noun_alone_shows_its_verbs(noun: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody who feels the way forward word by word would be told off with an empty sentence."""
    assert main([noun]) == OK
    told = capsys.readouterr()
    assert verb in told.out
    assert told.err == ""


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("no-such-noun", "No such command"),
        ("sim no-such-verb", "No such command"),
        ("sim swarm --seeds 5:1", "the end must be above the first"),
        ("sim swarm --seeds x", "0:200"),
        ("sim swram", "Did you mean 'swarm'? See antiphon sim --help"),
        ("sim swarm --seeds 0:1 --order random", "choose one of unordered, fifo"),
        ("sim swarm --seeds 0:1 --order random", "--load FILE"),
        ("sim swarm --seeds 0:1 --load missing.py", "there is no such file"),
        ("sim swarm --seeds 0:1 --load .", "it is not a file"),
        ("sim swarm --seeds 0:1 --load taken", "end the file's name in .py"),
        ("sim swarm --seeds 0:1 --load empty.py", "empty.py has no function register()"),
        ("sim swarm --seeds 0:1 --load raises.py", "raises.py:2: raises ValueError: on purpose"),
        ("sim swarm --seeds 0:1 --load leaves.py", "leaves.py:1: raises SystemExit"),
        ("sim swarm --seeds 0:1 --load garbled.py", "garbled.py:3: is not Python"),
        ("sim swarm --seeds 0:1 --load late.py", "late.py:2: raises ZeroDivisionError"),
        ("sim swarm --seeds 0:1 --multicast carrier-pigeon", "choose one of besteffort"),
        ("sim swarm --seeds 0:1 --order total --multicast besteffort --delivery agreed", "use reliable, flood or tree"),
        ("sim swarm --seeds 0:1 --order unordered --multicast besteffort --delivery safe", "besteffort does not know who holds"),
        ("sim swarm --seeds 0:1 --multicast besteffort", "--order semantic"),
        ("sim swarm --seeds 0:1 --delivery tomorrow", "agreed"),
        ("sim swarm --seeds 0:1 --faults rain", "choose from loss"),
        ("sim swarm --seeds 0:1 --members 1", "members"),
        ("sim swarm --seeds 0:1 --members many", "--members"),
        ("sim swarm --seeds 0:1 --jobs -1", "--jobs"),
        ("sim swarm --seeds 0:1 --umbrella", "--umbrella"),
        ("sim compare --loss 1.5", "loss"),
        ("sim compare --loss nan", "loss"),
        ("sim compare --rate 0", "rate"),
        ("sim compare --rate inf", "rate"),
        ("sim compare --members 1", "members"),
        ("sim compare --limit 0", "limit"),
        ("sim compare --unread shout", "unread"),
        ("sim compare --multicast besteffort", "use reliable, flood or tree"),
        ("sim compare --delay 200ms:20ms", "20ms:200ms"),
        ("sim compare --conversation missing.jsonl", "there is no such file"),
        ("sim compare --plot picture.gif", ".svg or .png"),
        ("sim compare --plot nowhere/picture.svg", "create it first"),
        ("sim run missing.txt", "there is no such file"),
        ("sim run", "SCENARIO"),
        ("demo --out taken", "name a directory"),
        ("bench semantic --small 9 --large 5", "more messages than the small one"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(
    line: str, hint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typing mistake would end in a traceback, or in a run of something that nobody asked for."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    assert main(line.split()) == UNUSABLE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("antiphon: ")
    assert told.err.count("\n") == 1
    assert hint in told.err


def test_a_conversation_that_is_not_one_is_refused_with_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Somebody with one bad line in a million would have to look for it."""
    file = tmp_path / "chat.jsonl"
    file.write_text('{"id": "1", "author": "a", "parents": [], "text": "hello"}\nnot json\n')
    assert main(["sim", "compare", "--conversation", str(file)]) == UNUSABLE
    assert "chat.jsonl:2" in capsys.readouterr().err


def test_a_scenario_leaves_with_what_it_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A broken scenario would pass in a build."""
    file = tmp_path / "story.txt"
    file.write_text(GOOD)
    assert main(["sim", "run", str(file)]) == OK
    assert "as expected" in capsys.readouterr().out

    file.write_text(GOOD.replace("> every promise is kept", "> something else"))
    assert main(["sim", "run", str(file), "--json"]) == BROKEN
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert any("every promise is kept" in line for line in told["differences"])
    assert main(["sim", "run", str(file)]) == BROKEN
    assert "--rewrite" in capsys.readouterr().out

    assert main(["sim", "run", str(file), "--rewrite"]) == OK
    assert file.read_text() == GOOD

    file.write_text("group semantic reliable members A B\nA flies\n")
    assert main(["sim", "run", str(file)]) == UNUSABLE
    assert "story.txt:2" in capsys.readouterr().err


def test_a_missing_extra_is_named_with_its_command() -> None:
    """Somebody who installed plain `antiphon` would see a traceback of imports instead of what to install."""
    program = "import sys; sys.modules['typer'] = None; from antiphon.cli.main import main; sys.exit(main(['demo']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == UNUSABLE
    assert done.stderr == "antiphon: this needs the package typer, which is not installed: pip install 'antiphon[cli]'\n"


def test_an_interrupt_is_no_crash(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody who stops a long campaign would be shown a traceback and doubt that it can be resumed."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("antiphon.cli.swarms.work", interrupted)
    assert main(["sim", "swarm", "--seeds", "0:1"]) == 130
    assert capsys.readouterr().err == "antiphon: interrupted\n"
    assert main(["sim", "swarm", "--seeds", "0:1", "--resume", "campaign.jsonl"]) == 130
    assert "in campaign.jsonl: the same command goes on" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`antiphon … | head -1` would end in a complaint about a broken pipe."""
    command = (
        f"{sys.executable} -c 'import sys; from antiphon.cli.main import main; sys.exit(main())' sim compare --limit 5 --json | head -1"
    )
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell: str) -> None:
    """The promised completion would be missing."""
    environment = {"_ANTIPHON_COMPLETE": f"source_{shell}", "PATH": ""}
    program = "import sys; from antiphon.cli.main import main; sys.exit(main([]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert "_ANTIPHON_COMPLETE" in done.stdout, done.stderr
