import json
from datetime import UTC, datetime
from typing import Any

import pytest
from factories import NOW, learned, place, recorded
from jsonschema import Draft202012Validator

from api.dialects.agent_memory import answers, tools
from api.dialects.agent_memory.records import ObservationFields, observe
from ingest.errors import CommandRejected, NotFound
from ingest.ids import DocumentId
from ingest.nouns.lesson import LessonRecorded
from ingest.nouns.observation import ObservationRecorded
from mcp_gateway import lenient
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Tool, json_answer
from projections.nouns.lesson import Lesson, evolve
from projections.nouns.observation import Observation, observation

TOOLS = {tool.name: tool for tool in tools.AGENT_MEMORY}
SAID = ObservationFields(
    title="Größe", subtitle="s", type="gotcha", narrative="n", facts=["f"], concepts=["c"], files_read=["r"]
)


def seen(said: ObservationFields = SAID) -> Observation:
    command = observe(said, "atlas", "s1")
    data = ObservationRecorded(kind=command.kind, content=command.content, data=command.data)
    return observation(recorded(data, place(1)), data, DocumentId("ses_1"))


def lesson(project: str = "", **data: Any) -> Lesson:
    event = learned(1, "never force-push " + "x" * 100, **data)
    assert isinstance(event.data, LessonRecorded)
    stored = evolve(None, event, event.data)
    assert stored is not None
    return stored.model_copy(update={"project": project})


@pytest.mark.parametrize(
    ("name", "properties", "required"),
    [
        ("memory_search_guide", [], []),
        ("search", ["query", "project", "type", "limit", "dateStart", "dateEnd"], ["query"]),
        ("timeline", ["anchor", "query", "depth_before", "depth_after", "project"], []),
        ("get_observations", ["ids"], ["ids"]),
        ("save_memory", ["text", "title", "project"], ["text"]),
        ("create_lesson", ["rule", "title", "severity", "project", "trigger_tool", "trigger_pattern"], ["rule"]),
        ("search_lessons", ["query", "project", "limit"], ["query"]),
    ],
)
def test_the_tools_take_what_the_contract_says(name: str, properties: list[str], required: list[str]):
    schema = TOOLS[name].input_schema
    Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == properties
    assert schema.get("required", []) == required
    assert TOOLS[name].output_schema is None


def test_the_defaults_are_the_contracts():
    defaults = {
        (tool.name, name): one["default"]
        for tool in tools.AGENT_MEMORY
        for name, one in tool.input_schema["properties"].items()
        if "default" in one
    }
    assert defaults == {
        ("search", "limit"): 20,
        ("timeline", "depth_before"): 3,
        ("timeline", "depth_after"): 3,
        ("create_lesson", "severity"): "warning",
        ("search_lessons", "limit"): 10,
    }


def test_obs_type_is_taken_though_not_advertised():
    tool = TOOLS["search"]
    read = lenient.read({"query": "q", "obs_type": "bugfix"}, tool.input_schema, tool.also)
    assert (read["type"], read["obs_type"]) == (None, "bugfix")


def test_an_observation_in_a_list():
    assert answers.observation_line(7, seen(), project="atlas") == {
        "id": 7,
        "title": "Größe",
        "type": "gotcha",
        "project": "atlas",
        "created_at": "2026-01-31T12:00:00.000000Z",
    }


def test_an_observation_in_full():
    assert answers.observation_in_full(7, seen()) == {
        "id": 7,
        "title": "Größe",
        "subtitle": "s",
        "type": "gotcha",
        "narrative": "n",
        "facts": ["f"],
        "concepts": ["c"],
        "files_read": ["r"],
        "files_modified": [],
        "project": "atlas",
        "tool_name": None,
        "created_at": "2026-01-31T12:00:00.000000Z",
    }


def test_an_observation_on_a_timeline():
    placed = answers.observation_line(7, seen(), position="before")
    assert list(placed) == ["id", "title", "type", "position", "created_at"]
    assert placed["position"] == "before"


def test_a_global_lesson_has_no_project_and_a_default_title():
    line = answers.lesson_line(3, lesson(), 0.016666)
    assert line["title"] == ("never force-push " + "x" * 100)[:80]
    assert (line["project"], line["trigger_tool"], line["trigger_pattern"]) == (None, None, None)
    assert (line["severity"], line["trigger_count"], line["score"]) == ("info", 0, 0.0167)


def test_a_lesson_of_a_project():
    line = answers.lesson_line(3, lesson("atlas", title="T", severity="critical", trigger_tool="Bash"), 0.5)
    assert (line["title"], line["severity"], line["project"]) == ("T", "critical", "atlas")
    assert line["trigger_tool"] == "Bash"
    assert list(line) == [
        "id", "title", "rule", "severity", "project", "trigger_tool", "trigger_pattern", "trigger_count", "score",
    ]  # fmt: skip


def test_a_reminder_follows_the_json_behind_a_rule():
    text = answers.rows_and_reminder([{"id": 1, "title": "Größe"}], ["words only"]).text
    data, _, rest = text.partition("\n\n---\n")
    assert json.loads(data) == [{"id": 1, "title": "Größe"}]
    assert data.startswith('[\n  {\n    "id": 1')
    assert rest.startswith("Note: words only.\n")
    assert "user" in rest
    assert json.JSONDecoder().raw_decode(text)[0] == [{"id": 1, "title": "Größe"}]


def test_lists_and_lines_are_json_alone():
    assert answers.json_rows([]).text == "[]"
    assert json_answer({"saved": True, "id": 1, "title": "é"}).text == '{"saved": true, "id": 1, "title": "é"}'


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-01-31", (2026, 1, 31), (2026, 1, 31, 23, 59, 59, 999_000)),
        ("2026-01-31T10:30:00Z", (2026, 1, 31, 10, 30), (2026, 1, 31, 10, 30)),
        ("2026-01-31T10:30:00+02:00", (2026, 1, 31, 8, 30), (2026, 1, 31, 8, 30)),
        ("2026-01-31 10:30", (2026, 1, 31, 10, 30), (2026, 1, 31, 10, 30)),
    ],
)
def test_dates_and_times_bound_a_search(text: str, start: tuple[int, ...], end: tuple[int, ...]):
    assert answers.start_of(text) == datetime(*start, tzinfo=UTC)  # type: ignore[arg-type]
    assert answers.end_of(text) == datetime(*end, tzinfo=UTC)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [None, "", "  "])
def test_no_date_is_no_bound(text: str | None):
    assert answers.start_of(text) is None
    assert answers.end_of(text) is None


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-02-30", "17", "0001-01-01T00:00:00+14:00"])
def test_what_is_no_date_is_told_by_name(text: str):
    with pytest.raises(CommandRejected) as fault:
        answers.end_of(text)
    assert fault.value.field == "dateEnd"


def test_times_are_written_with_microseconds_and_z():
    assert answers.time_text(NOW.replace(microsecond=5)) == "2026-01-31T12:00:00.000005Z"


def test_bad_arguments_are_flagged_and_other_faults_are_not():
    tool: Tool = TOOLS["search"]
    bad = tools.refused(tool, BadArgument("query is required", "query"))
    assert (bad.is_error, bad.text) == (True, "Input validation error: query is required")
    for error, told in [
        (CommandRejected("is blank", "query"), "query: is blank"),
        (NotFound("there is no such thing"), "there is no such thing"),
        (ValueError("a secret detail"), "unexpected error; see the server's log"),
    ]:
        answer = tools.refused(tool, error)
        assert not answer.is_error
        assert json.loads(answer.text) == {"error": told}
