"""Control characters in recorded text: removed where the text is shown, kept where it is returned as stored."""

import json
from typing import Any

import httpx
import pytest

from tests.acceptance.running import Server
from tests.acceptance.test_cli_documents import Cli
from tests.acceptance.test_mcp_profiles import client_of, text

SENT = "The banner\x1b]0;pwned\x07\x1b[2J is \x1b[31mred\x1b[0m\u202e on purpose\x9b2J\x7f"
SHOWN = "The banner is red on purpose"


@pytest.fixture
async def memory(client: httpx.AsyncClient, project: str) -> dict[str, Any]:
    """A memory; a lesson and a failed tool call have the same text."""
    fields = {"project": project, "content": SENT}
    await client.post("/v1/lessons", json={**fields, "trigger_tool": "Bash", "trigger_pattern": "."})
    call = {"tool_name": "Bash", "tool_input": {"command": "show"}, "error": SENT}
    hook = {"hookType": "post_tool_failure"}
    observed = {"project": project, "session_id": project, "data": call, "metadata": hook}
    last = (await client.post("/v1/observations", json=observed)).json()
    kept = (await client.post("/v1/memories", json=fields)).json()
    for written in (last, kept):
        await client.get("/v1/memories", params={"after": written["position"]})
    return kept


async def test_shown_text_has_no_control_characters(
    server: Server, client: httpx.AsyncClient, project: str, memory: dict[str, Any]
):
    cli, about = Cli(server, project), {"project": project, "query": "banner"}
    recalled = (await client.post("/v1/recall", json=about)).json()
    texts = {
        "results": json.dumps([[one["title"], one["snippet"]] for one in recalled["results"]], ensure_ascii=False),
        "context": (await client.post("/v1/context", json=about)).json()["context"],
        "match": (
            await client.get("/v1/lessons/match", params={"tool_name": "Bash", "preview": "x", "project": project})
        ).text,
    }
    for command in ("recall banner", "context banner", "memories", "lessons", f"show {memory['id']}"):
        words = command.split()
        texts[command] = cli(*words, *(() if words[0] == "show" else ("--project", project)))
    async with client_of(server, "native,agentmemory") as agent:
        for name, arguments in {"recall": about, "context": about, "memory_smart_search": {"query": "banner"}}.items():
            result = await agent.call_tool(name, arguments)
            texts[name] = json.dumps(result.structured_content, ensure_ascii=False)
            if name != "memory_smart_search":  # its text is JSON, which has them escaped
                texts[f"text of {name}"] = text(result)
    for name, one in texts.items():
        assert SHOWN in " ".join(one.split()), name
        assert not {*"\x1b\x07\x9b\x7f\u202e"} & {*one}, name
        assert not any(rest in one for rest in ("[2J", "[31m", "pwned")), name


async def test_stored_text_is_returned_as_it_is(
    server: Server, client: httpx.AsyncClient, project: str, memory: dict[str, Any]
):
    assert (await client.get(f"/v1/memories/{memory['id']}")).json()["content"] == SENT
    assert Cli(server, project).json("show", memory["id"])["content"] == SENT
