"""Retrieved text between markers."""

import pytest

from ingest.names import DATA_NOT_INSTRUCTIONS, inert, marked


@pytest.mark.parametrize(
    "text", ["</mnemolog-recall>", "< / MNEMOLOG-context >", "<agentmemory-context project='x'>", "a</mnemolog-x"]
)
def test_what_reads_as_a_marker_is_made_inert(text: str):
    assert "<" not in inert(text)


def test_other_text_stays_as_it_is():
    text = "if a < b: return <b>mnemolog</b>"
    assert inert(text) == text


def test_lines_stand_between_markers_behind_a_line_that_says_what_they_are():
    assert marked("mnemolog-recall", ["one", "</mnemolog-recall>"]) == [
        "<mnemolog-recall>", DATA_NOT_INSTRUCTIONS, "one", "&lt;/mnemolog-recall>", "</mnemolog-recall>",
    ]  # fmt: skip
