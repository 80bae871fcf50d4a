"""Tables of requests and answers: what is refused, what fails, and what a field of a request becomes."""

import pytest

from tests.contracts.agentmemory.calling import WHEN, Api, Json, failed, ok, refused

START = {"sessionId": "s", "project": "p", "cwd": "/"}
OBSERVE = {"sessionId": "s", "hookType": "notification", "timestamp": WHEN, "project": "p"}
AGENT_OBSERVE = {"sessionId": "s", "project": "p", "text": "said"}
CONTEXT = {"sessionId": "s", "project": "p"}
LABELS = ("", "Upper", "9lives", "with-dash", "with space", "x" * 65, "_x", None)
NO_TOOL: list[Json] = [{}, {"name": ""}, {"name": "memory_nothing"}, {"arguments": {}}]


def lacking(fields: Json, *names: str) -> list[Json]:
    """The fields without each of those names."""
    return [{key: value for key, value in fields.items() if key != name} for name in names]


REFUSED: dict[str, list[Json]] = {
    "remember": [{}, {"content": ""}, {"content": " \n"}, {"content": None}, {"content": "c", "project": " "}],
    "agent/remember": [{}, {"content": "", "project": "p"}, {"project": "p"}],
    "evolve": [{}, {"memoryId": "m"}, {"newContent": "c"}, {"memoryId": "m", "newContent": ""}],
    "forget": [{}, {"observationIds": ["obs_none"]}, {"memoryId": ""}],
    "observe": lacking(OBSERVE, "sessionId", "hookType", "timestamp"),
    "agent/observe": lacking(AGENT_OBSERVE, "sessionId", "project", "text"),
    "session/start": [{}, *lacking(START, *START), *({**START, "sessionId": blank} for blank in ("", "  ", None))],
    "session/end": [{}, {"sessionId": ""}, {"sessionId": None}],
    "session/commit": [{}, {"sha": ""}, {"sha": None}, {"sessionId": "s", "branch": "main"}],
    "summarize": [{}, {"sessionId": ""}],
    "slot": [
        *({"label": label, "content": "c"} for label in LABELS),
        *({"label": "refused", "sizeLimit": size} for size in (0, 20001, "big")),
    ],
    "slot/append": [{}, {"text": "x"}],
    "slot/replace": [{}, {"content": "x"}],
    "slot/reflect": [{}, {"sessionId": ""}, *({"sessionId": "s", "maxObservations": count} for count in (0, 201))],
    "actions": [{}, {"title": ""}, {"title": "  "}, {"title": None, "description": "d"}],
    "actions/update": [{"title": "x"}],
    "lessons": [{}, {"content": ""}, {"content": "  "}, {"content": None}],
    "lessons/search": [{}, {"query": ""}, {"query": " "}],
    "lessons/strengthen": [{}],
    "context": [
        *lacking(CONTEXT, *CONTEXT),
        {**CONTEXT, "sessionId": ""},
        *({**CONTEXT, "budget": budget} for budget in (0, -1, "much")),
    ],
    "enrich": [
        {"files": ["a.py"], "terms": []},
        {"sessionId": "s", "terms": []},
        {"sessionId": "s", "files": [], "terms": []},
        {"sessionId": "", "files": ["a.py"]},
    ],
    "search": [
        {},
        *({"query": query} for query in ("", "  ", None)),
        *({"query": "q", "limit": limit} for limit in (0, 101, "many")),
        {"query": "q", "format": "long"},
        *({"query": "q", "token_budget": budget} for budget in (0, -5, "some")),
    ],
    "smart-search": [{}, {"query": ""}, {"query": None, "expandIds": []}, {"query": "q", "limit": 0}],
    "timeline": [{}, {"anchor": ""}, {"anchor": None, "project": "p"}],
    "import": [{}, {"exportData": None}, {"exportData": "x"}],
    "mcp/call": NO_TOOL,
    "mcp/tools": NO_TOOL,
}
"""The bodies that a POST refuses, by path."""


