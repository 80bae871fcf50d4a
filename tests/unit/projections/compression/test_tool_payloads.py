"""What is told of the tools of five coding agents: payloads as their hooks send them."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from condensing import saw

from projections.compression.compression import Compressed, compress
from projections.compression.payloads import is_base64
from projections.compression.words import TOOLS
from projections.condensing.consolidation import facts_of, find_topics
from projections.condensing.profile import profile
from projections.condensing.summaries import digest
from projections.documents.observations import Observation

Call = tuple[str, str, Any, str]
CALLS: list[Call] = [tuple(row) for row in json.loads(Path(__file__).with_name("tool_payloads.json").read_bytes())]
"""Agent and tool, the tool's name, input and output."""
NEVER = TOOLS | {
    "in_progress", "use_default", "editor_ai", "files_with_matches", "general-purpose", "begin patch", "end patch",
    "update file", "group pgid",
}  # fmt: skip
"""States and frames of tools."""


def field_names(value: Any) -> set[str]:
    """The names of all fields in a value, also of JSON text in it, lower-cased."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return set()
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {name.lower() for name in fields}.union(*map(field_names, fields.values()))
    if isinstance(value, list):
        return set[str]().union(*map(field_names, cast(list[Any], value)))
    return set()


FIELDS = set[str]().union(*(field_names(given) | field_names(answered) for _, _, given, answered in CALLS))
UNSAID = FIELDS | NEVER


def check(short: Compressed) -> None:
    for concept in short.concepts:
        assert concept not in UNSAID
        assert not concept.startswith("-")
        assert not is_base64(concept)
    for fact in short.facts:
        assert not fact.startswith(("-", "+", "{", "***"))
        assert not {word.strip(":\"',") for word in fact.split()} & {
            "oldString",
            "newString",
            "originalFile",
            "isImage",
        }
        assert not any(map(is_base64, fact.split()))
        assert " -" not in fact
    assert len(set(short.facts)) == len(short.facts)


@pytest.mark.parametrize("call", CALLS, ids=[call[0] for call in CALLS])
@pytest.mark.parametrize("as_text", [False, True], ids=["objects", "text"])
def test_no_key_flag_or_base64_of_a_tool_is_a_concept_or_a_fact(call: Call, as_text: bool):
    _, tool, given, answered = call
    data = {"tool_name": tool, "tool_input": json.dumps(given) if as_text else given, "tool_output": answered}
    check(compress("post_tool_use", "", data))


def used(as_text: bool) -> list[Observation]:
    """All calls, four times over."""
    return [
        saw(
            n,
            kind="post_tool_use",
            data={"tool_name": tool, "tool_input": json.dumps(given) if as_text else given, "tool_output": answered},
        )
        for n, (_, tool, given, answered) in enumerate(CALLS * 4)
    ]


SAID = [saw(900 + n, f"The `checkout` charged card {n} twice.") for n in range(3)]


@pytest.mark.parametrize("as_text", [False, True], ids=["objects", "text"])
def test_what_tools_answer_again_and_again_is_no_topic_beside_what_was_said(as_text: bool):
    seen = [*used(as_text), *SAID]
    assert [one.concept for one in find_topics(seen, min_importance=0, max_topics=100)] == ["checkout"]
    told = profile("shop", "", 1, seen, [], SAID[0].occurred_at)
    assert told is not None
    assert told.concepts == [("checkout", 3)]


@pytest.mark.parametrize("as_text", [False, True], ids=["objects", "text"])
def test_what_tools_answer_in_every_session_is_no_fact_beside_what_was_said(as_text: bool):
    calls, said = used(as_text), saw(900, "We decided that the checkout sends an order id with every charge.")
    sessions = [digest([*calls[n : n + len(CALLS)], said]) for n in range(0, len(calls), len(CALLS))]
    found = facts_of([one for one in sessions + sessions if one is not None])
    assert [one.content for one in found] == [said.content]


@pytest.mark.parametrize(
    ("call", "file"),
    [("claude edit", "/repo/src/checkout.py"), ("cursor read", "src/app.tsx"), ("gemini read", "/repo/main.go")],
)
def test_the_file_of_a_call_is_known_by_every_agents_name_for_it(call: str, file: str):
    _, tool, given, answered = next(one for one in CALLS if one[0] == call)
    data = {"tool_name": tool, "tool_input": given, "tool_output": answered}
    assert compress("post_tool_use", "", data).files == (file,)


def test_what_tools_found_is_still_told():
    facts: list[str] = []
    for _, tool, given, answered in CALLS:
        facts += compress("post_tool_use", "", {"tool_name": tool, "tool_input": given, "tool_output": answered}).facts
    for said in (
        "1 failed, 12 passed in 1.40s", "The limit is 100 requests a minute.", "expected 200, got 500",
        "2 passed; 1 failed", "Cookies are set in server/auth/cookie.go by SetSession.",
    ):  # fmt: skip
        assert said in facts


def test_a_bulleted_list_is_no_patch():
    assert compress("note", "- We use Postgres 16\n- Deploys are on Tuesdays").facts != ()
