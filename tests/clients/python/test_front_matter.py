"""Front matter of Markdown files: what is read, and that what is written is read again."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemolog_client.front_matter import front_lines, front_matter, with_front_matter


@pytest.mark.parametrize(
    ("content", "fields"),
    json.loads(Path(__file__).with_name("front_matter.json").read_text()),
)  # fmt: skip
def test_front_matter_is_read_as_far_as_it_is_simple(content: str, fields: dict[str, Any]):
    assert front_matter(content) == (fields, "body")


@pytest.mark.parametrize("text", ["---\nbroken\n---\nbody", "---\nTwo rules.\nnote: x\n---\nbody", "---\n\n---\n"])
def test_text_between_two_rules_is_no_front_matter(text: str):
    assert front_matter(text) == ({}, text)


@given(st.text(min_size=1), st.lists(st.text(), min_size=1), st.text())
def test_what_is_written_is_read_again(title: str, tags: list[str], body: str):
    content = with_front_matter({"version": 3, "title": title, "empty": "", "tags": tags}, ["more: [x]"], body)
    assert front_matter(content) == ({"version": "3", "title": title, "tags": tags, "more": ["x"]}, body)


@pytest.mark.parametrize("title", ["yes", "null", "- x", "[x]", "a: b", "a #b", "@x", "7", "*x", "", "~", " x"])
def test_what_yaml_reads_as_anything_else_is_quoted(title: str):
    (line, *_) = with_front_matter({"title": title, "tags": ["x"]}, [], "").splitlines()[1:]
    assert line == (f'title: "{title}"' if title else "tags:")


def test_lines_of_other_fields_are_left_as_they_are():
    content = "---\n# mine\naliases:\n  - x\nid: mem_1\n\ntags: [a]\nmap:\n  k: v\n---\nbody"
    assert front_lines(content, ("id", "tags")) == (["# mine", "aliases:", "  - x", "", "map:", "  k: v"], "body")
