"""The text on when to recall and remember: what it says, and how it comes into files and goes again."""

import re
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from api.agents.entries import ForeignFile
from api.agents.rules import rules, with_block, with_file, without_block, without_file
from mcp_gateway.profiles import NATIVE

OLD, NEW = "# Memory\n\nRecall.\n", "# Memory\n\nRecall, and remember.\n"
THEIRS = "# How we work\r\n\r\nTests first.\r\n"
TEXTS = st.lists(st.sampled_from(["\n", "\r\n", "\r", " ", "# A", "é", "<!-- x -->", "```"])).map("".join)


def test_the_text_names_every_native_tool_and_no_other():
    named = set(re.findall(r"`([a-z]+)`", rules().body)) - {"mnemolog", "project"}
    assert named == {tool.name for tool in NATIVE}


def test_the_text_is_short():
    """It is read in every session: under 250 tokens of four characters, English's usual number."""
    assert len(rules().body) < 250 * 4
    assert 40 < len(rules().description) <= 1024, "Claude Code takes no more"


@pytest.mark.parametrize(
    ("rendered", "front"),
    [
        (rules().skill(), {"name": "mnemolog-memory", "description": rules().description}),
        (rules().always("cursor"), {"description": rules().description, "globs": None, "alwaysApply": True}),
        (rules().always("vscode"), {"applyTo": "**"}),
        (rules().always("windsurf"), {"trigger": "always_on"}),
    ],
)
def test_every_host_gets_the_same_text_behind_its_front_matter(rendered: str, front: object):
    _, written, body = rendered.split("---\n", 2)
    assert yaml.safe_load(written) == front
    assert body.strip() == rules().body.strip()


@given(TEXTS)
def test_a_block_that_comes_and_goes_leaves_the_text_as_it_was(text: str):
    assert without_block(with_block(text, OLD)) == text


@given(TEXTS, TEXTS)
def test_a_block_is_brought_up_to_date_where_it_stands(before: str, after: str):
    installed = with_block(before, OLD) + after
    assert with_block(installed, OLD) == installed
    assert without_block(with_block(installed, NEW)) == before + after
    assert "and remember" in with_block(installed, NEW)


def test_a_block_has_the_line_ends_of_its_file():
    installed = with_block(THEIRS, OLD)
    assert installed.startswith(THEIRS)
    assert installed.count("\n") == installed.count("\r\n")
    assert with_block(installed, OLD) == installed
    assert without_block(installed.replace("\r\n", "\n")) == THEIRS.replace("\r\n", "\n"), "git changed them"


@pytest.mark.parametrize("start", ["", THEIRS])
def test_a_file_of_ours_is_brought_up_to_date_and_goes(start: str):
    written = with_file("", OLD)
    written = written.replace("\n", "\r\n") if start else written
    assert with_file(written, OLD) == written
    renewed = with_file(written, NEW)
    assert "and remember" in renewed
    assert renewed.count("\r\n") == (renewed.count("\n") if start else 0)
    assert without_file(renewed) == ""
    assert without_file(renewed.rstrip()) == ""


def test_a_file_that_somebody_else_wrote_stays():
    with pytest.raises(ForeignFile, match="it was not written by mnemolog"):
        with_file(THEIRS, OLD)
    assert without_file(THEIRS) == THEIRS


@pytest.mark.parametrize("change", [with_file, with_block])
def test_what_was_changed_since_it_was_installed_stays(change: Callable[[str, str], str]):
    changed = change("", OLD).replace("Recall.", "Recall never.")
    remove = without_file if change is with_file else without_block
    with pytest.raises(ForeignFile, match="was changed after installation"):
        change(changed, NEW)
    with pytest.raises(ForeignFile, match="was changed after installation"):
        remove(changed)


@pytest.mark.parametrize(
    "damaged",
    [
        with_block("", OLD).replace("<!-- mnemolog -->\n", ""),
        with_block("", OLD).rpartition("<!--")[0],
        with_block("", OLD) * 2,
        f"<!-- mnemolog -->\n{with_block('', OLD)}",
    ],
)
def test_half_a_block_or_two_are_not_touched(damaged: str):
    with pytest.raises(ForeignFile):
        with_block(damaged, NEW)
    with pytest.raises(ForeignFile):
        without_block(damaged)
