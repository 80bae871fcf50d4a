"""The native prompts: what a model is asked."""

from collections.abc import Callable

import pytest

from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import NATIVE
from mcp_gateway.resources import PROMPTS, prompt_text
from mcp_gateway.tools.tool import ToolContext
from projections.documents.access import Reader
from projections.queries.recall import RecallResult

from .conftest import ScriptedQueries


async def test_catching_up_asks_for_a_summary_of_the_context(call: ToolContext, queries: ScriptedQueries):
    told = await prompt_text(call._replace(agent="ada"), "catch-up", {"project": "atlas", "task": "fix the login"})
    assert told.startswith("<mnemolog-context/>")
    assert "work on project atlas" in told
    assert "fix the login" in told
    ((request, reader),) = queries.asked
    assert (request.project, request.query, reader) == ("atlas", "fix the login", Reader("default", "ada"))


async def test_recalling_shows_what_was_found_and_asks_for_an_answer(
    call: ToolContext, queries: ScriptedQueries, result: Callable[..., RecallResult]
):
    queries.results = [result()]
    told = await prompt_text(call, "recall", {"topic": "tea", "project": " "})
    assert told.startswith("What is known about this: tea\n\n<mnemolog-recall>")
    assert "mem_1" in told
    ((request, _),) = queries.asked
    assert (request.query, request.project) == ("tea", None)


async def test_remembering_a_session_names_only_tools_that_are_there(call: ToolContext):
    told = await prompt_text(call, "remember-session", {"project": "atlas"})
    assert "in project atlas" in told
    properties = {name for tool in NATIVE for name in (tool.name, *tool.input_schema["properties"])}
    quoted = set(told.split("`")[1::2]) - {"read", "write", "pending_items"}
    assert quoted <= properties
    assert "in project" not in await prompt_text(call, "remember-session", {})


@pytest.mark.parametrize(("name", "missing"), [("catch-up", "project"), ("recall", "topic")])
async def test_a_missing_argument_is_named(call: ToolContext, name: str, missing: str):
    for given in ({}, {missing: "  "}):
        with pytest.raises(BadArgument, match=f"{missing} is required"):
            await prompt_text(call, name, given)


async def test_an_argument_that_is_too_long_is_refused(call: ToolContext):
    with pytest.raises(BadArgument):
        await prompt_text(call, "catch-up", {"project": "a" * 600})


def test_every_prompt_and_argument_says_what_it_is():
    for prompt in PROMPTS:
        assert prompt.title
        assert prompt.description
        assert all(one.description for one in prompt.arguments or ())
