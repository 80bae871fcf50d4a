"""The table of figures, and the drawings of it: pure, from made-up results."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from benchmarks.plot import plots
from benchmarks.table import BEGIN, END, ROWS, cells, markdown, replaced, texts, written

MACHINE = {"processor": "Xeon", "cores": 2, "memory_gib": 24, "system": "Linux 6.18", "python": "3.11.7", "load": 0.1}
RESULTS: dict[str, Any] = {
    "ingest": {"single_per_s": 2_500, "hello_per_s": 10_000, "batch_per_s": 20_000, "xadd_per_s": 40_000,
               "batch_to_xadd": 0.5},
    "meaning": {"found_by_text": 0.02, "shrinking_after_s": None,
                "timeline": [[0.0, 0, 0, 0], [1.0, 3_000, 500, 2_400], [2.0, 6_000, 0, 5_900]]},
    "recall": {"documents": 1_000, "new_p50_ms": 8.0, "new_p99_ms": 20.0, "cached_p50_ms": 5.0, "cached_p99_ms": 9.0,
               "eight_new_p50_ms": 50.0, "eight_new_p99_ms": 90.0, "eight_cached_p50_ms": 20.0,
               "eight_cached_p99_ms": 30.0},
    "recall_large": {"new_p50_ms": 12.0},
}  # fmt: skip
RUN: dict[str, Any] = {
    "taken": "2026-11-23", "commit": "abc1234", "seed": 1, "quick": False, "machine": MACHINE, "results": RESULTS,
    "failed": {"memex": "it fell over"},
}  # fmt: skip


def rows() -> dict[str, tuple[str, ...]]:
    return {found[0]: found[1:] for found in map(texts, cells(RESULTS))}


def test_a_row_has_what_was_measured_what_is_wanted_and_the_raw_limit():
    assert rows()["single writes, 64 connections"] == (
        "2,500/s (missed)", ">= 5,000/s", "uvicorn hello 10,000/s", "0.25",
    )  # fmt: skip


def test_what_is_exactly_wanted_is_met():
    assert rows()["batched writes to raw XADD"][0] == "0.5"


def test_a_bar_on_a_ratio_of_two_runs_is_put_beside_the_smaller_run():
    assert rows()["recall p50 at ten times the documents, to that"][:2] == ("1.5", "<= 2")


def test_a_backlog_that_never_shrinks_is_missed():
    assert rows()["contextual backlog shrinks so long after the load"][:2] == ("never (missed)", "<= 1 s")


def test_rows_of_benchmarks_that_did_not_run_are_left_out():
    assert "second start" not in rows()
    assert list(cells({})) == []


def test_no_row_has_two_bars():
    assert [row.figure for row in ROWS if row.at_least is not None and row.at_most is not None] == []


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(33_123.4, "/s", "33,123/s"), (0.5, "", "0.5"), (9.1234, "ms", "9.12 ms"), (72.55, "%", "72.5%"), (0, "s", "0 s")],
)
def test_figures_have_three_digits_that_count(value: float, unit: str, text: str):
    assert written(value, unit) == text


def test_a_page_gets_the_table_between_its_markers_and_keeps_the_rest():
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    new = replaced(page, RUN)
    assert new == replaced(new, RUN)
    assert new.startswith(f"before\n{BEGIN}\n\n{markdown(RUN)}")
    assert new.endswith(f"{END}\nafter\n")
    assert "old" not in new


def test_images_stand_below_the_table():
    new = replaced(f"{BEGIN}{END}", RUN, ["![one](one.svg)", "![two](two.svg)"])
    assert new == f"{BEGIN}\n\n{markdown(RUN)}\n\n![one](one.svg)\n\n![two](two.svg)\n\n{END}"


def test_a_page_without_markers_is_refused():
    with pytest.raises(ValueError, match="figures"):
        replaced("nothing", RUN)


def test_the_page_tells_machine_seed_and_what_failed():
    text = markdown(RUN)
    assert "2 x Xeon, 24 GiB" in text
    assert "seed 1" in text
    assert "`memex` failed: it fell over" in text
    assert "--quick" not in text


def test_drawings_are_whole_xml_and_the_same_each_time():
    drawn = plots(RESULTS)
    assert sorted(drawn) == ["backlogs.svg", "recall.svg", "wanted.svg"]
    assert drawn == plots(RESULTS)
    for drawing in drawn.values():
        assert ET.fromstring(drawing).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_bar_is_as_long_as_its_share_of_what_is_wanted():
    bars = [
        float(one.attrib["width"]) for one in ET.fromstring(plots(RESULTS)["wanted.svg"]).iter() if "rect" in one.tag
    ]
    shares = [min(cell.reached, 2.0) for cell in cells(RESULTS) if cell.reached is not None]
    assert bars == pytest.approx([max(1, 200 * share) for share in shares], abs=0.1)
