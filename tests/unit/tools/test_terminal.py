"""A recorded terminal, and the drawing of it."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

from tools.terminal import draw, record

SVG = "{http://www.w3.org/2000/svg}"
IMAGES = Path(__file__).parents[3] / "docs/images"
HEADER = json.dumps({"version": 2, "width": 80, "height": 3, "title": "count"})


def cast(*events: tuple[float, str]) -> str:
    return "\n".join([HEADER, *(json.dumps([at, "o", data]) for at, data in events)])


def lines(svg: str) -> list[tuple[str, str]]:
    """Each drawn line, with its animation."""
    drawn = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return [("".join(it.itertext()), it.attrib["style"].removeprefix("animation:")) for it in drawn]


def last_screen(svg: str) -> list[str]:
    drawn = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return ["".join(it.itertext()) for it in drawn if it.get("class") == "last"]


def test_a_line_is_shown_until_another_replaces_it():
    svg = draw(cast((0.0, "$ count\r\n"), (0.5, "\r1\x1b[K"), (1.0, "\r2\x1b[K\r\n")))
    assert lines(svg) == [("1", "on 0.5s 0.5s"), ("$ count", "on 1ms forwards 0s"), ("2", "on 1ms forwards 1s")]
    assert last_screen(svg) == ["$ count", "2"]


def test_a_screen_has_its_last_lines_and_a_pause_a_second_at_most():
    svg = draw(cast((0.0, "a\r\nb\r\nc\r\n"), (60.0, "d\r\n")))
    assert last_screen(svg) == ["b", "c", "d"]
    assert ("d", "on 1ms forwards 1s") in lines(svg)


def test_colors_are_classes_and_text_is_escaped():
    svg = draw(cast((0.0, "\x1b[1;31m<b>\x1b[0m & more\r\n")))
    assert '<tspan class="b c1">&lt;b&gt;</tspan> &amp; more' in svg


def test_a_recording_has_the_output_and_the_exit_status(tmp_path: Path):
    code = "import sys; print(sys.stdout.isatty()); sys.exit(3)"
    assert record([sys.executable, "-c", code], tmp_path / "it.cast") == 3
    header, *events = map(json.loads, (tmp_path / "it.cast").read_text().splitlines())
    assert header["version"] == 2
    assert "".join(data for _, _, data in events).endswith("\r\nTrue\r\n")


def test_the_picture_of_the_docs_is_drawn_from_its_recording_and_loses_nothing():
    svg = (IMAGES / "kill.svg").read_text()
    counts = dict(re.findall(r"^  ([a-z ]+?) +([\d,]+)$", "\n".join(last_screen(svg)), re.MULTILINE))
    assert draw((IMAGES / "kill.cast").read_text()) == svg
    assert counts["acknowledged"] == counts["in the log"] != "0"
    assert (counts["lost"], counts["duplicates"], counts["at another position"]) == ("0", "0", "0")
    assert f"0 of {counts['acknowledged']} acknowledged" in (IMAGES.parents[1] / "README.md").read_text()
    assert len(svg) < 60_000
    assert "<script" not in svg