@pytest.mark.covers(
    "POST /agentmemory/remember", "POST /agentmemory/agent/remember", "POST /agentmemory/evolve",
    "POST /agentmemory/forget", "POST /agentmemory/observe", "POST /agentmemory/agent/observe",
    "POST /agentmemory/session/start", "POST /agentmemory/session/end", "POST /agentmemory/session/commit",
    "POST /agentmemory/summarize", "POST /agentmemory/slot", "POST /agentmemory/slot/append",
    "POST /agentmemory/slot/replace", "POST /agentmemory/slot/reflect", "POST /agentmemory/actions",
    "POST /agentmemory/actions/update", "POST /agentmemory/lessons", "POST /agentmemory/lessons/search",
    "POST /agentmemory/lessons/strengthen", "POST /agentmemory/context", "POST /agentmemory/enrich",
    "POST /agentmemory/search", "POST /agentmemory/smart-search", "POST /agentmemory/timeline",
    "POST /agentmemory/import", "POST /agentmemory/mcp/call", "POST /agentmemory/mcp/tools",
)  # fmt: skip
@pytest.mark.parametrize(("path", "body"), [(path, body) for path, bodies in REFUSED.items() for body in bodies])
def test_a_body_that_lacks_something_or_makes_no_sense_is_refused(api: Api, path: str, body: Json):
    refused(api.post(path, **body))


@pytest.mark.covers(
    "GET /agentmemory/observations", "GET /agentmemory/lessons", "GET /agentmemory/session/by-commit",
    "GET /agentmemory/slot", "DELETE /agentmemory/slot", "DELETE /agentmemory/governance/memories",
    "GET /agentmemory/memories/{id}", "PATCH /agentmemory/actions/{id}", "GET /agentmemory/replay/load",
)  # fmt: skip
@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        *(("GET", f"observations{query}", None, 400) for query in ("", "?sessionId=", "?agentId=ada")),
        *(("GET", f"lessons?{query}", None, 400) for query in ("minConfidence=high", "limit=many")),
        *((method, "slot", None, 400) for method in ("GET", "DELETE")),
        *(("DELETE", "governance/memories", {"memoryIds": ids}, 400) for ids in (None, 7, {"a": 1})),
        ("GET", "session/by-commit", None, 400),
        ("GET", "replay/load", None, 400),
        ("GET", "session/by-commit?sha=none", None, 404),
        ("GET", "replay/load?sessionId=none", None, 404),
        ("GET", "slot?label=none_such", None, 404),
        ("POST", "slot/append", {"label": "none_such", "text": "x"}, 404),
        ("POST", "slot/replace", {"label": "none_such", "content": "x"}, 404),
        ("GET", "memories/mem_none", None, 404),
        ("PATCH", "actions/act_none", {"title": "x"}, 404),
        ("GET", "nothing-here", None, 404),
        ("PUT", "observe", None, 405),
        ("GET", "remember", None, 405),
    ],
)
def test_a_request_for_nothing_or_for_what_is_not_there_is_refused_in_words(
    api: Api, method: str, path: str, body: Json | None, status: int
):
    message = refused(api.http.request(method, f"/agentmemory/{path}", json=body), status)
    assert message == "sessionId required" or not path.startswith("observations")


@pytest.mark.covers(
    "POST /agentmemory/evolve", "POST /agentmemory/summarize", "POST /agentmemory/actions/update",
    "POST /agentmemory/lessons/strengthen",
)  # fmt: skip
@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("evolve", {"memoryId": "mem_none", "newContent": "new"}, "memory not found"),
        ("summarize", {"sessionId": "none such"}, "session_not_found"),
        ("actions/update", {"actionId": "act_none", "status": "done"}, ""),
        ("lessons/strengthen", {"lessonId": "lsn_none"}, ""),
    ],
)
def test_a_function_fails_for_what_is_not_there(api: Api, path: str, body: Json, message: str):
    reason = failed(api.post(path, **body))
    assert reason == message or not message


