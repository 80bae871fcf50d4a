"""The context of a session, and what belongs to the files that it touches."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from tests.acceptance.running import Doors
from tests.contracts.agentmemory.calling import Api, Json, ok


def context(api: Api, project: str, /, **options: Any) -> Json:
    return ok(api.post("context", **{"sessionId": "asking", "project": project, **options}))


def lesson(api: Api, content: str, **fields: Any) -> None:
    assert api.post("lessons", content=content, **fields).is_success


@contextmanager
def pinned_slots(api: Api, name: str, **contents: str) -> Generator[None]:
    """Slots of all projects, those called `hidden` not pinned; they are deleted afterwards."""
    for label, content in contents.items():
        fields = {"label": f"{label}_{name}", "content": content, "scope": "global", "pinned": label != "hidden"}
        ok(api.post("slot", **fields), 201)
    try:
        yield
    finally:
        for label in contents:
            ok(api.http.delete(f"/agentmemory/slot?label={label}_{name}"))


def edited(api: Api, session: str, path: str, **fields: Any) -> str:
    data = {"tool_name": "Edit", "tool_input": {"file_path": path}, "tool_output": f"{session} edited it"}
    return api.hook(session, "post_tool_use", data=data, **fields)


@pytest.mark.covers("POST /agentmemory/context")
def test_where_nothing_is_known_nothing_is_said(configured: Doors, name: str):
    """On a server without slots and lessons of no project: these are everybody's."""
    with httpx.Client(base_url=configured.agentmemory, timeout=60, trust_env=False) as http:
        assert context(Api(http), name) == {"context": "", "blocks": 0, "tokens": 0}


@pytest.mark.covers("POST /agentmemory/context")
def test_a_context_is_wrapped_and_counted(api: Api, name: str):
    lesson(api, f"{name} is slow", project=name)
    answer = context(api, name)
    assert answer["context"].startswith(f'<agentmemory-context project="{name}">')
    assert answer["context"].endswith("</agentmemory-context>")
    assert answer["blocks"] >= 1
    assert math.ceil(len(answer["context"]) / 3) <= answer["tokens"] + answer["blocks"] + 2 <= 2002


@pytest.mark.covers("POST /agentmemory/context")
def test_the_name_of_a_project_cannot_break_out(api: Api, name: str):
    project = f'{name}"><b>&'
    lesson(api, f"{name} is slow", project=project)
    header, *_ = context(api, project)["context"].splitlines()
    assert ElementTree.fromstring(header + "</agentmemory-context>").attrib == {"project": project}


@pytest.mark.covers("POST /agentmemory/context")
def test_a_lesson_is_a_line_with_its_confidence_and_context_in_its_project_alone(api: Api, name: str):
    lesson(api, f"{name} must not be polled", context="while it warms up", confidence=0.8, project=name)
    (line,) = [line for line in context(api, name)["context"].splitlines() if f"{name} must not be polled" in line]
    assert "0.80" in line
    assert "while it warms up" in line
    assert name not in context(api, f"{name}x")["context"].replace(f"{name}x", "")


@pytest.mark.covers("POST /agentmemory/context")
def test_the_surest_lessons_come_first_and_only_ten(api: Api, name: str):
    for number in range(12):
        lesson(api, f"{name} lesson {number:02}", confidence=0.99 - number / 100, project=name)
    text = context(api, name)["context"]
    entries = [number for number in range(12) if f"{name} lesson {number:02}" in text]
    assert entries == list(range(10))
    places = [text.index(f"{name} lesson {number:02}") for number in entries]
    assert places == sorted(places)


@pytest.mark.covers("POST /agentmemory/context", "POST /agentmemory/slot")
def test_pinned_slots_come_before_lessons_and_those_before_sessions(trusted: Api, name: str):
    lesson(trusted, f"{name} lesson", project=name)
    data = {"tool_name": "Edit", "tool_input": f"{name} session"}
    trusted.hook(f"{name}-1", "post_tool_failure", project=name, data=data)
    with pinned_slots(trusted, name, s=f"{name} slot", hidden=f"{name} hidden"):
        text = context(trusted, name)["context"]
    assert text.index(f"{name} slot") < text.index(f"{name} lesson") < text.rindex(f"{name} session")
    assert f"{name} hidden" not in text


@pytest.mark.covers("POST /agentmemory/context")
def test_a_block_that_does_not_fit_is_passed_over_for_the_next(trusted: Api, name: str):
    lesson(trusted, f"{name} lesson", project=name)
    with pinned_slots(trusted, name, s=f"{name} slot " + "word " * 300):
        text = context(trusted, name, budget=200)["context"]
    assert f"{name} slot" not in text
    assert f"{name} lesson" in text


@pytest.mark.covers("POST /agentmemory/context")
def test_a_context_tells_of_other_sessions_and_not_of_its_own(api: Api, name: str):
    for session in ("one", "two"):
        path = {"file_path": f"{session}_{name}.py"}
        api.hook(f"{name}-{session}", "post_tool_failure", project=name, data={"tool_name": "Edit", "tool_input": path})
    text = context(api, name, sessionId=f"{name}-one")["context"]
    sessions = text[text.rindex("##") :] if "##" in text else text
    assert f"two_{name}.py" in text
    assert f"one_{name}.py" not in sessions


