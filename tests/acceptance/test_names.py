"""The projects and agents that there are: each reader is told of those that it finds something of."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from commands import run
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


LONG_AGO = datetime(2021, 3, 14, tzinfo=UTC)
DAY = timedelta(days=1)
LISTED: dict[str, dict[str, Any]] = {
    "/v1/timeline": {},
    "/v1/sessions": {},
    "/v1/sessions/{session}/observations": {},
    "/v1/memories": {},
    "/v1/lessons": {},
    "/v1/actions": {"open": True},
    "/v1/relations": {},
    "/v1/commits": {},
    "/v1/slots": {},
    "/v1/summaries": {},
}
"""The listings of a project, all of which have something that happened long ago and was recorded now."""


@pytest.fixture
async def happened(client: httpx.AsyncClient, project: str) -> datetime:
    """One of everything, said to have happened long ago. Returns a time before any of it was recorded."""
    before = datetime.now(UTC) - timedelta(minutes=1)
    about: dict[str, Any] = {"project": project, "occurred_at": LONG_AGO.isoformat()}
    session = {**about, "session_id": f"{project}-s"}
    await write(client, "/v1/observations", **session, content="The heron nests. We decided to keep the gate shut.")
    memory = await write(client, "/v1/memories", **about, content="herons nest in March")
    lesson = await write(client, "/v1/lessons", **about, content="wait for the heron")
    await write(client, "/v1/actions", **about, title="count the nests")
    await write(client, "/v1/slots", **about, label="notes", content="herons")
    await write(client, "/v1/commits", **session, commit="abc123")
    await write(client, "/v1/relations", **about, source=memory["id"], target=lesson["id"], relation="causes")
    ended = await write(client, "/v1/sessions", **session, status="ended")
    await read(client, "/v1/timeline", project=project, after=ended["position"])
    summary = await client.post(f"/v1/sessions/{project}-s/summary", json={"project": project})
    await read(client, "/v1/summaries", project=project, after=summary.json()["position"])
    return before


async def listed(client: httpx.AsyncClient, path: str, project: str, **bounds: datetime) -> int:
    """How much a listing has of some time."""
    texts = {name: time.isoformat() for name, time in bounds.items()}
    where = path.format(session=f"{project}-s")
    if path == "/v1/slots":
        return len((await read(client, where, project=project, **texts))["items"])
    return len(await all_pages(client, where, project=project, **LISTED[path], **texts))


async def test_every_listing_is_bounded_by_when_it_happened_and_by_when_it_was_recorded(
    client: httpx.AsyncClient, project: str, happened: datetime
):
    """A summary happens when its session ended, whenever it is made."""
    for path in LISTED:
        count = await listed(client, path, project, recorded_since=happened)
        assert count >= 1, path
        assert await listed(client, path, project, recorded_until=happened) == 0, path
        assert await listed(client, path, project, since=LONG_AGO - DAY, until=LONG_AGO + DAY) == count, path
        assert await listed(client, path, project, until=LONG_AGO - DAY) == 0, path
        assert await listed(client, path, project, since=LONG_AGO + DAY) == 0, path


async def test_the_log_and_the_audit_are_bounded_by_both_times(
    client: httpx.AsyncClient, project: str, happened: datetime
):
    for path, name, about in (("/v1/events", "events", {}), ("/v1/audit", "entries", {"operation": "*"})):

        async def count(path: str = path, name: str = name, about: dict[str, str] = about, **bounds: datetime) -> int:
            texts = {name: time.isoformat() for name, time in bounds.items()}
            return len((await read(client, path, project=project, limit=1000, **about, **texts))[name])

        everything = await count()
        assert everything >= 8
        assert await count(recorded_since=happened) == everything, path
        assert await count(recorded_until=happened) == 0, path
        assert await count(until=LONG_AGO + DAY) == await count(since=LONG_AGO, until=LONG_AGO + DAY) > 0, path
        assert await count(until=LONG_AGO) == 0, path
        assert await count(since=LONG_AGO + DAY) == everything - await count(until=LONG_AGO + DAY), path


async def test_receipts_are_bounded_by_when_they_were_asked_for(client: httpx.AsyncClient, project: str):
    before = datetime.now(UTC)
    asked = await client.post("/v1/forget", json={"kind": "project", "subject": project})
    name = asked.json()["id"]
    for bounds, there in (({"since": before}, True), ({"until": before}, False), ({"recorded_since": before}, True)):
        found = await all_pages(client, "/v1/forget", **{key: time.isoformat() for key, time in bounds.items()})
        assert (name in [one["id"] for one in found]) is there


async def test_dead_letters_take_bounds_and_have_none_of_a_time_without_any(client: httpx.AsyncClient):
    answer = await read(client, "/v1/admin/dead-letters", recorded_until=LONG_AGO.isoformat())
    assert (answer["dead_letters"], answer["next"]) == ([], None)


async def test_what_was_imported_keeps_the_time_at_which_it_was_first_recorded(client: httpx.AsyncClient, project: str):
    header = {"format": "mnemolog-export", "version": 1, "tenant": "default", "project": project}
    event = {
        "event_id": "m1", "type": "memory.recorded", "version": 2, "tenant": "default", "project": project,
        "occurred_at": LONG_AGO.isoformat(), "recorded_at": (LONG_AGO + DAY).isoformat(),
        "data": {"content": "an egret"},
    }  # fmt: skip
    lines = [header, event, {"end": True, "events": 1}]
    answer = await client.post("/v1/admin/import", content="\n".join(map(json.dumps, lines)))
    assert (answer.status_code, answer.json()["events"]) == (202, 1), answer.text
    marker = await write(client, "/v1/lessons", project=project, content="the egret is here")
    await read(client, "/v1/lessons", project=project, after=marker["position"])
    for since, count in ((LONG_AGO, 1), (LONG_AGO + 2 * DAY, 0)):
        bounds = {"recorded_since": since, "recorded_until": LONG_AGO + 9 * DAY}
        assert await listed(client, "/v1/memories", project, **bounds) == count


@pytest.mark.parametrize("bound", ["since", "until", "recorded_since", "recorded_until"])
@pytest.mark.parametrize("text", ["soon", "2026-01-31", "2026-01-31T12:00:00"])
async def test_a_bound_is_a_time_with_an_offset(client: httpx.AsyncClient, bound: str, text: str):
    assert await refused(client, "GET", "/v1/memories", **{bound: text}) == (422, "invalid", bound)


HEADER = b'{"format":"mnemolog-export","version":1,"tenant":"default","project":null}\n'


async def export(client: httpx.AsyncClient, path: str = "/v1/admin/export", **query: str) -> bytes:
    """A whole export."""
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return answer.content


async def imported(client: httpx.AsyncClient, body: bytes) -> dict[str, Any]:
    """What became of an import."""
    answer = await client.post("/v1/admin/import", content=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


def events_of(body: bytes) -> list[dict[str, Any]]:
    """The events of an export."""
    return [json.loads(line) for line in body.splitlines()[1:-1]]


def files(folder: Path) -> list[Path]:
    """What is in a folder."""
    return list(folder.iterdir())


async def fill(server: Tenant) -> str:
    """Write a little of everything, forget some, and wait until it is projected; returns a memory's id."""
    async with server.client("ada") as ada, server.client("bob") as bob:
        await write(ada, "/v1/sessions", project="shop", session_id="s1", status="started", title="Fix the build")
        await write(ada, "/v1/observations", project="shop", session_id="s1", content="tests are red")
        kept = await write(ada, "/v1/memories", project="shop", content="We deploy on Tuesdays", tags=["deploy"])
        gone = await write(ada, "/v1/memories", project="shop", content="the word is xylophone")
        await write(bob, "/v1/memories", project="shop", content="bob keeps this", visibility="private")
        last = await write(bob, "/v1/lessons", project="bakery", content="Sum first, round last")
        await read(ada, f"/v1/memories/{gone['id']}", after=gone["position"])
        forgotten = await ada.delete(f"/v1/memories/{gone['id']}")
        assert forgotten.status_code == 202, forgotten.text
        for position in (kept["position"], forgotten.json()["position"], last["position"]):
            await read(ada, "/v1/memories", project="shop", after=position)
        return kept["id"]


