from typing import cast
from uuid import UUID

import pytest
from jsonschema import Draft202012Validator

from api.dialects.memex.memories import answer, clamped, length_checked, listed, store_tool
from api.dialects.memex.records import Shown
from api.dialects.memex.tools import MEMEX, refused
from ingest.errors import CommandRejected, LogUnavailable, Overloaded
from ingest.nouns.memory import MemoryType
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call, Tool

ID = UUID("01234567-89ab-4cde-8f01-6d656d657823")
TOOLS = {tool.name: tool for tool in MEMEX}
PAIR = {"agent_id": "a", "user_id": "u"}


def found_memory(memory_type: MemoryType, score: float, content: str) -> Shown:
    return Shown(id=ID, **PAIR, content=content, importance=1.0, memory_type=memory_type, created_at="", score=score)


@pytest.mark.parametrize(
    ("name", "defaults", "required"),
    [
        ("store_memory", {"memory_type": "episodic", "importance": 1.0}, ["agent_id", "user_id", "content"]),
        ("search_memories", {"top_k": 5, "alpha": 0.7}, ["agent_id", "user_id", "query"]),
        ("delete_memory", {}, ["agent_id", "memory_id"]),
        ("count_memories", {}, ["agent_id", "user_id"]),
    ],
)
def test_the_tools_take_what_the_contract_says(name: str, defaults: dict[str, object], required: list[str]):
    schema = TOOLS[name].input_schema
    Draft202012Validator.check_schema(schema)
    assert schema["required"] == required
    assert {key: one["default"] for key, one in schema["properties"].items() if "default" in one} == defaults
    assert list(schema["properties"])[: len(required)] == required
    assert schema["properties"]["agent_id"]["title"] == "Agent Id"


@pytest.mark.parametrize("tool", MEMEX, ids=list(TOOLS))
def test_every_tool_answers_one_text(tool: Tool):
    schema = tool.output_schema
    assert schema is not None
    assert list(schema["properties"]) == ["result"]
    Draft202012Validator(schema).validate(answer("done").data)


def test_numbers_may_be_text():
    asked = {**PAIR, "query": "q", "top_k": "7", "alpha": "0.5", "memory_type": None, "unknown": 1}
    read = lenient.read(asked, TOOLS["search_memories"].input_schema)
    assert (read["top_k"], read["alpha"], read["memory_type"]) == (7, 0.5, None)


def test_a_search_lists_type_score_and_id_and_indents_the_content():
    found = [found_memory("episodic", 0.5, "one\ntwo"), found_memory("semantic", 0.12345, "three")]
    assert listed("tea", found).splitlines() == [
        "Found 2 memories for query: tea",
        f"1. [episodic] score=0.5000  id={ID}",
        "   one",
        "   two",
        f"2. [semantic] score=0.1235  id={ID}",
        "   three",
    ]


def test_nothing_found_is_a_sentence():
    assert listed("tea", []) == "No memories found for query: tea"


def test_what_an_answer_lacks_stands_below_it():
    assert answer("Found", ["words only"]).text == "Found\nNote: words only."


async def test_a_bad_type_names_the_three():
    asked = {**PAIR, "content": "c", "memory_type": "poem", "importance": 1.0}
    told = await store_tool(cast("Call", None), asked)
    assert told.text == "Invalid memory_type 'poem'. Must be one of: episodic, semantic, procedural."


@pytest.mark.parametrize(("value", "within"), [(-1, 0.0), (0.5, 0.5), (9, 2.0)])
def test_numbers_are_clamped(value: float, within: float):
    assert clamped(value, 0.0, 2.0) == within


@pytest.mark.parametrize(("value", "fault"), [("", "at least 1"), ("x" * 9, "at most 8")])
def test_the_length_of_a_text_is_checked(value: str, fault: str):
    with pytest.raises(BadArgument, match=fault):
        length_checked(value, "content", 8)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (BadArgument("content is required", "content"), "validation error: content is required"),
        (CommandRejected("a name cannot contain NUL", "agent_id"), "validation error: agent_id: a name cannot"),
        (Overloaded("too much to do"), "too much to do; try again"),
        (LogUnavailable("no answer"), "no answer"),
        (ValueError("secret detail"), "unexpected error"),
    ],
)
def test_every_fault_is_flagged_and_told(error: Exception, told: str):
    answer = refused(TOOLS["store_memory"], error)
    assert answer.is_error
    assert answer.text.startswith(f"Error executing tool store_memory: {told}")
    assert answer.data is None
