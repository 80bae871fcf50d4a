"""Observations: what a hook tells, and what is made of it.

The stream of the viewer: what it says of an observation, to whom, and that nobody can hold it up.
"""

import asyncio
import json
import random
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.acceptance.running import Doors
from tests.contracts.agentmemory.calling import PNG, WHEN, Api, Json, failed, ok

JPEG = "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////////////////"


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
    observation = api.hook(name, "post_tool_use", data=data)
    stored = api.seen(name)
    expected = {
        **{"id": observation, "sessionId": name, "timestamp": WHEN, "hookType": "post_tool_use", "raw": data},
        **{"toolName": "Edit", "toolInput": data["tool_input"], "toolOutput": "ok", "type": "file_edit"},
        **{"title": "Edit", "files": ["src/pool.py"], "confidence": 0.3, "facts": []},
    }
    assert {key: stored[key] for key in expected} == expected
    assert isinstance(stored["concepts"], list)
    assert "userPrompt" not in stored


def cases(kind: str, *tools: str) -> list[tuple[str, Json, Json]]:
    return [("post_tool_use", {"tool_name": tool}, {"type": kind}) for tool in tools]


def differs(reason: str, *case: object) -> Any:
    return pytest.param(*case, marks=pytest.mark.xfail(strict=True, reason=reason))


TOOL = {"tool_name": "B"}
OBSERVED: list[Any] = [
    differs("rules weigh what was done: an edit is of importance 6, not 5",
            "post_tool_use", {"tool_name": "Edit", "tool_input": {"file_path": "a.py"}}, {"importance": 5}),
    ("prompt_submit", {"prompt": "make it fast", "tool_name": "Bash"},
     {"userPrompt": "make it fast", "type": "conversation", "toolName": None}),
    ("post_tool_failure", {"tool_name": "Bash", "tool_input": "make", "error": "exit 2"},
     {"type": "error", "toolName": "Bash", "toolInput": "make", "toolOutput": "exit 2"}),
    ("post_tool_failure", {"tool_name": "Bash", "tool_output": "exit 2", "error": "other"}, {"toolOutput": "exit 2"}),
    ("notification", {"tool_name": "Bash", "prompt": "p", "message": "m"},
     dict.fromkeys(("toolName", "toolInput", "toolOutput", "userPrompt"))),
    ("post_tool_failure", {"tool_name": "Edit"}, {"type": "error"}),
    ("prompt_submit", {}, {"type": "conversation"}),
    ("subagent_stop", {}, {"type": "subagent"}),
    ("task_completed", {}, {"type": "subagent"}),
    ("notification", {}, {"type": "notification"}),
    *cases("web_fetch", "WebFetch", "http_get", "WebSearch"),
    *cases("search", "Grep", "Glob", "codebase_search", "findFiles"),
    *cases("command_run", "Bash", "run_terminal-cmd", "ShellTool"),
    *cases("file_edit", "MultiEdit", "apply_patch", "str_replace"),
    *cases("file_write", "TodoWrite", "create file"),
    *cases("file_read", "Read", "view_file", "readfile"),
    *cases("subagent", "Task", "LaunchAgent"),
    *cases("other", "conversation"),
    ("post_tool_use", {"tool_name": "Bash"}, {"title": "Bash"}),
    ("post_tool_use", {"tool": "Bash"}, {"title": "post_tool_use"}),
    ("subagent_start", {"agent_id": "a"}, {"title": "subagent_start"}),
    ("post_tool_use", {"tool_name": "T" * 80}, {"title": "T" * 80}),
    ("post_tool_use", {"tool_name": "T" * 81}, {"title": "T" * 79 + "…"}),
    *(("post_tool_use", {"tool_name": "Bash", "tool_input": given}, {"subtitle": subtitle})
      for given, subtitle in (("ls -l", "ls -l"), ("x" * 120, "x" * 120), ("x" * 121, "x" * 119 + "…"), ("", None),
                              (None, None))),
    ("post_tool_use", {**TOOL, "tool_input": "in", "tool_output": "out"}, {"narrative": "in | out"}),
    ("post_tool_use", {**TOOL, "tool_input": "", "tool_output": "out"}, {"narrative": "out"}),
    ("prompt_submit", {"prompt": "hello"}, {"narrative": "hello"}),
    differs("without prompt, input and output the narrative is the data, not empty",
            "post_tool_use", TOOL, {"narrative": ""}),
    ("post_tool_use", {**TOOL, "tool_output": "o" * 400}, {"narrative": "o" * 400}),
    ("post_tool_use", {**TOOL, "tool_output": "o" * 401}, {"narrative": "o" * 399 + "…"}),
    ("post_tool_use", {"tool_name": "Shot", "tool_output": "here it is", "image_data": PNG}, {"modality": "mixed"}),
    ("post_tool_use", {"image_data": PNG}, {"modality": "image"}),
    ("post_tool_use", {"tool_name": "Bash", "tool_output": "iVBOR is how they begin"}, {"imageData": None}),
]  # fmt: skip
"""A hook, its data, and fields of the observation; None for a field that it does not have."""


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/observations")
@pytest.mark.parametrize(("hook", "data", "expected"), OBSERVED)
def test_what_a_hook_tells_becomes_an_observation(api: Api, name: str, hook: str, data: Json, expected: Json):
    api.hook(name, hook, data=data)
    stored = api.seen(name)
    assert {key: stored.get(key) for key in expected} == expected
    assert not [key for key, value in expected.items() if value is None and key in stored]