async def test_what_one_server_exports_another_one_imports(tenants: tuple[Tenant, Tenant]):
    source, target = tenants
    kept = await fill(source)
    async with source.client() as one, target.client() as other:
        body = await export(one)
        assert b"xylophone" not in body
        count = len(events_of(body))
        assert await imported(other, body) == {
            "events": count, "duplicates": 0, "superseded": 0, "rejected_lines": 0, "rejected": [], "complete": True,
        }  # fmt: skip
        assert await export(other) == body
        assert (await imported(other, body))["duplicates"] == count
        head = await write(other, "/v1/memories", project="shop", content="and one of its own")
        found = await read(other, f"/v1/memories/{kept}", after=head["position"])
        assert found == {**await read(one, f"/v1/memories/{kept}"), "position": found["position"]}


async def test_an_agent_exports_what_it_may_read(tenants: tuple[Tenant, Tenant], project: str):
    (tenant, _) = tenants
    await fill(tenant)
    async with tenant.client("ada") as ada, tenant.client("bob") as bob:
        everything = events_of(await export(ada))
        assert b"bob keeps this" in await export(ada)
        assert events_of(await export(bob, "/v1/export")) == everything
        hers = await export(ada, "/v1/export")
        assert b"bob keeps this" not in hers
        assert b"withheld" not in hers
        assert len(events_of(hers)) == len(everything) - 1
        bakery = await ada.get("/v1/export", params={"project": "bakery"})
        assert bakery.headers["content-disposition"] == f'attachment; filename="mnemolog-{project}-bakery.ndjson"'
        assert [event["project"] for event in events_of(bakery.content)] == ["bakery"]
        assert events_of(await export(ada, project="")) == []