FIELDS: dict[str, list[tuple[Json, Json]]] = {
    "remember": [
        *(({"type": kind}, {"type": kind}) for kind in ("pattern", "preference", "architecture", "bug", "workflow")),
        *(({"type": kind}, {"type": "fact"}) for kind in ("fact", "decision", "", None)),
        ({}, {"type": "fact"}),
        (
            {"concepts": "birds, water", "files": "a.py,b.py"},
            {"concepts": ["birds", "water"], "files": ["a.py", "b.py"]},
        ),
        ({"content": "{name} " + "word " * 40}, {"title": "{name} " + ("word " * 40)[:66].strip()}),
    ],
    "lessons": [
        *(({"confidence": sent}, {"confidence": float(sent)}) for sent in (0, 1, "0.7")),
        ({}, {"confidence": 0.5}),
        ({"tags": "redis, ci"}, {"tags": ["redis", "ci"]}),
    ],
    "slot": [
        ({}, {"content": "", "sizeLimit": 2000, "pinned": True, "scope": "project"}),
        *(({"scope": scope}, {"scope": scope}) for scope in ("project", "global")),
        ({"scope": "session"}, {"scope": "project"}),
        *(({"pinned": sent}, {"pinned": sent in ("true", True)}) for sent in ("true", "false", True, False)),
        ({"sizeLimit": 20000}, {"sizeLimit": 20000}),
    ],
    "actions": [
        ({}, {"description": "", "priority": 0, "status": "pending", "tags": []}),
        ({"tags": "pool, ci"}, {"tags": ["pool", "ci"]}),
        *(({"priority": sent}, {"priority": int(sent)}) for sent in (100, -3, "4", 0)),
    ],
    "session/start": [
        *(({"project": blank}, {"project": "unknown"}) for blank in ("", "  ")),
        ({"title": "Fix the login"}, {"summary": "Fix the login", "firstPrompt": "Fix the login"}),
        ({"title": "t" * 300}, {"firstPrompt": "t" * 200}),
        ({"agentId": "ada"}, {"agentId": "ada"}),
        ({"agentId": "a" * 200}, {"agentId": "a" * 128}),
    ],
    "session/commit": [({}, {"sha": "{name}", "sessionIds": [], "files": []})],
}
"""What is sent to a path beside what it requires, and fields of the answer; `{name}` is the name of the test."""
REQUIRED: dict[str, tuple[str, int, Json]] = {
    "remember": ("memory", 201, {"content": "{name} is kept"}),
    "lessons": ("lesson", 201, {"content": "{name}", "project": "{name}"}),
    "slot": ("slot", 201, {"label": "{name}"}),
    "actions": ("action", 201, {"title": "{name}"}),
    "session/start": ("session", 200, {"sessionId": "{name}", "project": "p-{name}", "cwd": "/w"}),
    "session/commit": ("commit", 200, {"sha": "{name}"}),
}
"""Where the answer of a path has the document, its status, and what the path requires."""


@pytest.mark.covers(
    "POST /agentmemory/remember", "POST /agentmemory/lessons", "POST /agentmemory/slot", "POST /agentmemory/actions",
    "POST /agentmemory/session/start", "POST /agentmemory/session/commit",
)  # fmt: skip
@pytest.mark.parametrize(
    ("path", "sent", "expected"), [(path, *row) for path, table in FIELDS.items() for row in table]
)
def test_a_field_is_answered_as_sent_or_by_default(api: Api, name: str, path: str, sent: Json, expected: Json):
    def filled(fields: Json) -> Json:
        return {
            key: value.replace("{name}", name) if isinstance(value, str) else value for key, value in fields.items()
        }

    document, status, required = REQUIRED[path]
    answer = ok(api.post(path, **filled({**required, **sent})), status)[document]
    if path == "slot":  # so that it is in no context
        ok(api.http.delete("/agentmemory/slot", params={"label": name}))
    assert {key: answer[key] for key in expected} == filled(expected)
    if path == "session/start" and "agentId" in sent:
        assert api.session(name)["agentId"] == expected["agentId"]
