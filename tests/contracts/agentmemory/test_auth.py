"""A server with a secret: who may ask it what."""

import asyncio
import json

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.acceptance.running import SECRET, Server
from tests.contracts.agentmemory.calling import WHEN, Api, ok

PATIENT_S = 30.0
STREAM = "/stream/mem-live/viewer"


@pytest.mark.covers("GET /agentmemory/livez")
@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}])
def test_livez_is_for_everybody(trusted: Api, guarded: Server, given: dict[str, str]):
    assert trusted.http.get("/agentmemory/livez", headers={"Authorization": "", **given}).status_code == 200


@pytest.mark.covers("GET /agentmemory/health", "GET /agentmemory/config/flags", "POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "health"),
        ("GET", "config/flags"),
        ("GET", "sessions"),
        ("GET", "export"),
        ("GET", "audit"),
        ("GET", "memories"),
        ("GET", "mcp/tools"),
        ("GET", "observations"),
        ("GET", "viewer"),
        ("POST", "observe"),
        ("POST", "session/start"),
        ("POST", "remember"),
        ("POST", "search"),
        ("POST", "smart-search"),
        ("POST", "mcp/call"),
        ("POST", "replay/import-jsonl"),
        ("DELETE", "governance/memories"),
        ("PATCH", "actions/act_none"),
    ],
)
def test_everything_else_asks_for_the_secret(trusted: Api, method: str, path: str):
    answer = trusted.http.request(method, f"/agentmemory/{path}", headers={"Authorization": ""})
    assert (answer.status_code, answer.json()) == (401, {"error": "unauthorized"})


@pytest.mark.covers("GET /agentmemory/sessions")
@pytest.mark.parametrize("given", ["Bearer wrong", "Bearer", "Basic eDp5", "{secret}", "Bearer {secret}x"])
def test_what_is_not_the_secret_is_refused(trusted: Api, guarded: Server, given: str):
    headers = {"Authorization": given.format(secret=guarded.secret)}
    answer = trusted.http.get("/agentmemory/sessions", headers=headers)
    assert (answer.status_code, answer.json()) == (401, {"error": "unauthorized"})


@pytest.mark.covers("GET /agentmemory/sessions", "POST /agentmemory/observe")
def test_with_the_secret_all_is_as_without_one(trusted: Api, name: str):
    trusted.observe(name, tool_name="Bash")
    assert trusted.session(name)["observationCount"] == 1


@pytest.mark.covers("GET /viewer")
def test_the_page_without_a_prefix_is_open(trusted: Api):
    assert trusted.http.get("/viewer", headers={"Authorization": ""}).status_code == 200


@pytest.mark.covers("GET /agentmemory/sessions")
def test_a_page_may_ask_what_it_may_send_without_the_secret(trusted: Api):
    query = {
        "Authorization": "",
        "Origin": "http://localhost:3113",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization",
    }
    answer = trusted.http.options("/agentmemory/sessions", headers=query)
    assert answer.is_success
    assert answer.headers["access-control-allow-origin"] == "http://localhost:3113"


@pytest.mark.covers("WS /stream/mem-live/viewer")
@pytest.mark.parametrize("given", ["", "?token=wrong", "?secret=wrong", "?secret=", f"?token={SECRET}x"])
async def test_the_stream_is_closed_without_the_secret(guarded: Server, given: str):
    address = guarded.url.replace("http://", "ws://") + STREAM + given
    async with asyncio.timeout(PATIENT_S), connect(address, open_timeout=PATIENT_S, proxy=None) as stream:
        with pytest.raises(ConnectionClosed) as closed:
            await stream.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


@pytest.mark.covers("WS /stream/mem-live/viewer")
@pytest.mark.parametrize("field", ["token", "secret"])
async def test_the_stream_tells_who_knows_the_secret(guarded: Server, trusted: Api, name: str, field: str):
    address = guarded.url.replace("http://", "ws://") + f"{STREAM}?{field}={guarded.secret}"
    fields = {"sessionId": name, "hookType": "post_tool_use", "timestamp": WHEN, "data": {"tool_name": "Bash"}}
    frames: list[dict[str, object]] = []
    async with asyncio.timeout(PATIENT_S), connect(address, open_timeout=PATIENT_S, proxy=None) as stream:
        answer = await asyncio.to_thread(trusted.http.post, "/agentmemory/observe", json=fields)
        while len(frames) < 2:
            frame = json.loads(await stream.recv())
            frames += [frame] if frame["sessionId"] == name else []
    assert [frame["type"] for frame in frames] == ["raw_observation", "compressed_observation"]
    assert ok(answer, 201)["observationId"] in str(frames[0])
    assert guarded.secret not in "".join(path.read_text() for path in (guarded.data_dir / "logs").iterdir())
