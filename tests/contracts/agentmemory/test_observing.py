"""Observations: what a hook tells, and what is made of it."""

import json
from typing import Any

import httpx
import pytest

from tests.acceptance.running import Doors
from tests.contracts.agentmemory.calling import PNG, WHEN, Api, Json, failed, ok, refused

JPEG = "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////////////////"


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize("missing", ["sessionId", "hookType", "timestamp"])
def test_an_observation_needs_a_session_a_hook_and_a_time(api: Api, name: str, missing: str):
    fields = {"sessionId": name, "hookType": "notification", "timestamp": WHEN, "project": name}
    del fields[missing]
    refused(api.post("observe", **fields))


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize("data", [{}, None, "a text", 7, ["a", {"b": None}], {"prompt": None}])
def test_any_data_is_an_observation(api: Api, name: str, data: object):
    api.hook(name, "step_finish", data=data, title=None, project=None, more=1)
    assert api.session(name)["observationCount"] == 1


@pytest.mark.covers("POST /agentmemory/observe")
def test_a_tool_input_of_five_megabytes_is_cut_and_says_so(api: Api, name: str):
    text = ("line of code\n" * 5_040)[:65_530] + "ghp_" + "a" * 36 + "x = 1\n" * 800_000
    api.observe(name, tool_name="Write", tool_input={"file_path": "a.py", "content": text})
    observation = api.seen(name)["toolInput"]
    assert observation["file_path"] == "a.py"
    assert observation["content"].startswith("line of code\n")
    assert f"of {len(text):,} characters are kept]" in observation["content"]
    assert "ghp_" not in json.dumps(observation)


@pytest.mark.covers("POST /agentmemory/observe")
def test_a_full_session_is_200_with_an_error(configured: Doors):
    with httpx.Client(base_url=configured.agentmemory, timeout=60, trust_env=False) as http:
        for number in range(3):
            Api(http).hook("full", "notification", data={"n": number})
        fields: Json = {"sessionId": "full", "hookType": "notification", "timestamp": WHEN, "data": {}}
        assert "3" in failed(Api(http).post("observe", **fields))