@pytest.mark.covers("POST /agentmemory/observe")
def test_an_object_is_its_json_in_the_subtitle(api: Api, name: str):
    api.observe(name, tool_name="Bash", tool_input={"command": "ls"})
    assert json.loads(api.seen(name)["subtitle"]) == {"command": "ls"}


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"file_path": "a", "filepath": "b", "path": "c", "filePath": "d", "file": "e", "pattern": "f"}, [*"abcde"]),
        ({"file_path": "a", "path": "a"}, ["a"]),
        ({"file_path": "", "path": "x" * 512, "file": 7}, []),
        ({"path": "x" * 511}, ["x" * 511]),
        ({"other": "a"}, []),
        ("a.py", []),
    ],
)
def test_the_files_are_those_the_input_names(api: Api, name: str, given: object, files: list[str]):
    api.observe(name, tool_name="Edit", tool_input=given)
    assert sorted(api.seen(name)["files"]) == files


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    "data",
    [
        *({"image_data": data} for data in (PNG, JPEG, f"data:image/png;base64,{PNG}")),
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


@pytest.mark.covers("POST /agentmemory/observe", "POST /agentmemory/session/start")
def test_the_agent_of_an_observation_is_its_sessions(api: Api, name: str):
    api.start(name, agentId="ada")
    api.hook(name, "notification", agentId="bob")
    assert api.seen(name)["agentId"] == "ada"


SECRETS = [
    "sk-proj-abcdefghij0123456789", "SK-PROJ-ABCDEFGHIJ0123456789", "sk-ant-abcdefghij0123456789",
    *(f"{kind}-a1234567890123456789" for kind in ("sk", "pk", "rk", "ak")),
    *(f"{kind}_" + "a" * 36 for kind in ("ghp", "ghu", "ghs", "npm")), "GHP_" + "A" * 36,
    "github_pat_" + "a" * 22, "xoxb-123-abc", "AKIAIOSFODNN7EXAMPLF", "AIza" + "a" * 35,
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeKKF2QT4", "glpat-" + "a" * 20, "dop_v1_" + "a" * 64,
    "Bearer abcdefghij0123456789", "bearer abcdefghij0123456789", "api_key=abcdefghij0123456789",
    "API-KEY: 'abcdefghij0123456789'", 'password = "abcdefghij0123456789"', "token: ghp_" + "a" * 30,
    "credential=abcdefghij/.-_+0123456789",
]  # fmt: skip
GITHUB, SLACK, AWS = "ghp_" + "a" * 36, "xoxb-123-abc", "AKIAIOSFODNN7EXAMPLF"


def stored_output(api: Api, session: str, text: str) -> str:
    """What is kept of a tool's output."""
    api.observe(session, tool_name="Bash", tool_output=text)
    observation = api.seen(session)
    assert observation["raw"]["tool_output"] == observation["toolOutput"]
    return observation["toolOutput"]


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_not_kept(api: Api, name: str, secret: str):
    assert stored_output(api, name, f"before {secret} after") == "before [REDACTED_SECRET] after"
    assert api.seen(name)["narrative"] == "before [REDACTED_SECRET] after"


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <private>x</private> b", "a [REDACTED] b"),
        ("a <PRIVATE>x\ny</Private> b", "a [REDACTED] b"),
        ("<private>x</private> b <private>y</private>", "[REDACTED] b [REDACTED]"),
        ("a <private>never closed", "a [REDACTED]"),
        (f"{GITHUB} and {AWS} and {SLACK}", "[REDACTED_SECRET] and [REDACTED_SECRET] and [REDACTED_SECRET]"),
        (f"key={AWS}", "key=[REDACTED_SECRET]"),
    ],
)
def test_private_blocks_and_several_secrets_are_not_kept(api: Api, name: str, text: str, expected: str):
    assert stored_output(api, name, text) == expected


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    "text",
    ["api_key=short", "task-management-system-overview-doc", "ask-me-anything-about-the-system-2", "xghp_" + "a" * 36,
     "the token is in the safe", ""],
)  # fmt: skip
def test_what_is_no_secret_stays(api: Api, name: str, text: str):
    api.observe(name, tool_name="Bash", tool_output={"text": text})
    assert api.seen(name)["toolOutput"] == {"text": text}


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
    api.hook(name, "prompt_submit", data={"prompt": f"use {GITHUB} <private>at home</private>"})
    assert api.seen(name)["userPrompt"] == "use [REDACTED_SECRET] [REDACTED]"
    assert api.session(name)["firstPrompt"] == "use [REDACTED_SECRET] [REDACTED]"