@pytest.mark.covers("POST /agentmemory/context", "POST /agentmemory/summarize")
def test_a_context_has_the_profile_of_the_project_and_the_summary_of_a_session(api: Api, name: str):
    for _ in range(2):
        edited(api, f"{name}-1", f"src/{name}.py", project=name)
    assert f"src/{name}.py" in context(api, name, sessionId=f"{name}-2")["context"]
    summary = ok(api.post("summarize", sessionId=f"{name}-1"))["summary"]
    assert summary["title"] in context(api, name, sessionId=f"{name}-2")["context"]


@pytest.mark.covers("POST /agentmemory/context")
@pytest.mark.parametrize("budget", [60, 100, 200, 400])
def test_a_context_never_exceeds_its_budget(api: Api, name: str, budget: int):
    for number in range(5):
        lesson(api, f"{name} lesson {number} " + "word " * 20, project=name)
        api.hook(f"{name}-{number}", "prompt_submit", project=name, data={"prompt": f"prompt {number} " + "word " * 50})
    answer = context(api, name, budget=budget)
    assert answer["tokens"] <= budget
    assert math.ceil(len(answer["context"]) / 3) <= budget


@pytest.mark.covers("POST /agentmemory/session/start")
def test_a_session_starts_with_the_lessons_of_its_project(api: Api, name: str):
    lesson(api, f"{name} must not be polled", project=name)
    ok(api.get("lessons", project=name))
    fields = {"project": name, "cwd": "/"}
    contexts = [ok(api.post("session/start", sessionId=f"{name}-{n}", **fields))["context"] for n in range(20)]
    assert any(f"{name} must not be polled" in text for text in contexts), (
        "a busy server may leave it out, now and then"
    )


def enrich(api: Api, session: str, files: list[str], **options: Any) -> Json:
    return ok(api.post("enrich", **{"sessionId": session, "files": files, "terms": [], **options}))


def block(text: str, name: str) -> str:
    """The part of a text between the tags of that name."""
    return text[text.index(f"<{name}>") : text.index(f"</{name}>")]


@pytest.mark.covers("POST /agentmemory/enrich")
def test_of_a_file_nobody_knows_nothing_is_said(trusted: Api, name: str):
    assert enrich(trusted, name, [f"src/{name}.py"], project=name) == {"context": "", "truncated": False}


@pytest.mark.covers("POST /agentmemory/enrich")
@pytest.mark.parametrize("folder", ["", "/home/ada/shop/"])
def test_what_other_sessions_did_to_a_file_is_told_by_the_end_of_its_path(api: Api, name: str, folder: str):
    edited(api, f"{name}-1", f"{folder}src/{name}.py")
    answer = enrich(api, f"{name}-2", [f"src/{name}.py"])
    assert f"Edit `{folder}src/{name}.py`" in block(answer["context"], "agentmemory-file-context")
    assert answer["truncated"] is False


@pytest.mark.covers("POST /agentmemory/enrich")
def test_a_session_is_not_told_what_it_did_itself(trusted: Api, name: str):
    edited(trusted, name, f"src/{name}.py")
    assert "<agentmemory-file-context>" not in enrich(trusted, name, [f"src/{name}.py"])["context"]


@pytest.mark.covers("POST /agentmemory/enrich")
def test_what_a_search_finds_is_told_and_escaped(api: Api, name: str):
    api.hook(name, "prompt_submit", project=name, data={"prompt": f"{name} <b>is & stays</b>"})
    text = enrich(api, f"{name}-2", [f"{name}.py"], terms=[name], toolName="Grep", project=name)["context"]
    assert f"{name} &lt;b&gt;is &amp; stays&lt;/b&gt;" in block(text, "agentmemory-relevant-context")


@pytest.mark.covers("POST /agentmemory/enrich")
def test_bugs_of_a_file_are_told_and_other_memories_are_not(api: Api, name: str):
    api.remember(f"{name} leaks one connection", type="bug", files=[f"src/{name}.py"], project=name)
    api.remember(f"{name} is formatted with black", type="preference", files=[f"src/{name}.py"], project=name)
    errors = block(enrich(api, name, [f"src/{name}.py"], project=name)["context"], "agentmemory-past-errors")
    assert f"{name} leaks one connection" in errors
    assert "formatted with black" not in errors


@pytest.mark.covers("POST /agentmemory/enrich")
def test_what_is_too_much_to_say_is_cut_at_4000_characters(api: Api, name: str):
    for number in range(6):
        content = f"{name} bug {number} " + f"word{number} " * 600
        api.remember(content, type="bug", files=[f"src/{name}.py"], project=name)
    answer = enrich(api, name, [f"src/{name}.py"], terms=[name], project=name)
    assert answer["truncated"] is True
    assert 3000 < len(answer["context"]) <= 4000


@pytest.mark.covers("POST /agentmemory/enrich")
def test_globs_and_folders_are_files_too(api: Api, name: str):
    edited(api, f"{name}-1", f"src/{name}/pool.py")
    assert isinstance(enrich(api, f"{name}-2", [f"src/{name}/**/*.py", "src/"], terms=["pool.*"])["context"], str)


@pytest.mark.covers("POST /agentmemory/claude-bridge/sync")
@pytest.mark.parametrize("body", [{}, {"anything": 1}])
def test_the_bridge_is_always_in_sync(api: Api, body: Json):
    assert ok(api.post("claude-bridge/sync", **body))["success"] is True
