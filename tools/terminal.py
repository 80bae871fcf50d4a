"""Records a command's terminal as an asciicast (version 2), and draws an asciicast as an animated SVG.

    python -m tools.terminal record FILE.cast COMMAND...
    python -m tools.terminal draw FILE.cast FILE.svg

The SVG is self-contained and has no script. It plays once and keeps the last screen; readers who prefer reduced motion
see only that. Pauses are shortened to a second. A command may write lines, replace the current line and set the eight
colors; cursor movement is not drawn.
"""

import argparse
import fcntl
import json
import os
import pty
import shlex
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from rich.ansi import AnsiDecoder
from rich.console import Console

COLUMNS, ROWS = 80, 24
FRAME_S, PAUSE_S = 0.25, 1.0
CHARACTER, LINE, MARGIN = 8.4, 20, 16
"""Width and height of a character, and the space around the text, in units of the drawing."""
STYLE = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #24292f; }
text { white-space: pre; visibility: hidden; }
rect { fill: #f6f8fa; stroke: #d0d7de; } .b { font-weight: 600; } .c1 { fill: #b3261e; } .c2 { fill: #116329; }
.c3 { fill: #7d4e00; } .c4 { fill: #0550ae; } .c5 { fill: #8250df; } .c6 { fill: #1b7c83; }
@keyframes on { from, to { visibility: visible; } }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } rect { fill: #161b22; stroke: #30363d; } .c1 { fill: #ff8a80; } .c2 { fill: #7ee787; }
.c3 { fill: #e3b341; } .c4 { fill: #79c0ff; } .c5 { fill: #d2a8ff; } .c6 { fill: #76e3ea; }
}
@media (prefers-reduced-motion: reduce) { text { animation: none !important; } .last { visibility: visible; } }
"""
Row = tuple[tuple[str, str], ...]
"""Texts of a line, each with the names of its classes."""


class Shown(NamedTuple):
    """A line of the screen, and the seconds from and until which it is shown; None: to the end."""

    number: int
    row: Row
    begins: float
    ends: float | None


def record(command: Sequence[str], file: Path) -> int:
    """Run a command in a terminal, write what it prints with its times to a file, and return its exit status."""
    began, prompt = time.monotonic(), f"$ {shlex.join(command)}\r\n"
    size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
    header = {
        "version": 2,
        "width": COLUMNS,
        "height": ROWS,
        "timestamp": int(time.time()),
        "title": prompt[2:].strip(),
    }
    with file.open("w") as output:

        def write(data: str) -> None:
            output.write(json.dumps([round(time.monotonic() - began, 3), "o", data], ensure_ascii=False) + "\n")

        def read(terminal: int) -> bytes:
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
            data = os.read(terminal, 1 << 16)
            write(data.decode(errors="replace"))
            return data

        output.write(json.dumps(header) + "\n")
        write(prompt)
        return os.waitstatus_to_exitcode(pty.spawn(list(command), read))


def draw(recorded: str) -> str:
    """The SVG of an asciicast."""
    header, *events = map(json.loads, recorded.splitlines())
    shown = list(_shown(_frames(events), header["height"]))
    width = header["width"] * CHARACTER + 2 * MARGIN
    height = (1 + max(it.number for it in shown)) * LINE + 2 * MARGIN
    label = escape(f"A terminal: {header['title']}")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" role="img" aria-label="{label}">\n'
        f"<title>{label}</title>\n<style>{STYLE}</style>\n"
        f'<rect x=".5" y=".5" width="{width - 1:g}" height="{height - 1}" rx="8"/>\n'
    )
    return head + "".join(map(_text, shown)) + "</svg>\n"


def _frames(events: Sequence[Any]) -> Iterator[tuple[float, str]]:
    """Four times a second at most, the second and everything that was written until then."""
    frames, text, now, before = dict[int, str](), "", 0.0, 0.0
    for at, kind, data in events:
        now, before = now + min(at - before, PAUSE_S), at
        text += data if kind == "o" else ""
        frames[int(now / FRAME_S)] = text
    return ((number * FRAME_S, written) for number, written in frames.items())


def _shown(frames: Iterator[tuple[float, str]], height: int) -> Iterator[Shown]:
    """The lines of all screens, each once for as long as it stays the same."""
    current = dict[int, Shown]()
    for now, text in frames:
        rows = _rows(text)[-height:]
        for number in range(max(len(rows), len(current))):
            row = rows[number] if number < len(rows) else ()
            if number not in current or current[number].row != row:
                if number in current:
                    yield current[number]._replace(ends=now)
                current[number] = Shown(number, row, now, None)
    yield from current.values()


def _rows(text: str) -> list[Row]:
    decoder, console = AnsiDecoder(), Console(width=1_000)
    lines = [decoder.decode_line(line.rstrip("\r")) for line in text.removesuffix("\n").split("\n")]
    return [tuple((it.text, _classes(it.style)) for it in line.render(console)) for line in lines]


def _classes(style: Any) -> str:
    color = f"c{style.color.number}" if style and style.color and style.color.number else ""
    return f"{'b ' if style and style.bold else ''}{color}".strip()


def _text(it: Shown) -> str:
    length = sum(len(text) for text, _ in it.row)
    if not length:
        return ""
    spans = [f'<tspan class="{names}">{escape(text)}</tspan>' if names else escape(text) for text, names in it.row]
    last, until = (' class="last"', "1ms forwards") if it.ends is None else ("", f"{it.ends - it.begins:g}s")
    return (
        f'<text{last} x="{MARGIN}" y="{MARGIN + it.number * LINE + 15}" textLength="{length * CHARACTER:g}" '
        f'style="animation:on {until} {it.begins:g}s">{"".join(spans)}</text>\n'
    )


def main() -> int:
    """Record or draw; the exit status of what was recorded, else 0."""
    parser = argparse.ArgumentParser("python -m tools.terminal", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="action", required=True)
    recording, drawing = commands.add_parser("record"), commands.add_parser("draw")
    recording.add_argument("file", type=Path)
    recording.add_argument("command", nargs=argparse.REMAINDER)
    drawing.add_argument("file", type=Path)
    drawing.add_argument("svg", type=Path)
    options = parser.parse_args()
    if options.action == "record":
        return record(options.command, options.file)
    options.svg.write_text(draw(options.file.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