@pytest.mark.covers("POST /agentmemory/observe")
def test_every_observation_has_an_id_of_its_own_though_it_says_the_same(api: Api, name: str):
    ids = {api.observe(name, tool_name="Bash", tool_input="ls") for _ in range(3)}
    assert len(ids) == 3
    assert api.session(name)["observationCount"] == 3


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/observations")
def test_the_use_of_a_tool_is_kept_as_told_and_compressed(api: Api, name: str):
    data: Json = {"tool_name": "Edit", "tool_input": {"file_path": "src/pool.py", "n": 1}, "tool_output": "ok"}
    results = api.hook(name, "post_tool_use", data=data)
    observation = api.seen(name)
    assert (observation["id"], observation["sessionId"], observation["timestamp"]) == (results, name, WHEN)
    assert (observation["hookType"], observation["raw"]) == ("post_tool_use", data)
    assert (observation["toolName"], observation["toolInput"], observation["toolOutput"]) == (
        "Edit",
        data["tool_input"],
        "ok",
    )
    assert (observation["type"], observation["title"], observation["files"]) == ("file_edit", "Edit", ["src/pool.py"])
    assert (observation["confidence"], observation["facts"]) == (0.3, [])
    assert isinstance(observation["concepts"], list)
    assert "userPrompt" not in observation


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/observations")
@pytest.mark.xfail(strict=True, reason="rules weigh what was done: an edit is of importance 6, not 5")
def test_what_rules_made_is_of_importance_5(api: Api, name: str):
    api.observe(name, tool_name="Edit", tool_input={"file_path": "a.py"})
    assert api.seen(name)["importance"] == 5


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/observations")
def test_a_prompt_is_kept_as_the_users(api: Api, name: str):
    api.hook(name, "prompt_submit", data={"prompt": "make it fast", "tool_name": "Bash"})
    observation = api.seen(name)
    assert (observation["userPrompt"], observation["type"]) == ("make it fast", "conversation")
    assert "toolName" not in observation


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/observations")
def test_the_output_of_a_failure_is_its_error(api: Api, name: str):
    api.hook(name, "post_tool_failure", data={"tool_name": "Bash", "tool_input": "make", "error": "exit 2"})
    observation = api.seen(name)
    assert (observation["type"], observation["toolName"], observation["toolInput"]) == ("error", "Bash", "make")
    assert observation["toolOutput"] == "exit 2"


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/observations")
def test_a_failure_may_have_its_error_as_output(api: Api, name: str):
    api.hook(name, "post_tool_failure", data={"tool_name": "Bash", "tool_output": "exit 2", "error": "other"})
    assert api.seen(name)["toolOutput"] == "exit 2"


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/observations")
def test_other_hooks_have_no_tool_and_no_prompt(api: Api, name: str):
    api.hook(name, "notification", data={"tool_name": "Bash", "prompt": "p", "message": "m"})
    observation = api.seen(name)
    assert not observation.keys() & {"toolName", "toolInput", "toolOutput", "userPrompt"}


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("hook", "tool", "kind"),
    [
        ("post_tool_failure", "Edit", "error"),
        ("prompt_submit", "", "conversation"),
        ("subagent_stop", "", "subagent"),
        ("task_completed", "", "subagent"),
        ("notification", "", "notification"),
        ("post_tool_use", "WebFetch", "web_fetch"),
        ("post_tool_use", "http_get", "web_fetch"),
        ("post_tool_use", "WebSearch", "web_fetch"),
        ("post_tool_use", "Grep", "search"),
        ("post_tool_use", "Glob", "search"),
        ("post_tool_use", "codebase_search", "search"),
        ("post_tool_use", "findFiles", "search"),
        ("post_tool_use", "Bash", "command_run"),
        ("post_tool_use", "run_terminal-cmd", "command_run"),
        ("post_tool_use", "ShellTool", "command_run"),
        ("post_tool_use", "MultiEdit", "file_edit"),
        ("post_tool_use", "apply_patch", "file_edit"),
        ("post_tool_use", "str_replace", "file_edit"),
        ("post_tool_use", "TodoWrite", "file_write"),
        ("post_tool_use", "create file", "file_write"),
        ("post_tool_use", "Read", "file_read"),
        ("post_tool_use", "view_file", "file_read"),
        ("post_tool_use", "readfile", "file_read"),
        ("post_tool_use", "Task", "subagent"),
        ("post_tool_use", "LaunchAgent", "subagent"),
        ("post_tool_use", "conversation", "other"),
    ],
)
def test_the_type_follows_from_the_hook_and_the_tool(api: Api, name: str, hook: str, tool: str, kind: str):
    api.hook(name, hook, data={"tool_name": tool} if tool else {})
    assert api.seen(name)["type"] == kind


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("hook", "data", "title"),
    [
        ("post_tool_use", {"tool_name": "Bash"}, "Bash"),
        ("post_tool_use", {"tool": "Bash"}, "post_tool_use"),
        ("subagent_start", {"agent_id": "a"}, "subagent_start"),
        ("post_tool_use", {"tool_name": "T" * 80}, "T" * 80),
        ("post_tool_use", {"tool_name": "T" * 81}, "T" * 79 + "…"),
    ],
)
def test_the_title_is_the_tool_or_the_hook(api: Api, name: str, hook: str, data: Json, title: str):
    api.hook(name, hook, data=data)
    assert api.seen(name)["title"] == title


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("given", "subtitle"),
    [("ls -l", "ls -l"), ("x" * 120, "x" * 120), ("x" * 121, "x" * 119 + "…"), ("", None), (None, None)],
)
def test_the_subtitle_is_the_input_or_absent(api: Api, name: str, given: str | None, subtitle: str | None):
    api.observe(name, tool_name="Bash", tool_input=given)
    assert api.seen(name).get("subtitle") == subtitle
    assert subtitle is not None or "subtitle" not in api.seen(name)


