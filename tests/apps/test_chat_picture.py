"""The picture in the documents is the program: a story is played, and it must show just that. ANTIPHON_REWRITE=1 draws it anew."""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path
from typing import Any

from antiphon.apps.chat.screen import ChatApp
from antiphon.apps.chat.screen.panels import Writing

PICTURE = Path(__file__).parents[2] / "docs" / "chat.svg"
SIZE = (112, 31)


async def test_the_picture_in_the_documents_is_what_the_program_draws(chats: Any, until: Any) -> None:
    """Readers of the documents would look for keys and lists that are not there."""
    async with chats("ana", "ben", "cem", "dee") as town:
        app = ChatApp(town["ana"], "trip", where="ana at udp 192.0.2.7:41830", invitation="antiphon chat --name NAME --group trip")
        async with app.run_test(size=SIZE) as pilot:
            await until(lambda: app.room is not None, "ana is there")
            ana = app.room
            assert ana is not None
            ben, cem, dee = [await town[name].join("trip") for name in ("ben", "cem", "dee")]
            everybody = (ana, ben, cem, dee)

            async def said(room: Any, text: str, answers: Any = None, hear: Any = everybody) -> Any:
                line = await room.say(text, answers)
                await until(lambda: all(line in each.conversation for each in hear), f"{text!r} is heard")
                return line

            await until(lambda: all(len(room.members) == 4 for room in everybody), "all are there")
            await town["dee"].found("music")
            delhi = await said(cem, "Did you visit Delhi?")
            chennai = await said(cem, "Did you visit Chennai?")
            await said(ana, "No, next year: I am saving the coast for the time when the children can swim.", chennai)
            yes = await said(ben, "Yes", delhi)
            await said(cem, "How long does one need?", yes)
            await said(ben, "Four days, and good shoes", ben.conversation[yes].children[0].id)
            await said(dee, "Twice. Take the night train.", delhi)
            town.split(("ana", "ben"), ("cem", "dee"))
            await until(lambda: all(len(room.members) == 2 for room in everybody), "the group is split")
            meet = await said(ben, "Where do we meet on Friday?", hear=(ana, ben))
            await said(dee, "Who books the night train?", hear=(cem, dee))
            await said(ana, "At the bridge", meet, hear=(ana, ben))
            town.heal()
            await until(lambda: all(len(room.members) == 4 and len(room.conversation) == 10 for room in everybody), "they are one again")
            await pilot.press("up")
            app.query_one(Writing).value = "I do, on Monday"
            await until(lambda: "night train" in str(app.query_one(Writing).border_title), "the answer is being written")
            await until(lambda: not ana.conversation.unread, "ana has read everything")
            app.app_focus = False  # ana looks away: what comes now stays unread
            await said(cem, "And better ones than mine", cem.conversation[yes].children[0].children[0].id)
            await until(lambda: "1 unread" in app.export_screenshot().replace("&#160;", " "), "it is on the screen")
            await pilot.pause(0.3)
            drawn = _without_fonts(app.export_screenshot(title="antiphon chat"))
    if os.environ.get("ANTIPHON_REWRITE"):
        PICTURE.write_text(drawn, encoding="utf-8")
    assert _rows(PICTURE.read_text(encoding="utf-8")) == _rows(drawn)


def _without_fonts(picture: str) -> str:
    """The picture, needing nothing from anywhere else."""
    return re.sub(r"@font-face\s*{[^}]*}\s*", "", picture)


def _rows(picture: str) -> list[str]:
    """The text of every row, without what differs from run to run: times and the numbers of views."""
    pieces = re.findall(r'<text [^>]*\by="([\d.]+)"[^>]*>([^<]*)</text>', picture)
    rows: dict[float, str] = {}
    for y, text in pieces:
        rows[float(y)] = rows.get(float(y), "") + unescape(text).replace("\xa0", " ")
    text = "\n".join(row for _, row in sorted(rows.items()))
    return re.sub(r"view \d+", "view N", re.sub(r"\d\d:\d\d", "00:00", text)).split("\n")
