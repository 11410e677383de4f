"""Java is found where it is, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import UsageError
from antiphon.spark.java import find_java, require_java


def test_java_is_found_where_only_java_home_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who unpacked a Java and set JAVA_HOME would be told to install one, and tests that need it would be skipped without a word."""
    java = tmp_path / "home/bin/java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == str(java)
    require_java()


def test_without_one_it_is_said_how_to_come_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JAVA_HOME that is empty, or left behind by a Java that was removed, would pass for one, and Spark would fail in its own words."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for home in (str(tmp_path / "gone"), ""):
        monkeypatch.setenv("JAVA_HOME", home)
        assert find_java() is None
        with pytest.raises(UsageError, match="found none: install it"):
            require_java()
