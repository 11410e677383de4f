"""The look of the pages that Antiphon writes, as text to stand in them: what all share (`paper.css`), then what one page adds.

Needs nothing but the package: the demo's page is written where there is no Spark as well.
"""

from __future__ import annotations

from importlib import resources


def style(package: str) -> str:
    """The sheet of all pages, and after it the `report.css` of the package that writes one."""
    sheets = (resources.files(__package__) / "paper.css", resources.files(package) / "report.css")
    return "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