async def test_an_import_may_be_bigger_than_other_bodies(tenants: tuple[Tenant, Tenant], project: str):
    line = {
        "type": "observation.recorded", "version": 1, "tenant": project, "session_id": "s",
        "recorded_at": "2026-01-31T12:00:00.000Z", "data": {"content": "x" * 900_000},
    }  # fmt: skip
    lines = [json.dumps({"event_id": f"e{n}", **line}).encode() + b"\n" for n in range(20)]
    body = HEADER.replace(b"default", project.encode()) + b"".join(lines) + b'{"end":true,"events":20}\n'
    assert len(body) > 16 << 20
    async with tenants[1].client() as client:
        assert (await imported(client, body))["events"] == 20
        assert len(events_of(await export(client))) == 20


async def test_the_command_line_moves_everything_through_a_file(tenants: tuple[Tenant, Tenant], tmp_path: Path):
    source, target = tenants
    await fill(source)
    one, other = source.variables, target.variables
    file = tmp_path / "all.ndjson"
    done = run(one, "export", "--output", str(file), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == {"file": str(file), "events": len(events_of(file.read_bytes())), "unreadable": 0}
    assert files(tmp_path) == [file]
    done = run(other, "import", str(file), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["events"] == report["events"]
    again = run(other, "export")
    assert again.returncode == 0, again.stderr
    assert again.stdout.encode() == file.read_bytes()
    done = run(other, "import", "-", text=again.stdout)
    assert (done.returncode, done.stdout) == (0, f"0 events imported, {report['events']} already known\n")
    file.write_bytes(file.read_bytes()[:-30])
    done = run(other, "import", str(file))
    assert done.returncode == 1
    assert "the file is incomplete" in done.stderr


@pytest.mark.parametrize("content", [b"", b"hello\n"])
def test_a_file_that_is_no_export_is_refused(server: Server, tmp_path: Path, content: bytes):
    file = tmp_path / "other.txt"
    file.write_bytes(content)
    done = run({"MNEMOLOG_URL": server.url, "MNEMOLOG_SECRET": SECRET}, "import", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Unsupported export version" in done.stderr