@pytest.mark.covers("POST /agentmemory/observe", "POST /agentmemory/search")
def test_a_secret_is_not_found_by_a_search(api: Api, name: str):
    secret = "ghp_" + name * 3
    api.observe(name, tool_name="Bash", tool_output=f"use {secret}")
    assert secret not in json.dumps(api.search(secret))


@pytest.mark.covers("POST /agentmemory/remember", "POST /agentmemory/lessons", "POST /agentmemory/slot")
def test_memories_lessons_and_slots_lose_their_secrets_too(api: Api, name: str):
    text = f"{name} <private>x</private> {GITHUB}"
    stripped = f"{name} [REDACTED] [REDACTED_SECRET]"
    assert api.remember(text)["content"] == stripped
    lesson = ok(api.post("lessons", content=text, context=text, project=name), 201)["lesson"]
    assert (lesson["content"], lesson["context"]) == (stripped, stripped)
    slot = ok(api.post("slot", label=name, content=text, pinned=False), 201)["slot"]
    assert slot["content"] == stripped
    ok(api.http.delete(f"/agentmemory/slot?label={name}"))


@pytest.mark.covers("GET /agentmemory/observations")
def test_observations_are_listed_oldest_first_to_every_agent(api: Api, name: str):
    """As long as agents are not isolated."""
    api.start(name, agentId="ada")
    for day in (2, 3, 1):
        api.hook(name, "notification", timestamp=f"2026-01-0{day}T00:00:00.000Z")
    for query in ({}, {"agentId": "ada"}, {"agentId": "bob"}, {"agentId": "*"}):
        listed = ok(api.get("observations", sessionId=name, **query))["observations"]
        assert [observation["timestamp"][9] for observation in listed] == ["1", "2", "3"], query
    assert api.observations(f"{name}-none") == []


@pytest.mark.covers("POST /agentmemory/agent/observe")
def test_what_an_agent_says_itself_is_an_observation_of_a_tool(api: Api, name: str):
    fields: Json = {"sessionId": name, "project": name, "cwd": "/src", "text": "the pool leaks", "title": "Leak"}
    observation = ok(api.post("agent/observe", **fields, type="discovery", agentId="ada"), 201)["observationId"]
    stored = api.seen(name)
    assert (stored["id"], stored["hookType"], stored["toolName"]) == (observation, "post_tool_use", "Leak")
    assert (stored["toolInput"], stored["toolOutput"]) == ("the pool leaks", "the pool leaks")
    assert stored["agentId"] == "ada"
    row = api.session(name)
    assert (row["project"], row["cwd"], row["observationCount"]) == (name, "/src", 1)


@pytest.mark.covers("POST /agentmemory/agent/observe")
@pytest.mark.parametrize(("kind", "title"), [({"type": "decision"}, "agent_decision"), ({}, "agent_other")])
def test_what_an_agent_says_is_titled_by_its_type(api: Api, name: str, kind: Json, title: str):
    ok(api.post("agent/observe", sessionId=name, project=name, content="said", **kind), 201)
    observation = api.seen(name)
    assert (observation["toolName"], observation["title"], observation["toolInput"]) == (title, title, "said")


@pytest.mark.covers("POST /agentmemory/agent/observe")
def test_what_an_agent_says_may_come_with_an_image(api: Api, name: str):
    ok(api.post("agent/observe", sessionId=name, project=name, text="look", imageData=PNG), 201)
    assert api.seen(name)["imageData"]
    assert api.seen(name)["modality"] == "mixed"


STREAM = "/stream/mem-live/viewer"
PATIENT_S = 60.0
AT_ONCE = 20


@asynccontextmanager
async def watching(url: str, path: str = STREAM, **options: Any) -> AsyncGenerator[ClientConnection]:
    """A viewer that is connected and sees what happens from now on."""
    address = url.replace("http://", "ws://") + path
    async with connect(address, open_timeout=PATIENT_S, proxy=None, max_size=None, **options) as stream:
        yield stream


async def observe(client: httpx.AsyncClient, session: str, output: str = "done") -> str:
    fields = {
        "sessionId": session,
        "project": f"project-{session}",
        "hookType": "post_tool_use",
        "timestamp": "2026-01-31T12:00:00.000Z",
        "data": {"tool_name": "Edit", "tool_input": {"file_path": "src/pool.ts"}, "tool_output": output},
    }
    answer = await client.post("/agentmemory/observe", json=fields)
    assert answer.status_code == 201, answer.text
    return answer.json()["observationId"]


