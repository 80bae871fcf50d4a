"""The projects and agents that there are: each reader is told of those that it finds something of."""

from typing import Any

import httpx
import pytest
from waiting import wait_until

from api.cli.client import ApiClient
from mnemolog_client import Mnemolog
from tests.acceptance.asking import all_pages, names, read, refused, write
from tests.acceptance.running import SECRET, Server, Tenant, new_tenant


@pytest.fixture
async def tenant(server: Server, project: str) -> Tenant:
    """A tenant of its own: three projects, the nameless one too, and what two agents wrote."""
    made = await new_tenant(server, project)
    async with made.client() as client:
        for agent, where, said in (
            ("ada", "shop", {}),
            ("ada", "shop", {}),
            ("bob", "", {}),
            ("carol", "vault", {"visibility": "private"}),
        ):
            about = {"agent_id": agent, "project": where, "keep_duplicates": True, **said}
            told = await write(client, "/v1/memories", content=f"{agent} was here", **about)
            await read(client, "/v1/memories", after=told["position"])
    return made


async def test_projects_and_agents_are_listed_by_name_with_what_there_is_of_each(tenant: Tenant):
    async with tenant.client() as client:
        projects = await all_pages(client, "/v1/projects")
        agents = await all_pages(client, "/v1/agents")
    assert projects == [{"project": "", "documents": 1}, {"project": "shop", "documents": 2}]
    assert agents == [{"agent_id": "ada", "documents": 2}, {"agent_id": "bob", "documents": 1}]


async def test_a_private_memory_tells_nobody_else_of_its_project_or_its_agent(tenant: Tenant):
    async with tenant.client("carol") as carol, tenant.client("bob") as bob:
        assert names(await read(carol, "/v1/projects"), "project") == ["", "shop", "vault"]
        assert names(await read(carol, "/v1/agents", project="vault"), "agent_id") == ["carol"]
        assert names(await read(bob, "/v1/projects"), "project") == ["", "shop"]
        assert names(await read(bob, "/v1/agents"), "agent_id") == ["ada", "bob"]


async def test_pages_go_on_behind_the_cursor_also_behind_the_nameless_project(tenant: Tenant):
    async with tenant.client("carol") as client:
        first = await read(client, "/v1/projects", limit=1)
        assert names(first, "project") == [""]
        rest = await all_pages(client, "/v1/projects", limit=1, cursor=first["next"])
        assert [one["project"] for one in rest] == ["shop", "vault"]
        assert await refused(client, "GET", "/v1/projects", cursor="shop") == (422, "invalid", "cursor")


async def test_a_key_for_some_projects_is_told_of_those(tenant: Tenant):
    async with tenant.client() as client:
        made = await client.post("/v1/admin/keys", json={"name": "x", "roles": ["read"], "projects": ["shop", "vault"]})
    async with tenant.server.client(secret=made.json()["key"]) as client:
        found: dict[str, Any] = {}

        async def known() -> bool:
            answer = await client.get("/v1/projects")
            found.update(answer.json())
            return answer.status_code == 200

        await wait_until(known)
        assert names(found, "project") == ["shop"]
        assert names(await read(client, "/v1/agents"), "agent_id") == ["ada"]


async def test_agents_of_a_project(tenant: Tenant):
    async with tenant.client() as client:
        assert await read(client, "/v1/agents", project="shop") == {
            "items": [{"agent_id": "ada", "documents": 2}],
            "next": None,
        }


async def test_what_was_just_written_is_counted_by_a_read_that_waits_for_it(client: httpx.AsyncClient, project: str):
    written = await write(client, "/v1/observations", project=project, session_id="s1", agent_id="ada", content="x")
    found = await read(client, "/v1/agents", project=project, after=written["position"])
    assert found["items"] == [{"agent_id": "ada", "documents": 1}]


NFD, NFC = "Zoe\u0308", "Zo\u00eb"
"""A name as a Mac's file system hands it over, and as it is typed."""


@pytest.mark.parametrize("agent", ["小王", NFC, "à", "100%25", "Ã«"])
def test_an_agent_whose_name_is_not_ascii_writes_and_reads(server: Server, project: str, agent: str):
    """The clients, and a header in UTF-8 as any program sends it. `à` ends in a byte that Latin-1 calls a space."""
    with Mnemolog(server.url, SECRET, agent=agent) as client:
        kept = client.memories.create(f"{agent} drinks tea", project=project, visibility="private")
        assert client.memories.get(kept.id).agent_id == agent
    with ApiClient(server.url, SECRET, agent=agent) as client:
        assert client.get(f"/v1/memories/{kept.id}")["agent_id"] == agent
    headers = {b"Authorization": f"Bearer {SECRET}".encode(), b"X-Agent-Id": agent.encode()}
    path = f"{server.url}/v1/memories/{kept.id}"
    assert httpx.get(path, headers=headers).json()["agent_id"] == agent
    assert httpx.get(path, headers={**headers, b"X-Agent-Id": b"bob"}).status_code == 404


async def test_names_are_the_same_in_every_unicode_form(client: httpx.AsyncClient, project: str):
    """What was written under one form is found under the other, in bodies, queries, paths and the header."""
    nfc, nfd = f"{project}-{NFC}", f"{project}-{NFD}"
    about = {"project": nfd, "tags": [NFD], "files": [f"src/{NFD}.py"], "user_id": NFD, "agent_id": NFD}
    told = await write(client, "/v1/memories", content="tea at four", visibility="private", **about)
    session = {"project": nfd, "session_id": NFD, "agent_id": NFD}
    told = await write(client, "/v1/observations", content="tea at five", **session)
    for one, agent in ((nfc, NFC), (nfd, NFD)):
        headers = {b"X-Agent-Id": agent.encode()}
        narrowed = {"tags": [agent], "files": [f"src/{agent}.py"], "user_id": agent}
        asked = {"query": "when is tea?", "project": one, "min_confidence": 0, "after": told["position"]}
        found = (await client.post("/v1/recall", json={**asked, **narrowed}, headers=headers)).json()["results"]
        assert [(each["content"], each["project"], each["agent_id"]) for each in found] == [("tea at four", nfc, NFC)]
        listed = (await client.get("/v1/memories", params={"project": one}, headers=headers)).json()["items"]
        assert [each["tags"] for each in listed] == [[NFC]]
        seen = (await client.get(f"/v1/sessions/{agent}/observations", params={"project": one})).json()["items"]
        assert [each["session_id"] for each in seen] == [NFC]


async def test_text_stays_in_the_form_it_was_sent_in(client: httpx.AsyncClient, project: str):
    told = await write(client, "/v1/memories", content=f"{NFD} drinks tea", project=project)
    assert (await read(client, f"/v1/memories/{told['id']}", after=told["position"]))["content"] == f"{NFD} drinks tea"


async def test_the_imitated_systems_find_a_name_in_every_unicode_form(client: httpx.AsyncClient, project: str):
    nfc, nfd = f"{project}-{NFC}", f"{project}-{NFD}"
    await client.post("/agentmemory/lessons", json={"content": "tea first", "project": nfd, "agentId": NFD})
    for one in (nfc, nfd):
        found = (await client.get("/agentmemory/lessons", params={"project": one})).json()
        assert [each["project"] for each in found["lessons"]] == [nfc]