@pytest.mark.covers("POST /agentmemory/observe")
def test_an_object_is_its_json_in_the_subtitle(api: Api, name: str):
    api.observe(name, tool_name="Bash", tool_input={"command": "ls"})
    assert json.loads(api.seen(name)["subtitle"]) == {"command": "ls"}


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("hook", "data", "narrative"),
    [
        ("post_tool_use", {"tool_name": "B", "tool_input": "in", "tool_output": "out"}, "in | out"),
        ("post_tool_use", {"tool_name": "B", "tool_input": "", "tool_output": "out"}, "out"),
        ("prompt_submit", {"prompt": "hello"}, "hello"),
        pytest.param(
            *("post_tool_use", {"tool_name": "B"}, ""),
            marks=pytest.mark.xfail(
                strict=True, reason="without prompt, input and output the narrative is the data, not empty"
            ),
        ),
        ("post_tool_use", {"tool_name": "B", "tool_output": "o" * 400}, "o" * 400),
        ("post_tool_use", {"tool_name": "B", "tool_output": "o" * 401}, "o" * 399 + "…"),
    ],
)
def test_the_narrative_is_prompt_input_and_output(api: Api, name: str, hook: str, data: Json, narrative: str):
    api.hook(name, hook, data=data)
    assert api.seen(name)["narrative"] == narrative


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"file_path": "a", "filepath": "b", "path": "c", "filePath": "d", "file": "e", "pattern": "f"}, set("abcde")),
        ({"file_path": "a", "path": "a"}, {"a"}),
        ({"file_path": "", "path": "x" * 512, "file": 7}, set[str]()),
        ({"path": "x" * 511}, {"x" * 511}),
        ({"other": "a"}, set[str]()),
        ("a.py", set[str]()),
    ],
)
def test_the_files_are_those_the_input_names(api: Api, name: str, given: object, files: set[str]):
    api.observe(name, tool_name="Edit", tool_input=given)
    results = api.seen(name)["files"]
    assert set(results) == files
    assert len(results) == len(files)


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    "data",
    [
        {"image_data": PNG},
        {"image_data": JPEG},
        {"image_data": f"data:image/png;base64,{PNG}"},
        {"imageBase64": PNG},
        {"tool_output": {"content": [{"source": {"data": f"data:image/png;base64,{PNG}"}}]}},
        {"tool_output": [{"deep": {"bytes": PNG}}]},
    ],
)
def test_an_image_is_found_wherever_it_is(api: Api, name: str, data: Json):
    api.hook(name, "post_tool_use", data=data)
    observation = api.seen(name)
    assert observation["modality"] in ("image", "mixed")
    assert observation["imageData"]


@pytest.mark.covers("POST /agentmemory/observe")
def test_the_bytes_of_an_image_are_not_in_the_record(api: Api, name: str):
    api.observe(name, tool_name="Shot", image_data=PNG)
    observation = api.seen(name)
    assert PNG not in json.dumps(observation)
    assert observation["imageData"].startswith("sha256-")
    assert observation["imageData"] in observation["raw"]["image_data"]


@pytest.mark.covers("POST /agentmemory/observe")
def test_an_image_with_a_text_is_mixed(api: Api, name: str):
    api.observe(name, tool_name="Shot", tool_output="here it is", image_data=PNG)
    assert api.seen(name)["modality"] == "mixed"


@pytest.mark.covers("POST /agentmemory/observe")
def test_an_image_alone_is_an_image(api: Api, name: str):
    api.hook(name, "post_tool_use", data={"image_data": PNG})
    assert api.seen(name)["modality"] == "image"


@pytest.mark.covers("POST /agentmemory/observe")
def test_a_text_has_no_image(api: Api, name: str):
    api.observe(name, tool_name="Bash", tool_output="iVBOR is how they begin")
    assert "imageData" not in api.seen(name)


@pytest.mark.covers("POST /agentmemory/observe", "POST /agentmemory/session/start")
def test_the_agent_of_an_observation_is_its_sessions(api: Api, name: str):
    api.start(name, agentId="ada")
    api.hook(name, "notification", agentId="bob")
    assert api.seen(name)["agentId"] == "ada"


