"""Parsers take time in proportion to their text, whatever is in it: in quadratic time, these texts take minutes."""

import tomllib
from contextlib import nullcontext
from datetime import UTC, datetime
from inspect import isgenerator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from api.agents.entries import ForeignFile
from api.agents.json_text import Unreadable
from api.importing import chats, markdown, mem0
from api.importing.mapping import ImportRow
from ingest.errors import CommandRejected
from projections.text.compression import compress

MANY = 200_000
"""Messages, fields or lines of a document: with a lookup through all of them for each, minutes."""
TABLES = tomllib.loads(Path(__file__).with_name("parsers.toml").read_text("utf-8"))


@pytest.mark.parametrize("case", TABLES["case"])
def test_a_megabyte_is_parsed(case: dict[str, Any]):
    case = TABLES["defaults"] | case
    parse, text = resolve_name(case["parser"]), case["begin"] + case["repeat"] * case["repeats"] + case["end"]
    raises = case["raises"]
    with pytest.raises((CommandRejected, ForeignFile, Unreadable), match=raises) if raises else nullcontext():
        result = parse(*case["before"], text, *case["after"], **case["named"])
        shown = str([*result] if isgenerator(result) else result)
        assert not case["each"] or shown.count(case["each"]) == case["repeats"]


@pytest.mark.parametrize("unit", TABLES["units"])
def test_a_megabyte_is_compressed(unit: str):
    text = unit * (2**20 // len(unit))
    compress(text, text, {"tool_name": text, "error": text})


def test_a_chatgpt_conversation_of_many_messages_is_read():
    message = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["hello"]}}
    nodes = {f"n{n}": {"parent": f"n{n - 1}", "children": [f"n{n + 1}"], "message": message} for n in range(MANY)}
    read = chats.chatgpt_messages({"mapping": nodes, "current_node": f"n{MANY - 1}"})
    assert sum("skipped" not in row.value for row in read) == MANY


def test_a_claude_conversation_of_many_messages_is_read():
    messages = [{"uuid": f"n{n}", "parent_message_uuid": f"n{n - 1}", "text": "hello"} for n in range(MANY)]
    read = chats.claude_messages({"chat_messages": messages, "current_leaf_message_uuid": f"n{MANY - 1}"})
    assert sum("skipped" not in row.value for row in read) == MANY


def test_a_mem0_memory_with_many_fields_of_two_kinds_is_read():
    fields = {f"field {n}": "x" for n in range(MANY)}
    record = {"memory": "likes tea", "created_at": "2026-01-01T00:00:00Z", "metadata": fields, **fields}
    lost = mem0.mapped(ImportRow(mem0.MEMORY_ROW, "m", record), "default", "mem0").lost
    assert lost[0].startswith("metadata: field 0, field 1,")


def test_a_markdown_file_with_many_fields_and_facts_is_read():
    fields = "".join(f"field{n}: x\n" for n in range(MANY // 10))
    facts = "".join(f"- [fact] number {n}\n" for n in range(MANY // 10))
    rows = [*markdown.rows_of("notes.md", f"---\n{fields}---\n{facts}", datetime(2026, 1, 1, tzinfo=UTC))]
    assert len([markdown.mapped(row, "shop") for row in rows]) == MANY // 10
