"""The native resources: their addresses, and what is there for whom."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from factories import NOW

from api.native import memory as examples
from ingest.errors import CommandRejected, NotFound
from ingest.roles import KeyScope
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import NATIVE
from mcp_gateway.resources import (
    PROJECTS_LISTED,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    of_projects,
    prompt_text,
    resource_text,
)
from mcp_gateway.tools.tool import Call
from projections.nouns.access import Reader
from projections.nouns.session import Session
from projections.queries.documents import Located
from projections.queries.recall import RecallResult
from projections.queries.views import Page

from .conftest import ScriptedQueries, memory


class ScriptedSessions:
    """Sessions by name; keeps what was asked."""

    def __init__(self, *projects: str) -> None:
        self.projects, self.asked = projects, list[Any]()
        self.fault: Exception | None = None

    async def page(self, reader: Reader, project: str | None, cursor: str | None, limit: int) -> Page[dict[str, Any]]:
        self.asked.append((project, limit))
        names = [name for name in self.projects if project in (None, name)][:limit]
        times = [NOW - timedelta(days=self.projects.index(name)) for name in names]
        return Page([{"project": name, "updated_at": at} for name, at in zip(names, times, strict=True)], None)

    async def one(self, reader: Reader, session_id: str, project: str | None) -> Located:
        self.asked.append((session_id, project))
        if self.fault is not None:
            raise self.fault
        return Located(0, Session(id="ses_1", session_id=session_id, project=project or "atlas", observation_count=3))

    async def of_session(self, reader: Reader, session: Located) -> None:
        return None


class ScriptedMemories:
    """The memories of a project."""

    def __init__(self, *memories: dict[str, Any]) -> None:
        self.memories = list(memories)

    async def page(
        self, reader: Reader, project: str, cursor: str | None, limit: int, *, latest: bool
    ) -> Page[dict[str, Any]]:
        assert latest
        return Page(self.memories if project == "shop" else [], None)


def reading(call: Call, sessions: ScriptedSessions, *memories: dict[str, Any]) -> Call:
    """The door, with these sessions, none of which has a summary, and these memories of the project `shop`."""
    scripted = {"sessions": sessions, "summaries": sessions, "memories": ScriptedMemories(*memories)}
    queries: Any = SimpleNamespace(**{**call.queries._asdict(), **scripted})
    return call._replace(queries=queries)


@pytest.mark.parametrize(
    "uri",
    [
        "mnemolog://nothing",
        "mnemolog://documents/mem_9",
        "mnemolog://documents/",
        "mnemolog://documents/mem_1/more",
        f"mnemolog://documents/{'a' * 600}",
        "mnemolog://projects/%ff/context",
        "mnemolog://projects/atlas/contexts",
    ],
)
async def test_what_does_not_exist_is_not_found(call: Call, uri: str):
    with pytest.raises(NotFound, match=re.escape(f"there is no resource {uri}")):
        await resource_text(call, uri)


async def test_a_document_is_read_as_whoever_calls(call: Call, queries: ScriptedQueries):
    queries.documents = [memory("mem_1", content="Ada drinks tea.\nWith milk.")]
    told = await resource_text(call._replace(agent="ada"), "mnemolog://documents/mem_1")
    assert told.startswith("<mnemolog-document>")
    assert "\nWith milk.\n" in told
    assert queries.asked == [(["mem_1"], Reader("default", "ada"))]


async def test_the_context_of_a_project_is_what_the_tool_tells(call: Call, queries: ScriptedQueries):
    told = await resource_text(call, "mnemolog://projects/a%2Fb%20c/context")
    assert told.startswith("<mnemolog-context/>")
    ((request, _),) = queries.asked
    assert request.project == "a/b c"


async def test_a_session_is_found_by_its_id_and_its_project(call: Call):
    sessions = ScriptedSessions()
    told = await resource_text(reading(call, sessions), "mnemolog://sessions/s%2F1/summary?project=a%20b")
    assert "no summary yet" in told
    assert "observations: 3" in told
    await resource_text(reading(call, sessions), "mnemolog://sessions/s1/summary")
    assert sessions.asked == [("s/1", "a b"), ("s1", None)]


async def test_a_session_of_several_projects_is_asked_for_with_one(call: Call):
    sessions = ScriptedSessions()
    sessions.fault = CommandRejected("several projects have a session 's1'; name the project", "project")
    with pytest.raises(BadArgument, match="name the project"):
        await resource_text(reading(call, sessions), "mnemolog://sessions/s1/summary")
    sessions.fault = NotFound("there is no session 's1'")
    with pytest.raises(NotFound, match="there is no resource"):
        await resource_text(reading(call, sessions), "mnemolog://sessions/s1/summary")


async def test_few_projects_are_listed_the_latest_first_each_once_and_none_without_a_name(call: Call):
    sessions = ScriptedSessions("shop", "", "a b", "shop", *(f"p{n}" for n in range(20)))
    listed = await of_projects(reading(call, sessions))
    assert [one.uri for one in listed][:2] == ["mnemolog://projects/shop/context", "mnemolog://projects/a%20b/context"]
    assert len({one.uri for one in listed}) == len(listed) == PROJECTS_LISTED
    told = await resource_text(reading(call, sessions), "mnemolog://projects")
    assert told.splitlines()[2] == "- shop (last active on 2026-01-31): mnemolog://projects/shop/context"


async def test_approved_procedures_are_listed_after_the_context_of_their_project(call: Call):
    at = "2026-01-31T12:00:00Z"
    example = json.loads((Path(examples.__file__).parent / "examples.json").read_text())["answered"]["Memory"]
    steps = {**example, "id": "mem_1", "title": "Rotate\nthe keys", "memory_type": "procedural", "confirmed_at": at}
    steps["recorded_at"] = at
    wrong = [{"writer": name, "verdict": "wrong", "at": "2026-02-01T12:00:00Z"} for name in ("a", "b", "c")]
    others = [
        {**steps, **change}
        for change in (
            {"confirmed_at": None},
            {"memory_type": "semantic"},
            {"recorded_at": "2026-02-01T12:00:00Z"},
            {"trust": "external"},
            {"verdicts": wrong},
        )
    ]
    listed = await of_projects(reading(call, ScriptedSessions("shop", "bank"), *others, steps))
    assert [one.title for one in listed] == ["Context of shop", "Rotate the keys", "Context of bank"]
    assert listed[1].uri == "mnemolog://documents/mem_1"


async def test_a_key_for_some_projects_is_listed_those(call: Call):
    sessions = ScriptedSessions("shop", "bank", "mint")
    limited = reading(call, sessions)._replace(key_scope=KeyScope(projects=("mint", "bank", "empty")))
    assert [context.title for context in await of_projects(limited)] == ["Context of bank", "Context of mint"]
    assert {project for project, _ in sessions.asked} == {"mint", "bank", "empty"}


def test_every_resource_says_what_it_is():
    for one in (*RESOURCES, *TEMPLATES):
        assert one.title
        assert one.description
        assert one.mime_type == "text/markdown"


async def test_catching_up_asks_for_a_summary_of_the_context(call: Call, queries: ScriptedQueries):
    told = await prompt_text(call._replace(agent="ada"), "catch-up", {"project": "atlas", "task": "fix the login"})
    assert told.startswith("<mnemolog-context/>")
    assert "work on project atlas" in told
    assert "fix the login" in told
    ((request, reader),) = queries.asked
    assert (request.project, request.query, reader) == ("atlas", "fix the login", Reader("default", "ada"))


async def test_recalling_shows_what_was_found_and_asks_for_an_answer(
    call: Call, queries: ScriptedQueries, result: Callable[..., RecallResult]
):
    queries.results = [result()]
    told = await prompt_text(call, "recall", {"topic": "tea", "project": " "})
    assert told.startswith("What is known about this: tea\n\n<mnemolog-recall>")
    assert "mem_1" in told
    ((request, _),) = queries.asked
    assert (request.query, request.project) == ("tea", None)


async def test_remembering_a_session_names_only_tools_that_are_there(call: Call):
    told = await prompt_text(call, "remember-session", {"project": "atlas"})
    assert "in project atlas" in told
    properties = {name for tool in NATIVE for name in (tool.name, *tool.input_schema["properties"])}
    quoted = set(told.split("`")[1::2]) - {"read", "write", "pending_items"}
    assert quoted <= properties
    assert "in project" not in await prompt_text(call, "remember-session", {})


@pytest.mark.parametrize(("name", "missing"), [("catch-up", "project"), ("recall", "topic")])
async def test_a_missing_argument_is_named(call: Call, name: str, missing: str):
    for given in ({}, {missing: "  "}):
        with pytest.raises(BadArgument, match=f"{missing} is required"):
            await prompt_text(call, name, given)


async def test_an_argument_that_is_too_long_is_refused(call: Call):
    with pytest.raises(BadArgument):
        await prompt_text(call, "catch-up", {"project": "a" * 600})


def test_every_prompt_and_argument_says_what_it_is():
    for prompt in PROMPTS:
        assert prompt.title
        assert prompt.description
        assert all(argument.description for argument in prompt.arguments or ())
