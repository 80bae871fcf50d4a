import json
from typing import Any, cast

import msgspec
import pytest
from jsonschema import Draft202012Validator

from api.dialects.profiles import PROFILES
from ingest.commands.decide import Observe, RecordLesson, Remember
from mcp_gateway.declaring import declared
from mcp_gateway.tools.tool import Tool
from projections.operations.memory import MemoryChanges
from projections.queries.context import ContextRequest
from projections.queries.recall import RecallRequest

NATIVE = PROFILES.offer(("native",))
TOOLS = NATIVE.tools
DECLARED = [declared(tool) for tool in TOOLS.values()]
every_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=list(TOOLS))


def test_tools_are_listed_in_a_stable_order():
    assert [tool.name for tool in DECLARED] == list(TOOLS)
    names = ["recall", "remember", "observe", "lesson", "context", "confirm", "revise", "forget", "slots", "claim"]
    assert list(TOOLS) == names


@every_tool
def test_schemas_are_valid_and_stand_alone(tool: Tool):
    """Objects without references: clients that know only properties and required cope."""
    for schema in (tool.input_schema, tool.output_schema or {}):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert not {"$ref", "$defs", "anyOf", "oneOf"} & set(_keywords(schema))


@every_tool
def test_every_argument_has_a_type_and_a_description(tool: Tool):
    for name, schema in tool.input_schema["properties"].items():
        assert schema.keys() >= {"type", "description"}, name


@every_tool
def test_unknown_arguments_are_ruled_out_and_required_ones_come_first(tool: Tool):
    schema = tool.input_schema
    assert schema["additionalProperties"] is False
    required = schema.get("required", [])
    assert list(schema["properties"])[: len(required)] == required


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("recall", []),
        ("remember", ["content"]),
        ("observe", ["session_id", "content"]),
        ("lesson", ["content"]),
        ("context", ["project"]),
        ("confirm", ["ids"]),
        ("revise", ["id"]),
        ("forget", ["id"]),
        ("slots", []),
        ("claim", ["do"]),
    ],
)
def test_little_is_required(name: str, required: list[str]):
    assert TOOLS[name].input_schema.get("required", []) == required


@pytest.mark.parametrize(
    ("name", "request_type", "own"),
    [
        ("recall", RecallRequest, {"author", "full", "ids", "query"}),
        ("remember", Remember, set[str]()),
        ("observe", Observe, set[str]()),
        ("lesson", RecordLesson, set[str]()),
        ("context", ContextRequest, set[str]()),
        ("revise", MemoryChanges, {"id"}),
    ],
)
def test_a_tool_takes_what_its_request_takes(name: str, request_type: type[msgspec.Struct], own: set[str]):
    """A tool may say less than REST, never more: its names, its defaults, at least its limits."""
    arguments = TOOLS[name].arguments
    assert arguments is not None
    asked, taken = _fields(request_type), _fields(arguments)
    assert taken.keys() - own <= asked.keys()
    for field in taken.keys() - own:
        for limit in ("maxLength", "minimum", "maximum", "enum", "pattern", "maxItems"):
            if limit in asked[field]:
                assert taken[field].get(limit) == asked[field][limit], (field, limit)
        if "default" in taken[field]:
            assert taken[field]["default"] == asked[field].get("default"), field


def test_declarations_say_which_tools_only_read():
    hints = {tool.name: tool.annotations.read_only_hint for tool in DECLARED if tool.annotations}
    assert [name for name, reads_only in hints.items() if reads_only] == ["recall", "context"]
    assert [tool.name for tool in DECLARED if tool.annotations and tool.annotations.destructive_hint] == ["forget"]


def test_declarations_are_small_enough_to_carry_in_every_conversation():
    size = sum(len(json.dumps(tool.model_dump(by_alias=True, exclude_none=True))) for tool in DECLARED)
    assert size < 24_000


def _fields(cls: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    (root,), parts = msgspec.json.schema_components([cls])
    fields: dict[str, dict[str, Any]] = parts[root["$ref"].rpartition("/")[2]]["properties"]
    return {name: _plain(field, parts) for name, field in fields.items()}


def _plain(field: dict[str, Any], parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The field without its alternative null, and with what it refers to."""
    choices = [choice for choice in field.get("anyOf", [field]) if choice.get("type") != "null"]
    return {**field, **choices[0]}


def _keywords(node: object) -> list[str]:
    if isinstance(node, list):
        return [word for item in cast("list[object]", node) for word in _keywords(item)]
    if not isinstance(node, dict):
        return []
    fields = cast("dict[str, object]", node)
    return [*fields, *(word for value in fields.values() for word in _keywords(value))]
