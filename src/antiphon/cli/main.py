"""The door of the command line: runs a command and turns whatever happens into one sentence and an exit code.

| exit code | means                                                                              |
|-----------|------------------------------------------------------------------------------------|
| 0         | done, and every promise that was checked held                                      |
| 1         | a promise was broken, a group stalled, or a scenario came out differently          |
| 2         | the command cannot be run like this; the sentence on stderr says what to change    |
| 130       | interrupted                                                                        |

Loading this module needs no extra, so that a missing one can be named.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from antiphon.errors import AntiphonError

OK, BROKEN, UNUSABLE, UNJUDGED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit statuses. `UNJUDGED`: nothing is broken, but not everything could be checked (`--strict`)."""

_EXTRA_BY_MODULE = {
    **dict.fromkeys(("typer", "rich", "textual"), "cli"),
    **dict.fromkeys(("numpy", "matplotlib"), "apps"),
    "pyarrow": "trace",
    "nats": "nats",
    **dict.fromkeys(("starlette", "uvicorn", "websockets"), "web"),
    **dict.fromkeys(("pyspark", "pandas"), "spark"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line (`sys.argv` without one) and returns its exit code."""
    _open_standard_files()
    try:
        return _run(arguments)
    except AntiphonError as error:
        return _refuse(str(error))
    except ModuleNotFoundError as error:
        extra = _EXTRA_BY_MODULE.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        return _refuse(f"this needs the package {error.name}, which is not installed: pip install 'antiphon[{extra}]'")
    except KeyboardInterrupt:
        print("antiphon: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone. Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _refuse(f"{where}{error.strerror or error}; check the path and its permissions, then run the command again")


def _run(arguments: Sequence[str] | None) -> int:
    import typer

    from antiphon.cli.app import app

    try:
        code = app(args=None if arguments is None else list(arguments), prog_name="antiphon", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        # Typer's usage errors carry the context of the command that was called wrongly.
        context: typer.Context | None = getattr(error, "ctx", None)
        sentence = error.format_message().rstrip(".")
        if not sentence:
            return OK  # a noun without a verb: its help has been printed, and that is what was wanted
        see = " See" if sentence.endswith("?") else "; see"
        return _refuse(f"{sentence}{see} {context.command_path if context else 'antiphon'} --help")
    if code == INTERRUPTED:
        raise KeyboardInterrupt  # Typer turns an interrupt into this code
    return code if isinstance(code, int) else OK


def _open_standard_files() -> None:
    """Where stdin, stdout or stderr is closed, the next file that is opened, a socket or a store, would be taken for it."""
    for standard in (0, 1, 2):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _refuse(sentence: str) -> int:
    print(f"antiphon: {' '.join(sentence.split())}", file=sys.stderr)
    return UNUSABLE