async def frames_of(stream: ClientConnection, session: str, count: int) -> list[dict[str, Any]]:
    """The next frames of a session; others are passed over."""
    results: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENT_S):
        while len(results) < count:
            frame = json.loads(await stream.recv())
            results += [frame] if frame["sessionId"] == session else []
    return results


async def until_closed(stream: ClientConnection) -> int:
    """How many frames still come before the connection is closed, in whichever way."""
    received = 0
    async with asyncio.timeout(PATIENT_S):
        try:
            while await stream.recv():
                received += 1
        except ConnectionClosed:
            return received
    raise AssertionError("an empty frame")


def client_of(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=PATIENT_S, trust_env=False)


@pytest.mark.covers("WS /stream/mem-live/viewer")
@pytest.mark.parametrize("path", [STREAM, "/", f"/{STREAM}"])
async def test_an_observation_is_told_as_it_came_and_then_compressed(doors: Doors, name: str, path: str):
    """At the root, too, where older pages join a stream; what they say is passed over."""
    async with watching(doors.agentmemory, path) as stream, client_of(doors.agentmemory) as client:
        await stream.send(json.dumps({"type": "join", "data": {"streamName": "mem-live", "groupId": "viewer"}}))
        observation = await observe(client, name)
        raw, compressed = await frames_of(stream, name, 2)
    assert [raw["type"], compressed["type"]] == ["raw_observation", "compressed_observation"]
    for frame, form in ((raw, "raw"), (compressed, "compressed")):
        assert frame["event_type"] == "observation"
        assert (frame["data"]["type"], frame["data"]["sessionId"]) == (form, name)
        answer = frame["data"]["observation"]
        assert (answer["id"], answer["timestamp"]) == (observation, "2026-01-31T12:00:00.000Z")
    assert raw["data"]["observation"]["toolOutput"] == "done"
    assert compressed["data"]["observation"]["files"] == ["src/pool.ts"]
    assert "raw" not in compressed["data"]["observation"]


@pytest.mark.covers("WS /stream/mem-live/viewer")
async def test_a_secret_is_kept_out_of_the_stream(doors: Doors, name: str):
    async with watching(doors.agentmemory) as stream, client_of(doors.agentmemory) as client:
        await observe(client, name, f"token: ghp_{'a' * 36} and <private>my diary</private>")
        answer = json.dumps(await frames_of(stream, name, 2))
    assert "ghp_" not in answer
    assert "diary" not in answer


@pytest.mark.covers("WS /stream/mem-live/viewer")
async def test_a_page_of_a_stranger_is_not_connected(doors: Doors):
    with pytest.raises(InvalidStatus) as refused:
        async with watching(doors.agentmemory, origin="https://evil.example"):
            pass
    assert refused.value.response.status_code == 403


@pytest.mark.covers("WS /stream/mem-live/viewer")
async def test_a_viewer_that_takes_nothing_is_let_go_and_holds_up_nobody(doors: Doors, name: str):
    """It is sent more than its share and the kernel's buffers together; another viewer sees everything meanwhile."""
    fields, count = random.Random(1), 8 * AT_ONCE
    output = fields.randbytes(25_000).hex()  # hardly any of it can be compressed away
    where = urlsplit(doors.agentmemory)
    asleep = socket.socket()
    asleep.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    asleep.connect((where.hostname, where.port))
    asleep.setblocking(False)
    quiet = watching(doors.agentmemory, sock=asleep, compression=None, max_queue=1, ping_interval=None)
    watched = watching(doors.agentmemory, compression=None)
    async with quiet as slow, watched as stream, client_of(doors.agentmemory) as client:
        pages: list[str] = []
        frames: list[Any] = []
        for _ in range(count // AT_ONCE):
            answer = asyncio.create_task(frames_of(stream, name, 2 * AT_ONCE))
            pages += [await observe(client, name, output) for _ in range(AT_ONCE)]
            frames += await answer
        assert {frame["data"]["observation"]["id"] for frame in frames} == set(pages)
        assert await until_closed(slow) < 2 * count


@pytest.mark.covers("WS /stream/mem-live/viewer")
async def test_what_is_too_big_for_the_stream_is_left_out_of_it(doors: Doors, name: str):
    async with watching(doors.agentmemory) as stream, client_of(doors.agentmemory) as client:
        await observe(client, name, "long line\n" * 40_000)
        raw, compressed = await frames_of(stream, name, 2)
    assert raw["data"]["observation"]["truncated"] is True
    assert raw["data"]["observation"]["raw"] == {}
    assert compressed["data"]["observation"]["title"] == "Edit"