SECRETS = [
    "sk-proj-abcdefghij0123456789",
    "sk-a1234567890123456789",
    "pk-a1234567890123456789",
    "rk-a1234567890123456789",
    "ak-a1234567890123456789",
    "sk-ant-abcdefghij0123456789",
    "ghp_" + "a" * 36,
    "ghu_" + "a" * 36,
    "ghs_" + "a" * 36,
    "github_pat_" + "a" * 22,
    "xoxb-123-abc",
    "AKIAIOSFODNN7EXAMPLF",
    "AIza" + "a" * 35,
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4",
    "npm_" + "a" * 36,
    "glpat-" + "a" * 20,
    "dop_v1_" + "a" * 64,
    "Bearer abcdefghij0123456789",
    "bearer abcdefghij0123456789",
    "api_key=abcdefghij0123456789",
    "API-KEY: 'abcdefghij0123456789'",
    'password = "abcdefghij0123456789"',
    "token: ghp_" + "a" * 30,
    "SK-PROJ-ABCDEFGHIJ0123456789",
    "GHP_" + "A" * 36,
    "credential=abcdefghij/.-_+0123456789",
]


def told(api: Api, session: str, text: str) -> str:
    """What is kept of a tool's output."""
    api.observe(session, tool_name="Bash", tool_output=text)
    observation = api.seen(session)
    assert observation["raw"]["tool_output"] == observation["toolOutput"]
    return observation["toolOutput"]


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_not_kept(api: Api, name: str, secret: str):
    stored = told(api, name, f"before {secret} after")
    assert stored == "before [REDACTED_SECRET] after"
    assert api.seen(name)["narrative"] == stored


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <private>x</private> b", "a [REDACTED] b"),
        ("a <PRIVATE>x\ny</Private> b", "a [REDACTED] b"),
        ("<private>x</private> b <private>y</private>", "[REDACTED] b [REDACTED]"),
        ("a <private>never closed", "a [REDACTED]"),
    ],
)
def test_a_private_block_is_not_kept(api: Api, name: str, text: str, expected: str):
    assert told(api, name, text) == expected


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    "text",
    [
        "api_key=short",
        "task-management-system-overview-doc",
        "ask-me-anything-about-the-system-2",
        "xghp_" + "a" * 36,
        "the token is in the safe",
        "",
    ],
)
def test_what_is_no_secret_stays(api: Api, name: str, text: str):
    api.observe(name, tool_name="Bash", tool_output={"text": text})
    assert api.seen(name)["toolOutput"] == {"text": text}


@pytest.mark.covers("POST /agentmemory/observe")
def test_several_secrets_in_one_text_all_go(api: Api, name: str):
    stored = told(api, name, f"{SECRETS[6]} and {SECRETS[11]} and {SECRETS[10]}")
    assert stored == "[REDACTED_SECRET] and [REDACTED_SECRET] and [REDACTED_SECRET]"


@pytest.mark.covers("POST /agentmemory/observe")
def test_a_key_before_an_equals_sign_that_is_no_keyword_stays(api: Api, name: str):
    assert told(api, name, "key=AKIAIOSFODNN7EXAMPLF") == "key=[REDACTED_SECRET]"


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize("key", ["password", "api_key", "apiKey", "token", "secret"])
def test_a_value_under_the_name_of_a_secret_goes(api: Api, name: str, key: str):
    api.observe(name, tool_name="Http", tool_input={"body": {key: "abcdefghij0123456789"}, "n": 1})
    observation = api.seen(name)
    assert "abcdefghij0123456789" not in json.dumps(observation)
    assert observation["toolInput"]["n"] == 1


@pytest.mark.covers("POST /agentmemory/observe")
def test_a_secret_at_the_end_of_a_text_takes_nothing_else_along(api: Api, name: str):
    api.observe(name, tool_name="Http", tool_input={"a": "token: abcdefghij0123456789", "b": "kept"}, tool_output="o")
    observation = api.seen(name)
    assert observation["toolInput"] == {"a": "[REDACTED_SECRET]", "b": "kept"}
    assert observation["toolOutput"] == "o"


@pytest.mark.covers("POST /agentmemory/observe")
def test_secrets_are_nowhere_in_a_prompt_or_a_first_prompt(api: Api, name: str):
    api.hook(name, "prompt_submit", data={"prompt": f"use {SECRETS[6]} <private>at home</private>"})
    assert api.seen(name)["userPrompt"] == "use [REDACTED_SECRET] [REDACTED]"
    assert api.session(name)["firstPrompt"] == "use [REDACTED_SECRET] [REDACTED]"


@pytest.mark.covers("POST /agentmemory/observe", "POST /agentmemory/search")
def test_a_secret_is_not_found_by_a_search(api: Api, name: str):
    secret = "ghp_" + name * 3
    api.observe(name, tool_name="Bash", tool_output=f"use {secret}")
    assert secret not in json.dumps(api.search(secret))


