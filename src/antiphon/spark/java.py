"""Where Java is: Spark runs on it. Asked without Spark being there, so whoever can do without asks first."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from antiphon.errors import UsageError


def require_java() -> None:
    """Raises UsageError, which says how to come by one, where there is none."""
    if find_java() is None:
        raise UsageError(
            "Spark needs Java 17 or newer and found none: install it (Debian and Ubuntu: apt install openjdk-17-jre-headless; "
            "macOS: brew install openjdk@17), or set JAVA_HOME to where it is"
        )


def find_java() -> str | None:
    """That of JAVA_HOME, else the one on the path. Which version it is shows when it is started."""
    home = os.environ.get("JAVA_HOME")
    if home and os.access(Path(home, "bin", "java"), os.X_OK):
        return str(Path(home, "bin", "java"))
    return shutil.which("java")
