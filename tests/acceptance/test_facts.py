"""No fact is lost because another looks like it: over HTTP, MCP and the command line, on a real server."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.asking import change, names, read, recall, remove, write
from tests.acceptance.running import Server, ids
from tests.acceptance.test_mcp_gateway import over_http
from tests.support.commands import run
from tests.support.waiting import wait_until

PAIRS = [
    ("Alice is allergic to peanuts and always carries a pen", "Alicia is allergic to peanuts and always carries a pen"),
    ("Build 4711 of the shop passed all of its tests", "Build 4712 of the shop passed all of its tests"),
    ("The admin page listens on port 8080 of the gateway", "The admin page listens on port 8081 of the gateway"),
    ("The yearly price of the license is 1,200 euros", "The yearly price of the license is 1,900 euros"),
    ("The nightly backup is enabled on the database host", "The nightly backup is not enabled on the database host"),
    ("数据库服务器的夜间备份已启用", "数据库服务器的夜间备份未启用"),
]


async def keep(client: httpx.AsyncClient, project: str, content: str, **said: Any) -> dict[str, Any]:
    """The answer that says what the memory did; sent again while that is not known in time, as on a busy machine."""
    command = {"event_id": uuid4().hex, "project": project, "content": content, **said}
    answer = await write(client, "/v1/memories", **command)
    for _ in range(20):
        if "superseded" in answer:
            break
        answer = await write(client, "/v1/memories", **command)
    return answer


async def current(client: httpx.AsyncClient, project: str, after: str) -> list[str]:
    return sorted(ids(await read(client, "/v1/memories", project=project, latest=True, after=after)))


@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("other", ["ada", "bob"])
async def test_two_facts_stay_two_whoever_records_them(
    client: httpx.AsyncClient, project: str, first: str, second: str, other: str
):
    one = await keep(client, project, first, agent_id="ada")
    two = await keep(client, project, second, agent_id=other)
    assert (two["superseded"], two["similar"]) == ([], [one["id"]])
    assert await current(client, project, two["position"]) == sorted([one["id"], two["id"]])
    found = await recall(client, second, project=project, fold=True)
    assert sorted(ids(found)) == sorted([one["id"], two["id"]])


async def test_a_restatement_supersedes_and_the_answer_says_what(client: httpx.AsyncClient, project: str):
    one = await keep(client, project, "The backup runs at night", agent_id="ada")
    said = {"agent_id": "ada", "event_id": f"{project}-again"}
    two = await keep(client, project, "Backup runs at night!", **said)
    assert (two["superseded"], two["similar"]) == ([one["id"]], [])
    assert (await keep(client, project, "Backup runs at night!", **said))["superseded"] == [one["id"]]
    assert await current(client, project, two["position"]) == [two["id"]]


async def test_only_what_the_writer_may_read_is_reported(client: httpx.AsyncClient, project: str):
    text = "The code of the safe is kept in the drawer of ada"
    await keep(client, project, text, agent_id="ada", visibility="private")
    answer = await keep(client, project, text, agent_id="bob")
    assert (answer["superseded"], answer["similar"]) == ([], [])


async def test_deleting_a_memory_leaves_that_of_another_agent(client: httpx.AsyncClient, project: str):
    """Also where both say the same words, and where one revised the other."""
    for first, second in ((PAIRS[0][0], PAIRS[0][1]), (PAIRS[1][0], PAIRS[1][0])):
        one = await keep(client, project, first, agent_id="ada")
        two = await keep(client, project, second, agent_id="bob")
        gone = await remove(client, f"/v1/memories/{two['id']}")
        assert (await read(client, f"/v1/memories/{one['id']}", after=gone["position"]))["is_latest"]
    revised = await change(client, f"/v1/memories/{one['id']}", content="Build 4713", agent_id="bob")
    gone = await remove(client, f"/v1/memories/{revised['id']}")
    assert (await read(client, f"/v1/memories/{one['id']}", after=gone["position"]))["is_latest"]


async def test_deleting_the_newest_of_three_restatements_leaves_two(client: httpx.AsyncClient, project: str):
    forms = ["The backup runs at night", "Backup runs at night", "THE BACKUP RUNS AT NIGHT!"]
    first, second, third = [await keep(client, project, text, agent_id="ada") for text in forms]
    gone = await remove(client, f"/v1/memories/{third['id']}")
    assert await current(client, project, gone["position"]) == [second["id"]]
    assert (await read(client, f"/v1/memories/{first['id']}"))["superseded_by"] == second["id"]


async def test_a_memory_that_expires_neither_supersedes_nor_takes_another_along(
    client: httpx.AsyncClient, project: str
):
    lasting = await keep(client, project, "The backup runs at night", agent_id="ada")
    brief = await keep(client, project, "The backup runs at night", agent_id="ada", ttl_days=1)
    assert (brief["superseded"], brief["similar"]) == ([], [lasting["id"]])
    gone = await remove(client, f"/v1/memories/{brief['id']}")
    assert await current(client, project, gone["position"]) == [lasting["id"]]


async def test_a_key_that_may_only_write_is_told_of_no_others(server: Server, project: str):
    async with server.client() as operator:
        made = await operator.post("/v1/admin/keys", json={"name": project, "roles": ["write"], "tenant": "default"})
        assert made.status_code == 201, made.text

    async with server.client("ada", secret=made.json()["key"]) as hook:

        async def kept() -> bool:
            body = {"project": project, "content": "The backup runs at night"}
            answer = await hook.post("/v1/memories", json=body)
            return answer.status_code == 202 and not {"superseded", "similar"} & answer.json().keys()

        await wait_until(kept)  # processes look for new keys now and then


async def test_remembering_over_mcp_says_what_it_resembles(server: Server, client: httpx.AsyncClient, project: str):
    one = await keep(client, project, PAIRS[1][0], agent_id="ada")
    async with over_http(server.url, server.secret or None) as mcp:
        answer = await mcp.call_tool("remember", {"project": project, "content": PAIRS[1][1], "agent_id": "ada"})
    assert answer.structured_content is not None
    assert (answer.structured_content["superseded"], answer.structured_content["similar"]) == ([], [one["id"]])
    assert one["id"] in str(answer.content)


async def test_an_import_of_lines_keeps_every_fact_and_counts_what_is_superseded(
    server: Server, client: httpx.AsyncClient, project: str, tmp_path: Path
):
    facts = ["The port is 8080", "The port is 8081", "The port is 8082", "The port is 8082."]
    lines = [json.dumps({"type": "remember", "project": project, "agent_id": "ada", "content": fact}) for fact in facts]
    (tmp_path / "facts.jsonl").write_text("\n".join(lines))
    variables = {"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": server.secret, "XDG_STATE_HOME": str(tmp_path)}
    done = await asyncio.to_thread(run, variables, "import", "jsonl", str(tmp_path / "facts.jsonl"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["kinds"]["command"]["superseded"] == 1

    async def contents() -> list[str]:
        page = await read(client, "/v1/memories", project=project, latest=True)
        return sorted(names(page, "content"))

    assert await contents() == [facts[0], facts[1], facts[3]]
