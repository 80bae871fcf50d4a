"""Plots of a run as SVG, and its table into the page of benchmarks.

    python -m benchmarks.plot RESULTS.json [--out docs/plots] [--page benchmarks/README.md]

Three plots: every figure with a bar, as a share of what is wanted; backlogs while 3,000 observations a second arrive
and behind it; recall's p50 and p99. The text of an SVG is written here: no library draws it, the same results give
the same bytes. Colours hold on a light page and on a dark one.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.meaning import Reading
from benchmarks.table import Results, cells, replaced, written

ROOT = Path(__file__).parents[1]
WIDTH, LEFT, RIGHT, TOP, LINE = 860, 330, 130, 46, 22
PLOT_WIDTH = WIDTH - LEFT - RIGHT
MOST = 2.0
"""A bar ends at twice what is wanted."""
CASES = {
    "new": "1 client, new question",
    "cached": "1 client, cached vector",
    "eight_new": "8 clients, new questions",
    "eight_cached": "8 clients, repeated questions",
}
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #333; } .title { font-size: 15px; font-weight: 600; }
.small { font-size: 11px; fill: #666; } .axis { stroke: #999; fill: none; }
.wanted { stroke: #333; stroke-dasharray: 4 3; }
.a { fill: #2a78b8; } .b { fill: #d98a1f; } .line-a, .line-b, .line-c { fill: none; stroke-width: 2; }
.line-a { stroke: #2a78b8; } .line-b { stroke: #d98a1f; } .line-c { stroke: #3d9a50; }
@media (prefers-color-scheme: dark) { text { fill: #ddd; } .small { fill: #aaa; } .wanted { stroke: #ddd; } }
</style>"""


def svg(title: str, height: int, parts: Sequence[str]) -> str:
    """A whole drawing."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" aria-label="{escape(title)}">'
    return "\n".join([head, STYLE, text(10, 22, title, "title"), *parts, "</svg>"]) + "\n"


def text(x: float, y: float, what: str, kind: str = "", anchor: str = "start") -> str:
    """Words at a place."""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" class="{kind}">{escape(what)}</text>'


def bar(x: float, y: float, width: float, kind: str) -> str:
    """A bar of one row."""
    return f'<rect x="{x:.0f}" y="{y:.0f}" width="{max(width, 1):.1f}" height="{LINE - 8}" class="{kind}"/>'


def rule(x: float, y: float, to: float, kind: str) -> str:
    """A vertical line."""
    return f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{x:.0f}" y2="{to:.0f}" class="{kind}"/>'


def wanted(results: Results) -> str:
    """Every figure that has a bar, as a share of what is wanted."""
    rows = [cell for cell in cells(results) if cell.reached is not None]
    parts: list[str] = []
    for number, cell in enumerate(rows):
        y, reached = TOP + number * LINE, min(cell.reached or 0.0, MOST)
        parts.append(text(LEFT - 8, y + 12, cell.row.figure, anchor="end"))
        parts.append(bar(LEFT, y, PLOT_WIDTH * reached / MOST, "a" if reached >= 1 else "b"))
        parts.append(text(WIDTH - RIGHT + 8, y + 12, written(cell.measured, cell.row.unit)))
    bottom = TOP + len(rows) * LINE
    parts.append(rule(LEFT + PLOT_WIDTH / MOST, TOP - 6, bottom, "wanted"))
    parts.append(text(LEFT + PLOT_WIDTH / MOST, bottom + 14, "what is wanted", "small", "middle"))
    return svg("Measured, as a share of what is wanted (a rate, or the inverse of a time)", bottom + 24, parts)


def recall(figures: Results) -> str:
    """p50 and p99 of a recall."""
    most = max(figures[f"{name}_p99_ms"] for name in CASES)
    parts: list[str] = []
    for number, (name, label) in enumerate(CASES.items()):
        for place, (share, kind) in enumerate((("p50", "a"), ("p99", "b"))):
            y, ms = TOP + (2 * number + place) * LINE, figures[f"{name}_{share}_ms"]
            parts.append(text(LEFT - 8, y + 12, f"{label}, {share}", anchor="end"))
            parts.append(bar(LEFT, y, PLOT_WIDTH * ms / most, kind))
            parts.append(text(LEFT + PLOT_WIDTH * ms / most + 8, y + 12, written(ms, "ms")))
    title = f"Recall at {figures['documents']:,} documents, milliseconds"
    return svg(title, TOP + 2 * len(CASES) * LINE + 10, parts)


def backlogs(timeline: Sequence[Reading]) -> str:
    """Events written, those not projected, and documents without a contextual vector, over the seconds."""
    height, left = 260, 80
    width = WIDTH - left - 180
    last, most = timeline[-1][0], max(1, *(max(row[1:]) for row in timeline))

    def points(column: int) -> str:
        places = ((left + width * row[0] / last, TOP + height - height * row[column] / most) for row in timeline)
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)

    names = ("written", "not projected", "without contextual vector")
    parts = [rule(left, TOP, TOP + height, "axis"), text(left - 8, TOP + 10, f"{most:,}", anchor="end")]
    parts += [text(left - 8, TOP + height, "0", anchor="end"), text(left, TOP + height + 18, "0 s")]
    parts.append(text(left + width, TOP + height + 18, f"{last:.0f} s", anchor="end"))
    for column, kind in enumerate("abc", 1):
        parts.append(f'<polyline points="{points(column)}" class="line-{kind}"/>')
        y = TOP + LINE * column
        parts.append(f'<polyline points="{left + width + 8},{y} {left + width + 24},{y}" class="line-{kind}"/>')
        parts.append(text(left + width + 30, y + 4, names[column - 1], "small"))
    return svg("Backlogs while observations arrive, and behind it", TOP + height + 30, parts)


def plots(results: Results) -> dict[str, str]:
    """The drawings that a run has figures for, by their file."""
    found = {"wanted.svg": wanted(results)}
    if "recall" in results:
        found["recall.svg"] = recall(results["recall"])
    if results.get("meaning", {}).get("timeline"):
        found["backlogs.svg"] = backlogs([tuple(row) for row in results["meaning"]["timeline"]])
    return found


def main() -> int:
    """Draw, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, metavar="RESULTS.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/plots")
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks/README.md")
    chosen = parser.parse_args()
    run: dict[str, Any] = json.loads(chosen.results.read_bytes())
    chosen.out.mkdir(parents=True, exist_ok=True)
    drawings = plots(run["results"])
    for name, drawing in drawings.items():
        (chosen.out / name).write_text(drawing)
    page: Path = chosen.page
    folder = os.path.relpath(Path(chosen.out), page.parent)
    images = [f"![{Path(name).stem}]({folder}/{name})" for name in drawings]
    page.write_text(replaced(page.read_text(), run, images))
    return 0


if __name__ == "__main__":
    sys.exit(main())