@pytest.mark.covers("POST /agentmemory/remember", "POST /agentmemory/lessons", "POST /agentmemory/slot")
def test_memories_lessons_and_slots_lose_their_secrets_too(api: Api, name: str):
    text = f"{name} <private>x</private> {SECRETS[6]}"
    stripped = f"{name} [REDACTED] [REDACTED_SECRET]"
    assert api.remember(text)["content"] == stripped
    lesson = ok(api.post("lessons", content=text, context=text, project=name), 201)["lesson"]
    assert (lesson["content"], lesson["context"]) == (stripped, stripped)
    slot = ok(api.post("slot", label=name, content=text, pinned=False), 201)["slot"]
    assert slot["content"] == stripped
    ok(api.http.delete(f"/agentmemory/slot?label={name}"))


@pytest.mark.covers("GET /agentmemory/observations")
def test_observations_are_listed_oldest_first(api: Api, name: str):
    for day in (2, 3, 1):
        api.hook(name, "notification", timestamp=f"2026-01-0{day}T00:00:00.000Z")
    assert [observation["timestamp"][9] for observation in api.observations(name)] == ["1", "2", "3"]


@pytest.mark.covers("GET /agentmemory/observations")
def test_an_unknown_session_has_no_observations(api: Api, name: str):
    assert api.observations(name) == []


@pytest.mark.covers("GET /agentmemory/observations")
@pytest.mark.parametrize("query", [{}, {"sessionId": ""}, {"agentId": "ada"}])
def test_observations_are_asked_for_by_session(api: Api, query: dict[str, Any]):
    assert refused(api.get("observations", **query)) == "sessionId required"


@pytest.mark.covers("GET /agentmemory/observations")
@pytest.mark.parametrize("agent", ["ada", "bob", "*"])
def test_every_agent_reads_the_observations_of_all(api: Api, name: str, agent: str):
    """As long as agents are not isolated."""
    api.start(name, agentId="ada")
    api.observe(name, tool_name="Bash")
    assert len(ok(api.get("observations", sessionId=name, agentId=agent))["observations"]) == 1


@pytest.mark.covers("POST /agentmemory/agent/observe")
def test_what_an_agent_says_itself_is_an_observation_of_a_tool(api: Api, name: str):
    fields: Json = {"sessionId": name, "project": name, "cwd": "/src", "text": "the pool leaks", "title": "Leak"}
    results = ok(api.post("agent/observe", **fields, type="discovery", agentId="ada"), 201)["observationId"]
    observation = api.seen(name)
    assert (observation["id"], observation["hookType"], observation["toolName"]) == (results, "post_tool_use", "Leak")
    assert (observation["toolInput"], observation["toolOutput"]) == ("the pool leaks", "the pool leaks")
    assert observation["agentId"] == "ada"
    row = api.session(name)
    assert (row["project"], row["cwd"], row["observationCount"]) == (name, "/src", 1)


@pytest.mark.covers("POST /agentmemory/agent/observe")
@pytest.mark.parametrize(("kind", "title"), [({"type": "decision"}, "agent_decision"), ({}, "agent_other")])
def test_what_an_agent_says_is_titled_by_its_type(api: Api, name: str, kind: Json, title: str):
    ok(api.post("agent/observe", sessionId=name, project=name, content="said", **kind), 201)
    observation = api.seen(name)
    assert (observation["toolName"], observation["title"], observation["toolInput"]) == (title, title, "said")


@pytest.mark.covers("POST /agentmemory/agent/observe")
@pytest.mark.parametrize("missing", ["sessionId", "project", "text"])
def test_an_agent_names_session_project_and_text(api: Api, name: str, missing: str):
    fields = {"sessionId": name, "project": name, "text": "said"}
    del fields[missing]
    refused(api.post("agent/observe", **fields))


@pytest.mark.covers("POST /agentmemory/agent/observe")
def test_what_an_agent_says_may_come_with_an_image(api: Api, name: str):
    ok(api.post("agent/observe", sessionId=name, project=name, text="look", imageData=PNG), 201)
    assert api.seen(name)["imageData"]
    assert api.seen(name)["modality"] == "mixed"
