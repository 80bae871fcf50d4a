"""What no client should send, and what it gets: a status, a code, a message that names the fault and its place.

After each the server answers as before. What a parser refuses, its unit tests tell: here it is one of a kind."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from tests.acceptance.running import Server, fault, ids

JSON, NDJSON, MSGPACK = "application/json", "application/x-ndjson", "application/msgpack"
MIB = 1 << 20


@pytest.fixture
async def unhurt(client: httpx.AsyncClient, project: str) -> AsyncGenerator[httpx.AsyncClient]:
    """The client; when the test is over, the server must still take a write, find it and page through the log."""
    yield client
    told = await client.post("/v1/memories", json={"project": project, "content": "still here afterwards"})
    assert told.status_code == 202, told.text
    asked = {"project": project, "query": "still here afterwards", "after": told.json()["position"]}
    found = await client.post("/v1/recall", json=asked)
    assert told.json()["id"] in ids(found.json())
    partition = told.json()["position"].partition(":")[0]
    log = await client.get("/v1/events", params={"partition": partition, "limit": 1000})
    assert log.status_code == 200


async def post(
    client: httpx.AsyncClient, path: str, body: bytes, content_type: str = JSON, method: str = "POST"
) -> httpx.Response:
    """The answer to a body as it stands."""
    return await client.request(method, path, content=body, headers={"content-type": content_type})


class Bad(NamedTuple):
    """A request and its refusal: the message (case aside) has `says` in it."""

    path: str
    body: bytes
    status: int
    code: str
    says: str
    field: str | None = None
    method: str = "POST"


MEMORY, LESSON = "/v1/memories/mem_x", "/v1/lessons/lsn_x"


def nested(opening: str, closing: str, levels: int) -> bytes:
    """A value inside so many levels."""
    return (opening * levels + "1" + closing * levels).encode()


def observation(data: bytes) -> bytes:
    """An observation whose data is written as given."""
    return b'{"session_id":"s1","content":"x","data":' + data + b"}"


BODIES = {
    "not JSON": Bad("/v1/memories", b"{content: x}", 400, "malformed", "not json"),
    "invalid UTF-8": Bad("/v1/memories", b'{"content": "\xff\xfe"}', 400, "malformed", "utf-8"),
    "nothing observed": Bad("/v1/observations", b'{"session_id": "s1"}', 422, "invalid", "content", "content"),
    "no session": Bad("/v1/observations", b'{"content": "x"}', 422, "invalid", "session", "session_id"),
    "status missing": Bad("/v1/sessions", b'{"session_id": "s1"}', 422, "invalid", "status", "status"),
    "unknown status": Bad(
        "/v1/sessions", b'{"session_id": "s1", "status": "paused"}', 422, "invalid", "paused", "status"
    ),
    "unknown key": Bad("/v1/memories", b'{"content": "x", "tagz": []}', 422, "invalid", "tagz", "tagz"),
    "unknown key, deep JSON repaired": Bad(
        "/v1/memories", b'{"content": "\\ud83c", "tagz": []}', 422, "invalid", "tagz", "tagz"
    ),
    "a time without a zone": Bad(
        "/v1/memories", b'{"content": "x", "occurred_at": "2026-01-31T12:00:00"}', 422, "invalid", "zone", "occurred_at"
    ),
    "a time before the first year": Bad(
        "/v1/memories", b'{"content": "x", "occurred_at": "0001-01-01T00:00:00+14:00"}', 422, "invalid", "",
        "occurred_at",
    ),
    "a time after the last year": Bad(
        "/v1/lessons", b'{"content": "x", "occurred_at": "9999-12-31T23:59:59-12:00"}', 422, "invalid", "",
        "occurred_at",
    ),
    "NUL in a name": Bad("/v1/memories", b'{"content": "x", "project": "a\\u0000b"}', 422, "invalid", "nul", "project"),
    "a huge number": Bad("/v1/memories", b'{"content": "x", "importance": 1e999}', 422, "invalid", "range",
                         "importance"),
    "a priority beyond what a number is exact for": Bad(
        "/v1/actions", b'{"title": "x", "priority": 1e300}', 422, "invalid", "<=", "priority"
    ),
    "NaN": Bad("/v1/memories", b'{"content": "x", "importance": NaN}', 400, "malformed", "not json"),
    "an integer over 64 bits": Bad(
        "/v1/observations", observation(b'{"x": ' + b"9" * 40 + b"}"), 422, "invalid", "64 bits", "data"
    ),
    "200,000 brackets": Bad("/v1/observations", observation(b"[" * 200_000), 422, "invalid", "", "data"),
    "150 levels in data": Bad(
        "/v1/observations", observation(nested('{"a":', "}", 150)), 422, "invalid", "nest", "data"
    ),
    "metadata over 4 KiB": Bad(
        "/v1/memories", b'{"content": "x", "metadata": {"a": "' + b"b" * 4096 + b'"}}', 422, "invalid", "4096",
        "metadata",
    ),
    "an event over 1 MiB": Bad(
        "/v1/memories", b'{"content": "' + b"words " * 180_000 + b'"}', 422, "invalid", "1,048,576", "content"
    ),
    "data over 1 MiB": Bad(
        "/v1/observations", observation(b'{"a": "' + b"words " * 180_000 + b'"}'), 422, "invalid", "1,048,576", "data"
    ),
    "blank query": Bad("/v1/recall", b'{"query": " "}', 422, "invalid", "blank", "query"),
    "no query": Bad("/v1/recall", b"{}", 422, "invalid", "query", "query"),
    "negative limit": Bad("/v1/recall", b'{"query": "x", "limit": -1}', 422, "invalid", "1", "limit"),
    "huge limit": Bad("/v1/recall", b'{"query": "x", "limit": 1' + b"0" * 30 + b"}", 422, "invalid", "200", "limit"),
    "unknown kind": Bad("/v1/recall", b'{"query": "x", "kinds": ["tea"]}', 422, "invalid", "tea", "kinds"),
    "unknown mode": Bad("/v1/recall", b'{"query": "x", "mode": "psychic"}', 422, "invalid", "psychic", "mode"),
    "alpha out of range": Bad("/v1/recall", b'{"query": "x", "alpha": 2}', 422, "invalid", "1", "alpha"),
    "bad token": Bad("/v1/recall", b'{"query": "x", "after": "yesterday"}', 422, "invalid", "yesterday", "after"),
    "no project": Bad("/v1/context", b'{"query": "x"}', 422, "invalid", "project", "project"),
    "no budget": Bad("/v1/context", b'{"project": "x", "token_budget": 0}', 422, "invalid", "1", "token_budget"),
    "a batch that is none": Bad("/v1/events", b'{"type": "observe"}', 400, "malformed", "array"),
    "a batch of brackets": Bad("/v1/events", b"[" * 200_000, 400, "malformed", "nested"),
    "no such partition": Bad("/v1/admin/projections/rebuild", b'{"partition": 99}', 422, "invalid", "15", "partition"),
    # memories that change
    "nothing to change": Bad(MEMORY, b"{}", 422, "invalid", "no changes", method="PATCH"),
    "an unknown change": Bad(MEMORY, b'{"contents": "x"}', 422, "invalid", "contents", "contents", "PATCH"),
    "an unknown visibility": Bad(MEMORY, b'{"visibility": "secret"}', 422, "invalid", "secret", "visibility", "PATCH"),
    "no list of readers": Bad(MEMORY, b'{"shared_with": "bob"}', 422, "invalid", "array", "shared_with", "PATCH"),
    # lessons
    "an edit of nothing": Bad(LESSON, b"{}", 422, "invalid", "no changes", method="PATCH"),
    "an unknown severity": Bad(LESSON, b'{"severity": "dire"}', 422, "invalid", "dire", "severity", "PATCH"),
    "a pattern that is none": Bad(
        "/v1/lessons", b'{"content": "x", "trigger_pattern": "("}', 422, "invalid", "pattern", "trigger_pattern"
    ),
    "a pattern that is too long": Bad(
        "/v1/lessons", b'{"content": "x", "trigger_pattern": "' + b"a" * 501 + b'"}', 422, "invalid", "500",
        "trigger_pattern",
    ),
    "a confidence over 1": Bad(
        "/v1/lessons", b'{"content": "x", "confidence": 1.1}', 422, "invalid", "1", "confidence"
    ),
    "no lesson to search": Bad("/v1/lessons/search", b'{"query": ""}', 422, "invalid", "1", "query"),
    "more lessons than there may be": Bad(
        "/v1/lessons/search", b'{"query": "x", "limit": 201}', 422, "invalid", "200", "limit"
    ),
    # slots
    "no label": Bad("/v1/slots", b'{"content": "x"}', 422, "invalid", "label", "label"),
    "a label with a space": Bad("/v1/slots", b'{"label": "my slot", "content": "x"}', 422, "invalid", "", "label"),
    "an unknown scope": Bad(
        "/v1/slots", b'{"label": "a", "content": "x", "scope": "world"}', 422, "invalid", "world", "scope"
    ),
    "a slot without room": Bad(
        "/v1/slots", b'{"label": "a", "content": "x", "size_limit": 0}', 422, "invalid", "1", "size_limit"
    ),
    "a slot of a book's size": Bad(
        "/v1/slots", b'{"label": "a", "content": "x", "size_limit": 20001}', 422, "invalid", "20000", "size_limit"
    ),
    # actions
    "an action without a title": Bad("/v1/actions", b"{}", 422, "invalid", "title", "title"),
    "text for a priority": Bad("/v1/actions", b'{"title": "x", "priority": "high"}', 422, "invalid", "", "priority"),
    "an unknown edge": Bad(
        "/v1/actions", b'{"title": "x", "edges": [{"type": "likes", "target": "y"}]}', 422, "invalid", "likes", "edges"
    ),
    # relations and commits
    "a relation with one end": Bad(
        "/v1/relations", b'{"source": "concept:x", "relation": "y"}', 422, "invalid", "target", "target"
    ),
    "a relation without a name": Bad(
        "/v1/relations", b'{"source": "concept:x", "target": "concept:y", "relation": ""}', 422, "invalid", "1",
        "relation",
    ),
    "NUL in an end": Bad(
        "/v1/relations", b'{"source": "concept:\\u0000", "target": "concept:y", "relation": "z"}',
        422, "invalid", "nul", "source",
    ),
    "a commit without a name": Bad("/v1/commits", b'{"commit": ""}', 422, "invalid", "1", "commit"),
    # condensing
    "no observations to reflect on": Bad(
        "/v1/sessions/s1/reflect", b'{"max_observations": 0}', 422, "invalid", "1", "max_observations"
    ),
    "an unknown wish for a summary": Bad("/v1/sessions/s1/summary", b'{"long": true}', 422, "invalid", "long", "long"),
    "no actions": Bad("/v1/crystals", b'{"action_ids": []}', 422, "invalid", "1", "action_ids"),
    "consolidating nothing": Bad(
        "/v1/consolidate", b'{"min_observations": 0}', 422, "invalid", "1", "min_observations"
    ),
    "too many clusters": Bad("/v1/reflect", b'{"max_clusters": 21}', 422, "invalid", "20", "max_clusters"),
    # enriching
    "no files": Bad("/v1/enrich", b'{"files": []}', 422, "invalid", "1", "files"),
    "too little room": Bad("/v1/enrich", b'{"files": ["a"], "limit_chars": 10}', 422, "invalid", "200", "limit_chars"),
    # forgetting
    "forgetting the world": Bad("/v1/forget", b'{"kind": "world", "subject": "x"}', 422, "invalid", "world", "kind"),
    "forgetting nobody": Bad("/v1/forget", b'{"kind": "user", "subject": ""}', 422, "invalid", "empty", "subject"),
    "NUL in a subject": Bad(
        "/v1/forget", b'{"kind": "user", "subject": "a\\u0000b"}', 422, "invalid", "nul", "subject"
    ),
    "a user of a project": Bad(
        "/v1/forget", b'{"kind": "user", "subject": "kim", "project": "x"}', 422, "invalid", "project", "project"
    ),
    # recall
    "an unknown ranking": Bad("/v1/recall", b'{"query": "x", "ranking": "best"}', 422, "invalid", "best", "ranking"),
    "text for types": Bad("/v1/recall", b'{"query": "x", "types": "episodic"}', 422, "invalid", "array", "types"),
    "no time to look back from": Bad("/v1/recall", b'{"query": "x", "as_of": "then"}', 422, "invalid", "", "as_of"),
}  # fmt: skip


@pytest.mark.parametrize("bad", BODIES.values(), ids=BODIES)
async def test_a_bad_body_is_refused_with_what_is_wrong_and_where(unhurt: httpx.AsyncClient, bad: Bad):
    answer = await post(unhurt, bad.path, bad.body, method=bad.method)
    assert (answer.status_code, fault(answer)["code"]) == (bad.status, bad.code), answer.text[:300]
    assert bad.says in fault(answer)["detail"].lower()
    assert len(fault(answer)["detail"]) > 10
    assert len(answer.text) < 1000
    if bad.field is None:
        assert "field" not in fault(answer)
    else:
        assert fault(answer)["field"].partition("[")[0] == bad.field


MSGPACK_ONLY: dict[str, Any] = {
    "bytes": b"\x00\xff",
    "a time": datetime(2026, 1, 31, tzinfo=UTC),
    "an extension type": msgspec.msgpack.Ext(5, b"x"),
    "NaN": float("nan"),
    "a number as key": {1: 2},
    "bytes as key": {b"k": 1},
    "null as key": {None: 1},
    "true as key": {True: 1},
    "an array as key": {(1, 2): 1},
    "a nested array as key": {((1,),): 1},
    "a time as key": {datetime(2026, 1, 31, tzinfo=UTC): 1},
    "an extension type in an array": [[msgspec.msgpack.Ext(5, b"x")]],
}


async def test_what_only_msgpack_can_say_is_refused_or_can_be_read_back(broken: Server):
    """One such value may not stop everybody else from reading the log, the session or the timeline."""
    faults: list[str] = []
    async with broken.client() as http:
        for name, value in MSGPACK_ONLY.items():
            told = await post(http, "/v1/events", msgspec.msgpack.encode([odd_observation(name, value)]), MSGPACK)
            if told.status_code == 400 and fault(told)["code"] == "malformed":
                continue
            if told.status_code == 202 and told.json()["rejected"]:
                (rejected,) = told.json()["rejected"]
                assert (rejected["code"], rejected.get("field", "data").partition("[")[0]) == ("invalid", "data")
                continue
            assert told.status_code == 202, f"{name}: {told.text}"
            after = told.json()["position"]
            for path, query in {
                f"/v1/sessions/{name}/observations": {"project": name, "after": after},
                "/v1/timeline": {"project": name, "after": after},
                "/v1/events": {"session_id": name, "limit": "1000"},
            }.items():
                async with broken.client() as fresh:  # an unexpected fault closes its connection
                    page = await fresh.get(path, params=query)
                if page.status_code != 200:
                    faults.append(f"{name}: {path} answers {page.status_code}")
    assert faults == []


def odd_observation(name: str, value: Any) -> dict[str, Any]:
    """A command whose data holds the value."""
    return {"type": "observe", "project": name, "session_id": name, "content": "odd", "data": {"x": [value]}}


async def test_an_unknown_type_in_a_batch_is_told_which_there_are(unhurt: httpx.AsyncClient, project: str):
    batch: list[Any] = [
        {"type": "remember", "project": project, "content": "good"},
        {"type": "observation", "project": project, "content": "x"},
        {"project": project, "content": "x"},
        {"type": "remember", "project": project, "content": "x", "contents": "y"},
        None,
        "remember",
    ]
    answer = await unhurt.post("/v1/events", json=batch)
    assert answer.status_code == 202
    assert answer.json()["accepted"] == 1
    unknown, untyped, extra, *rest = answer.json()["rejected"]
    assert (unknown["index"], unknown["field"]) == (1, "type")
    for known in ("observe", "remember", "lesson", "session"):
        assert known in unknown["message"]
    assert (untyped["index"], untyped["field"]) == (2, "type")
    assert (extra["index"], extra["field"]) == (3, "contents")
    assert [one["index"] for one in rest] == [4, 5]
    for fault_ in answer.json()["rejected"]:
        assert fault_["code"] == "invalid"


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/events", "/v1/recall"])
async def test_a_body_of_20_mib_is_too_large(unhurt: httpx.AsyncClient, path: str):
    """With its length declared, and without."""
    answer = await post(unhurt, path, b"[" + b" " * (20 * MIB))
    assert (answer.status_code, fault(answer)["code"]) == (413, "too_large")
    assert "16,777,216" in fault(answer)["detail"]

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * MIB

    try:
        answer = await unhurt.post(path, content=chunks(), headers={"content-type": JSON})
    except (httpx.WriteError, httpx.ReadError):
        return  # refused so early that the client was still sending
    assert (answer.status_code, fault(answer)["code"]) == (413, "too_large")


MILLION = 1_000_000
HOSTILE: dict[str, tuple[str, bytes, str]] = {
    "integers": ("/v1/events", b"[" + b",".join([b"1"] * MILLION) + b"]", JSON),
    "data": ("/v1/observations", observation(b'{"x":[' + b",".join([b"[]"] * MILLION) + b"]}"), JSON),
    "a query": ("/v1/recall", b'{"query":[' + b",".join([b"[]"] * MILLION) + b"]}", JSON),
    "a hook": ("/agentmemory/observe", b'{"data":[' + b",".join([b"[]"] * MILLION) + b"]}", JSON),
    "MCP": ("/mcp", b"[" + b",".join([b"{}"] * MILLION) + b"]", JSON),
}


@pytest.mark.parametrize(("path", "body", "content_type"), HOSTILE.values(), ids=HOSTILE)
async def test_a_million_values_are_too_large_at_every_door(
    unhurt: httpx.AsyncClient, path: str, body: bytes, content_type: str
):
    headers = {"content-type": content_type, "accept": "application/json, text/event-stream"}
    answer = await unhurt.post(path, content=body, headers=headers)
    assert answer.status_code == 413
    assert "limit" in answer.text
    assert len(answer.text) < 1000


WRITES_WITH_AGENT: dict[str, tuple[str, bytes]] = {
    "a write": ("/v1/memories", b'{"content":"x"}'),
    "a batch": ("/v1/events", b'[{"type":"remember","content":"x"}]'),
    "a read": ("/v1/recall", b'{"query":"x"}'),
    "agentmemory": ("/agentmemory/remember", b'{"content":"x"}'),
    "a tool of agentmemory": ("/agentmemory/mcp/call", b'{"name":"memory_save","arguments":{"content":"x"}}'),
    "MCP": (
        "/mcp",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"remember","arguments":{"content":"x"}}}',
    ),
}


@pytest.mark.parametrize(("path", "body"), WRITES_WITH_AGENT.values(), ids=WRITES_WITH_AGENT)
async def test_a_header_is_held_to_the_limit_of_its_field(unhurt: httpx.AsyncClient, path: str, body: bytes):
    headers = {"content-type": JSON, "accept": "application/json, text/event-stream", "X-Agent-Id": "a" * 60_000}
    answer = await unhurt.post(path, content=body, headers=headers)
    assert 400 <= answer.status_code < 500, answer.text
    assert "X-Agent-Id is 60,000 characters; the limit is 512" in answer.text


@pytest.mark.parametrize("path", ["/livez", "/v1/memories", "/agentmemory/livez", "/mcp"])
@pytest.mark.parametrize("header", ["Host", "Authorization", "Origin", "X-Agent-Id", "X-Durability"])
async def test_a_header_that_may_be_there_once_is_refused_when_it_is_there_twice(
    server: Server, path: str, header: str
):
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    host = "" if header == "Host" else f"Host: {address.netloc}\r\n"
    twice = f"{header}: evil.example\r\n{header}: {address.netloc}\r\n"
    writer.write(f"GET {path} HTTP/1.1\r\n{host}{twice}Connection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    assert answer.startswith("HTTP/1.1 400")
    assert f"more than one {header.lower()} header" in answer


async def test_a_durability_that_the_server_cannot_give_is_refused_and_nothing_is_stored(
    client: httpx.AsyncClient, project: str
):
    one = {"type": "remember", "project": project, "content": "on two disks"}
    single = {name: value for name, value in one.items() if name != "type"}
    for path, body in (("/v1/memories", single), ("/v1/events", [one])):
        answer = await client.post(path, json=body, headers={"X-Durability": "replicated"})
        assert (answer.status_code, fault(answer)["code"]) == (422, "durability_unavailable"), answer.text
        assert "has no replica" in fault(answer)["detail"]
    kept = await client.post("/v1/memories", json={"project": project, "content": "on one"})
    page = await client.get("/v1/memories", params={"project": project, "after": kept.json()["position"]})
    assert [found["content"] for found in page.json()["items"]] == ["on one"]


QUERIES: dict[str, tuple[str, dict[str, str], str]] = {
    "negative limit": ("/v1/memories", {"limit": "-1"}, "limit"),
    "no limit": ("/v1/memories", {"limit": "0"}, "limit"),
    "huge limit": ("/v1/timeline", {"limit": "9" * 40}, "limit"),
    "fraction": ("/v1/sessions", {"limit": "1.5"}, "limit"),
    "words": ("/v1/lessons", {"limit": "ten"}, "limit"),
    "too many events": ("/v1/events", {"limit": "1001"}, "limit"),
    "no cursor": ("/v1/memories", {"cursor": "%%%"}, "cursor"),
    "no cursor either": ("/v1/timeline", {"cursor": "_w"}, "cursor"),
    "no token": ("/v1/memories", {"after": "yesterday"}, "after"),
    "a negative sequence": ("/v1/events", {"after": "0:1--5"}, "after"),
    "a token of a partition that is not there": ("/v1/memories", {"after": "99:1-0"}, "after"),
    "a token of a negative partition": ("/v1/memories", {"after": "-1:1-0"}, "after"),
    "events behind a partition that is not there": ("/v1/events", {"after": "99:1-0"}, "after"),
    "no such partition": ("/v1/events", {"partition": "16"}, "partition"),
    "negative partition": ("/v1/events", {"partition": "-1"}, "partition"),
    "no time": ("/v1/timeline", {"until": "soon"}, "until"),
    "unknown parameter": ("/v1/sessions", {"projekt": "x"}, "projekt"),
    "unknown parameter of one document": ("/v1/memories/mem_x", {"x": "y"}, "x"),
    "a version of a history": ("/v1/memories/mem_x/history", {"version": "1"}, "version"),
    "no tool": ("/v1/lessons/match", {"preview": "x"}, "tool_name"),
    "a long preview": ("/v1/lessons/match", {"tool_name": "Bash", "preview": "x" * 10_001}, "preview"),
    "too sure": ("/v1/lessons/surest", {"min_confidence": "1.5"}, "min_confidence"),
    "a scope to list": ("/v1/slots", {"scope": "global"}, "scope"),
    "half open": ("/v1/actions", {"open": "ajar"}, "open"),
    "no work": ("/v1/frontier", {"limit": "0"}, "limit"),
    "relations of no page": ("/v1/relations", {"cursor": "%%%"}, "cursor"),
    "commits of no page": ("/v1/commits", {"cursor": "%%%"}, "cursor"),
    "commits of a session, by branch": ("/v1/sessions/s1/commits", {"branch": "main"}, "branch"),
    "summaries of no page": ("/v1/summaries", {"cursor": "%%%"}, "cursor"),
    "a summary by length": ("/v1/sessions/s1/summary", {"limit": "5"}, "limit"),
    "too deep a graph": ("/v1/graph", {"depth": "4"}, "depth"),
    "too big a graph": ("/v1/graph", {"limit": "501"}, "limit"),
    "no counts by page": ("/v1/graph/stats", {"limit": "5"}, "limit"),
    "too many hops": ("/v1/related/mem_x", {"max_hops": "6"}, "max_hops"),
    "nobody's profile": ("/v1/profile", {}, "project"),
    "no anchor": ("/v1/around", {}, "anchor"),
    "much before": ("/v1/around", {"anchor": "x", "before": "201"}, "before"),
    "an audit of no page": ("/v1/audit", {"cursor": "yesterday"}, "cursor"),
    "a diagnosis of one project": ("/v1/diagnose", {"project": "x"}, "project"),
    "live from no place": ("/v1/live", {"after": "yesterday"}, "after"),
    "live, but less than none": ("/v1/live", {"limit": "-1"}, "limit"),
}


@pytest.mark.parametrize(("path", "query", "field"), QUERIES.values(), ids=QUERIES)
async def test_a_bad_parameter_is_refused_by_name(
    unhurt: httpx.AsyncClient, path: str, query: dict[str, str], field: str
):
    answer = await unhurt.get(path, params=query)
    assert (answer.status_code, fault(answer)["code"]) == (422, "invalid"), answer.text
    assert fault(answer)["field"] == field
    assert len(answer.text) < 1000


DELETIONS: dict[str, tuple[str, dict[str, str], str]] = {
    "an unknown parameter": ("/v1/memories/mem_x", {"why": "x"}, "why"),
    "a long reason": ("/v1/lessons/lsn_x", {"reason": "x" * 513}, "reason"),
    "a long event id": ("/v1/actions/act_x", {"event_id": "x" * 129}, "event_id"),
    "of a session": ("/v1/sessions/s1", {"limit": "5"}, "limit"),
    "of a slot everywhere": ("/v1/slots/guidance", {"scope": "world"}, "scope"),
}


@pytest.mark.parametrize(("path", "query", "field"), DELETIONS.values(), ids=DELETIONS)
async def test_a_bad_parameter_of_a_deletion_is_refused_by_name(
    unhurt: httpx.AsyncClient, path: str, query: dict[str, str], field: str
):
    answer = await unhurt.delete(path, params=query)
    assert (answer.status_code, fault(answer)["code"]) == (422, "invalid"), answer.text
    assert fault(answer)["field"] == field


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/v1/memories"), ("DELETE", "/v1/recall"), ("GET", "/v1/recall"), ("PATCH", "/v1/events")],
)
async def test_a_wrong_method_is_told_which_are_right(unhurt: httpx.AsyncClient, method: str, path: str):
    answer = await unhurt.request(method, path)
    assert (answer.status_code, fault(answer)["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"]


@pytest.mark.parametrize(
    "path",
    [
        *("/v1", "/v1/memory", "/v1/memories/mem_x/y", "/v2/recall", "/%00", "/../etc"),
        "/v1/memories/mem_00000000000000000000",
        "/v1/memories/nonsense",
        "/v1/memories/%00",
        "/v1/lessons/*",
        "/v1/observations/obs_%F0%9F%8D%B5",
        "/v1/sessions/nobody",
        "/v1/sessions/nobody/observations",
        "/v1/sessions/nobody/summary",
        "/v1/memories/mem_00000000000000000000/history",
        "/v1/actions/act_00000000000000000000",
        "/v1/relations/rel_00000000000000000000",
        "/v1/commits/cmt_00000000000000000000",
        "/v1/summaries/sum_00000000000000000000",
        "/v1/related/mem_00000000000000000000",
        "/v1/slots/never_written",
        "/v1/forget/never-asked",
    ],
)
async def test_an_unknown_route_and_what_does_not_exist_are_not_found(unhurt: httpx.AsyncClient, path: str):
    answer = await unhurt.get(path)
    assert (answer.status_code, fault(answer)["code"]) == (404, "not_found")


async def test_a_document_is_found_in_its_own_collection_only(unhurt: httpx.AsyncClient, project: str):
    told = (await unhurt.post("/v1/memories", json={"project": project, "content": "a memory"})).json()
    for method in ("GET", "DELETE"):
        answer = await unhurt.request(method, f"/v1/lessons/{told['id']}", params={"after": told["position"]})
        assert (answer.status_code, fault(answer)["code"]) in ((404, "not_found"), (422, "invalid"))
    assert (await unhurt.get(f"/v1/memories/{told['id']}", params={"after": told["position"]})).status_code == 200


ODD_TEXT = {
    "NUL": ("nul \\u0000 inside kumquat", "nul \0 inside kumquat"),
    "a lone high surrogate": ("half \\ud83c kumquat", "half � kumquat"),
    "a lone low surrogate": ("half \\udf75 kumquat", "half � kumquat"),
    "a whole pair": ("whole \\ud83c\\udf75 kumquat", "whole 🍵 kumquat"),
    "line separators": ("one\\u2028two\\u0085three kumquat", "one\u2028two\x85three kumquat"),
    "right to left": ("\\u202ekumquat \\u05d0", "\u202ekumquat \u05d0"),
    "escape": ("\\u001b[31m kumquat", "\x1b[31m kumquat"),
}


@pytest.mark.parametrize(("written", "kept"), ODD_TEXT.values(), ids=ODD_TEXT)
async def test_odd_text_is_stored_repaired_and_found_again(
    unhurt: httpx.AsyncClient, project: str, written: str, kept: str
):
    """In every place that takes text, and in a batch too."""
    single = (
        f'{{"project":"{project}","session_id":"s1","content":"{written}",'
        f'"data":{{"{written}":["{written}"]}},"metadata":{{"m":"{written}"}}}}'
    )
    batched = f'[{{"type":"observe",{single[1:]}, {{"type":"remember","project":"{project}","content":"{written}"}}]'
    told = await post(unhurt, "/v1/observations", single.encode())
    assert told.status_code == 202, told.text
    batch = await post(unhurt, "/v1/events", batched.encode())
    assert batch.json()["accepted"] == 2, batch.text
    after = f"{told.json()['position']},{batch.json()['position']}"
    found = (
        await unhurt.post("/v1/recall", json={"query": "kumquat", "project": project, "after": after, "fold": False})
    ).json()
    assert [one["content"] for one in found["results"]] == [kept] * 3
    document = (await unhurt.get(f"/v1/observations/{told.json()['id']}")).json()
    assert document["data"] == {kept: [kept]}
    assert document["metadata"] == {"m": kept}


async def test_odd_names_are_kept_apart_and_found_again(unhurt: httpx.AsyncClient, project: str):
    names = [f"{project} {odd}" for odd in ("a b", "{p00}", "*", "\u00e4", "🍵", "a:b", "a|b", "../x", "%2F")]
    tokens: list[str] = []
    for name in names:
        command = {"project": name, "session_id": name, "agent_id": name, "content": f"in {name}"}
        tokens.append((await unhurt.post("/v1/observations", json=command)).json()["position"])
    for name, after in zip(names, tokens, strict=True):
        page = (await unhurt.get("/v1/timeline", params={"project": name, "after": after})).json()
        assert [one["content"] for one in page["items"]] == [f"in {name}"]
        asked = {"query": "in", "project": name, "session_id": name, "agent_id": name, "kinds": ["observation"]}
        found = (await unhurt.post("/v1/recall", json=asked)).json()
        assert [one["session_id"] for one in found["results"]] in ([name], [])
        listed = (await unhurt.get("/v1/sessions", params={"project": name})).json()
        assert ids(listed) == [name]


# what must never be kept


def everything_under(folder: Path) -> bytes:
    """All bytes of all files: the append-only file has every command that was ever carried out."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
