"""A secret or private text that is sent in any place is in no file of the server: no log, no index, no snapshot."""

from typing import Any

import httpx
import msgspec

from api.dialects.agentmemory.app import ENDPOINTS
from tests.acceptance.running import Doors
from tests.acceptance.test_bad_input import everything_under

TOKEN = "ghp_" + "Zq7" * 12
PASSWORD = "kestrel-7741!"
HIDDEN = "opensesame"
PROSE = f"deploy with {TOKEN}; password = '{PASSWORD}' <private>{HIDDEN}</private>"
WHEN = "2026-01-31T12:00:00Z"
TEXT = {"title": PROSE, "tags": [TOKEN], "concepts": [TOKEN], "files": [f"/tmp/{TOKEN}"], "metadata": {TOKEN: TOKEN}}
PLACE = {"project": "shop", "session_id": "s1", "agent_id": "ada"}
NATIVE: list[tuple[str, dict[str, Any]]] = [
    ("/v1/observations", {"content": PROSE, "kind": TOKEN, "trace": TOKEN, "data": {TOKEN: [{"password": PASSWORD}]}}),
    ("/v1/observations", {"content": "a", "metadata": {"note": PROSE, TOKEN: "b"}}),
    ("/v1/memories", {"content": PROSE, **TEXT}),
    ("/v1/lessons", {"content": PROSE, "context": PROSE, "trigger_tool": TOKEN, "trigger_pattern": TOKEN}),
    ("/v1/sessions", {"status": "started", "cwd": f"/srv/{TOKEN}", "title": PROSE, "agent_type": TOKEN}),
    ("/v1/sessions", {"status": "ended", "reason": PROSE}),
    ("/v1/slots", {"label": "notes", "content": PROSE, "description": PROSE}),
    ("/v1/actions", {"title": PROSE, "description": PROSE, "tags": [TOKEN], "status": TOKEN}),
    ("/v1/commits", {"commit": "9f1c2d3e", "message": PROSE, "branch": TOKEN, "repo": f"https://{TOKEN}@git/a"}),
]
NAMES = ("project", "session_id", "agent_id", "user_id", "event_id")
LINE = {"event_id": "i1", "type": "observation.recorded", "version": 1, "tenant": "default", "project": "shop",
        "session_id": "s1", "recorded_at": WHEN}  # fmt: skip


def _bodies(values: dict[str, Any]) -> list[dict[str, Any]]:
    """What the endpoints of agentmemory read: every field that any of them knows, with the secret in all texts."""
    names = (
        "content", "title", "project", "sessionId", "cwd", "context", "agentId", "description", "label", "text", "sha",
        "message", "branch", "repo", "author", "type", "actionId", "sourceId", "targetId", "file", "name", "rule",
        "narrative", "created_by", "user_id", "agent_id", "session_id", "fact", "hookType",
    )  # fmt: skip
    texts = dict.fromkeys(names, PROSE)
    lists = {name: [TOKEN] for name in ("concepts", "files", "tags", "facts")}
    plain = {"sessionId": "s1", "project": "shop", "hookType": "post_tool_use", "timestamp": WHEN, "type": "semantic"}
    return [
        {**texts, **lists, "data": {TOKEN: PROSE, "tool_name": TOKEN, "tool_input": {"command": PROSE}}, **values},
        {**texts, **lists, "data": {"tool_input": {"password": PASSWORD}}, **plain, **values},
    ]


async def test_a_secret_is_in_no_file_whichever_door_it_came_through(guarded: Doors):
    server, stored = guarded.server, 0
    async with server.client("ada") as client:

        async def send(url: str, body: Any, method: str = "POST") -> httpx.Response:
            nonlocal stored
            answer = await client.request(method, url, json=body)
            assert answer.status_code < 500, f"{url}: {answer.text}"
            stored += answer.is_success
            return answer

        for path, said in NATIVE:
            answer = await send(path, {**PLACE, **said})
            assert answer.status_code == 202, f"{path}: {answer.text}"
            for name in NAMES:
                refused = await send(path, {**PLACE, **said, name: TOKEN})
                assert refused.status_code == 422, f"{path} {name}: {refused.text}"
                assert name in refused.text
                assert TOKEN not in refused.text
        named = {"X-Agent-Id": TOKEN}
        refused = await client.post("/v1/observations", json={"session_id": "s", "content": "a"}, headers=named)
        assert refused.status_code == 422, refused.text
        for end in ("source", "target", "relation"):
            said = {"type": "relation", "source": "a", "target": "b", "relation": "r", "project": "shop", end: TOKEN}
            answer = await send("/v1/events", [said])
            assert answer.json()["rejected"][0]["field"].endswith(end), answer.text
        for one in ENDPOINTS:
            if one.method in ("POST", "PATCH") and "import-jsonl" not in one.path:
                for body in _bodies({}):
                    await send(one.path.replace("{id}", "x"), body, one.method)
        for url in (
            f"{guarded.agentd}/memories",
            f"{guarded.agent_memory}/api/lessons",
            f"{guarded.agent_memory}/api/observations",
            f"{guarded.agent_memory}/api/sessions",
            f"{guarded.memex}/v1/memories",
        ):
            for body in _bodies({"importance": 1}):
                for without in ((), ("type", "memory_type")):
                    kept = {key: value for key, value in body.items() if key not in without}
                    await send(url, kept)
        for url in (server.url, guarded.memex_mcp):
            for tool in ("remember", "observe", "lesson", "memory_save", "memory_observe", "add_memory"):
                said = {"content": PROSE, "project": "shop", "session_id": "s1", "tags": [TOKEN], "title": PROSE}
                request = {"name": tool, "arguments": said}
                headers = {"Accept": "application/json, text/event-stream"}
                await client.post(
                    f"{url}/mcp",
                    params={"profile": "all"},
                    json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request},
                    headers=headers,
                )
        lines = [
            {"format": "mnemolog-export", "version": 1, "tenant": "default", "project": None},
            {**LINE, "trace": TOKEN, "metadata": {TOKEN: TOKEN}, "data": {"content": PROSE, "data": {TOKEN: PROSE}}},
            *({**LINE, "event_id": f"i-{name}", "data": {"content": "a"}, name: TOKEN} for name in NAMES),
            {"end": True, "events": 1 + len(NAMES)},
        ]
        answer = await client.post(
            "/v1/admin/import",
            content=b"\n".join(map(msgspec.json.encode, lines)),
            headers={"content-type": "application/x-ndjson"},
        )
        assert answer.status_code == 202, answer.text
        assert answer.json()["events"] == 1
        assert answer.json()["rejected_lines"] == len(NAMES)
        assert TOKEN not in answer.text
    assert stored > 40
    kept = everything_under(server.data_dir)
    assert b"[REDACTED_SECRET]" in kept
    for secret in (TOKEN.encode(), PASSWORD.encode(), HIDDEN.encode()):
        at = kept.find(secret)
        assert at < 0, kept[max(0, at - 300) : at + 100]
