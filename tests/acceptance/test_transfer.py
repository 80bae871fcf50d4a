"""Export and import as operators and agents meet them: over HTTP, between two servers, and from the command line."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.running import SECRET, Server, Tenant, fault
from tests.acceptance.test_native_api import read, write
from tests.support.commands import run

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
        assert [one["project"] for one in events_of(bakery.content)] == ["bakery"]
        assert events_of(await export(ada, project="")) == []


async def test_a_bad_file_is_refused_and_a_bad_line_reported(tenants: tuple[Tenant, Tenant], project: str):
    async with tenants[0].client() as client:
        refused = await client.post("/v1/admin/import", content=b'{"a":1}\n')
        assert refused.status_code == 422
        assert "Unsupported export version" in fault(refused)["detail"]
        answer = await imported(client, HEADER.replace(b"default", project.encode()) + b"{\n")
        assert (answer["rejected"][0]["line"], answer["complete"]) == (2, False)
        assert (await client.get("/v1/export", params={"tenant": "x"})).status_code == 422


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


async def test_an_export_and_an_import_need_the_secret(server: Server):
    async with server.client(secret="wrong") as stranger:
        assert (await stranger.get("/v1/admin/export")).status_code == 401
        assert (await stranger.get("/v1/export")).status_code == 401
        assert (await stranger.post("/v1/admin/import", content=HEADER)).status_code == 401


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
