"""A space-time picture of a story as SVG: members are lines, messages go from one to the other, and what waits at a member is a bar.

Time runs to the right. A dot is where a message is read; one that arrives and must wait has a ring where it arrives and a
bar below its reader's line for as long as it waits. Colours are CSS variables of the page it stands in, so that it follows light and dark.
"""

from __future__ import annotations

from html import escape

from antiphon.cli.story import FRIENDS, READER, Line, Story

_WIDTH, _ROW, _LEFT, _TOP, _LANE = 760, 56, 44, 30, 17
_SPAN_S, _TICK_MS = 0.250, 50
_LIFE = 'stroke="var(--soft)" stroke-width="1.5"'
_GRID = 'stroke="var(--rule)" stroke-width="1" stroke-dasharray="2 4"'
_NAME = 'font-size="15" font-weight="700" fill="var(--ink)"'
_TICK = 'font-size="11" text-anchor="middle" fill="var(--soft)"'
_COLOURS = {"Did you visit Delhi?": "--delhi", "Did you visit Chennai?": "--chennai"}


def draw(story: Story) -> str:
    waiting = [line for line in story.read_by(READER) if line.waited_s > 0]
    height = _y(FRIENDS[-1]) + _LANE * len(waiting) + 44
    title = f"Who read what when, in {story.order} order"
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}" class="spacetime">',
        f"<title>{escape(title)}</title>",
    ]
    for tick in range(0, int(_SPAN_S * 1000) + 1, _TICK_MS):
        x = _x(tick / 1000)
        parts.append(f'<line x1="{x:.1f}" y1="{_TOP - 16}" x2="{x:.1f}" y2="{height - 24}" {_GRID}/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" {_TICK}>{tick} ms</text>')
    for name in FRIENDS:
        y = _y(name)
        parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - 10}" y2="{y}" {_LIFE}/>')
        parts.append(f'<text x="14" y="{y + 5}" {_NAME}>{name}</text>')
    for lane, line in enumerate(waiting):
        parts.append(_wait(line, _y(READER) + 14 + _LANE * lane))
    parts += [_arrow(line) for line in story.lines if line.reader != line.author]
    parts += [_words(line) for line in story.lines if line.reader == line.author]
    return "".join([*parts, "</svg>"])


def _arrow(line: Line) -> str:
    told = f"{line.text} {line.author} to {line.reader}: arrived at {1000 * line.arrived_at:.0f} ms, read at {1000 * line.read_at:.0f} ms"
    # An answer is dashed, so that the picture can be read without its colours.
    dash = ' stroke-dasharray="5 3"' if line.answers else ""
    colour, x, y = _colour(line), _x(line.arrived_at), _y(line.reader)
    ring = f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="var(--card)" stroke="{colour}" stroke-width="1.6"/>' if line.waited_s > 0 else ""
    return (
        f"<g><title>{escape(told)}</title>"
        f'<line x1="{_x(line.sent_at):.1f}" y1="{_y(line.author)}" x2="{x:.1f}" y2="{y}" stroke="{colour}" stroke-width="1.6"{dash}/>'
        f'{ring}<circle cx="{_x(line.read_at):.1f}" cy="{y}" r="4.5" fill="{colour}"/></g>'
    )


def _wait(line: Line, y: int) -> str:
    x1, x2, colour = _x(line.arrived_at), _x(line.read_at), _colour(line)
    bar = f'<rect x="{x1:.1f}" y="{y - 5}" width="{x2 - x1:.1f}" height="10" rx="5" fill="{colour}" opacity="0.55"/>'
    return bar + _text(f"{line.text} waits", x1 - 6, y + 4, "end", colour)


def _words(line: Line) -> str:
    x, y, colour = _x(line.sent_at), _y(line.author), _colour(line)
    return f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{colour}"/>' + _text(line.text, x - 4, y - 10, "start", colour)


def _text(text: str, x: float, y: int, anchor: str, colour: str) -> str:
    """Words with a rim in the colour of the card, so that no arrow strikes through them."""
    place = f'x="{x:.1f}" y="{y}" font-size="12" font-weight="600" text-anchor="{anchor}"'
    rim = (
        f'<text {place} aria-hidden="true" fill="none" stroke="var(--card)" stroke-width="4" stroke-linejoin="round">{escape(text)}</text>'
    )
    return rim + f'<text {place} fill="{colour}">{escape(text)}</text>'


def _colour(line: Line) -> str:
    return f"var({_COLOURS[line.answers or line.text]})"


def _x(seconds: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - 40) * seconds / _SPAN_S


def _y(name: str) -> int:
    return _TOP + _ROW * FRIENDS.index(name)
