"""A user's own file, made known to this process: an ordering, and whatever judges it, without a package around it.

    load("examples/lamport_order.py")       # now Case(order="lamport") can be run

The file is executed once per process, as an import would, and its function `register()` is called with every `load`: so calling it
twice must do what calling it once does, as setting entries of `ORDERS`, `PROMISES` and `ORACLES` does. Processes start empty;
each must load the file before it meets the order's name. `campaign` sees to that.

The file is code and may do whatever its user may: load what you would run.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from antiphon.errors import BadFile, UsageError


def load(path: Path | str) -> None:
    """Executes the file, unless this process has, and calls its `register()`. UsageError says what is wrong with the file."""
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{path}: {'it is not a file' if file.exists() else 'there is no such file'}; name a Python file to load")
    module = _module(file)
    register = getattr(module, "register", None)
    if not callable(register):
        raise UsageError(f"{path} has no function register(): add one that sets ORDERS[name] and PROMISES[name]")
    try:
        register()
    except (Exception, SystemExit) as raised:
        raise _told(file, raised) from raised


def _module(file: Path) -> ModuleType:
    # The name is the whole path: two files may have the same name, and neither may hide a module that others import.
    name = str(file.resolve())
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"{file}: only Python files can be loaded; end the file's name in .py")
    # Structs and dataclasses look their module up by name while they are defined.
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException as raised:
        del sys.modules[name]
        if isinstance(raised, Exception | SystemExit):
            raise _told(file, raised) from raised
        raise
    return module


def _told(file: Path, raised: BaseException) -> BadFile:
    """What the file raised, with the line of the file it came from."""
    if isinstance(raised, SyntaxError) and raised.filename is not None and Path(raised.filename).resolve() == file.resolve():
        return BadFile(str(file), raised.lineno or 1, f"is not Python: {raised.msg}")
    frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if Path(frame.filename).resolve() == file.resolve()]
    line = frames[-1].lineno if frames else None
    return BadFile(str(file), line or 1, f"raises {type(raised).__name__}: {raised}")
