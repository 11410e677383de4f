"""A question in the middle of the screen: a name, a yes or no, or something to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class Prompt(ModalScreen[str | None]):
    """Returns what was typed (or `default`), or None when the user thought better of it. `refuse` says what is wrong with a text, if
    anything; without `asks` there is nothing to type and Enter returns the default."""

    DEFAULT_CSS = """
    Prompt { align: center middle; background: $background 60%; }
    Prompt > Vertical { width: 64; max-width: 90%; height: auto; max-height: 80%; padding: 1 2; }
    Prompt > Vertical { background: $surface; border: round $primary; }
    Prompt .title { text-style: bold; color: $primary; margin-bottom: 1; }
    Prompt .wrong { color: $error; height: auto; }
    Prompt .keys { color: $text-muted; margin-top: 1; }
    Prompt Input { border: tall $panel; background: $background; }
    Prompt Input:focus { border: tall $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back"), Binding("enter", "accept", "Yes")]

    def __init__(
        self,
        title: str,
        text: str = "",
        *,
        asks: bool = True,
        default: str = "",
        yes: str = "Enter",
        refuse: Callable[[str], str | None] | None = None,
    ) -> None:
        super().__init__()
        self._title, self._text, self._asks, self._default, self._yes, self._refuse = title, text, asks, default, yes, refuse

    def compose(self) -> ComposeResult:
        with Vertical():
            # Contents, never strings: a string would be read as markup, and names come from others.
            yield Static(Content(self._title), classes="title")
            if self._text:
                yield Static(Content(self._text))
            if self._asks:
                yield Input(self._default)
                yield Static(classes="wrong")
            yield Static(Content(f"{self._yes} · Esc goes back"), classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        wrong = self._refuse(text) if self._refuse is not None else None
        if wrong:
            self.query_one(".wrong", Static).update(Content(wrong))
        else:
            self.dismiss(text)

    def action_accept(self) -> None:
        if not self._asks:
            self.dismiss(self._default)
