"""The life of memories as the Open Memory Protocol's draft semantic core describes it, over the native API.

The cases and their texts are those of its fixtures 02, 03, 05, 06, 08, 09 and 10 (Apache-2.0). The others are about its
exchange format (policies, extensions, derivation modes), which mnemolog does not read.
"""

import json
from typing import Any

import httpx

from tests.acceptance.asking import read, recall, repeated, write
from tests.acceptance.running import Server, fault, new_tenant

Client = httpx.AsyncClient


async def remember(client: Client, content: str, **fields: Any) -> dict[str, Any]:
    return await write(client, "/v1/memories", content=content, agent_id="alice", **fields)


async def revise(client: Client, memory: str, content: str, **fields: Any) -> httpx.Response:
    return await repeated(client, "PATCH", f"/v1/memories/{memory}", json={"content": content, **fields})


async def current(client: Client, project: str, query: str, after: str) -> set[str]:
    """What recall tells now."""
    return {result["content"] for result in (await recall(client, query, project=project, after=after))["results"]}


async def test_correction_shows_only_the_new_version_and_keeps_the_old_one_readable(client: Client, project: str):
    first = await remember(client, "Lives in Boston", project=project)
    second = (await revise(client, first["id"], "Lives in Brooklyn")).json()
    assert await current(client, project, "where does Alice live?", second["position"]) == {"Lives in Brooklyn"}
    history = await read(client, f"/v1/memories/{second['id']}/history")
    assert [version["content"] for version in history["items"]] == ["Lives in Boston", "Lives in Brooklyn"]


async def test_consolidation_names_its_inputs_which_stay_current_unless_superseded(client: Client, project: str):
    first = await remember(client, "Standup Tuesday", project=project)
    second = (await revise(client, first["id"], "Standup moved to Friday")).json()
    summary = await remember(client, "Standup is Friday (was Tuesday)", project=project, references=[second["id"]])
    expected = {"Standup moved to Friday", "Standup is Friday (was Tuesday)"}
    assert await current(client, project, "when is the standup?", summary["position"]) == expected
    assert (await read(client, f"/v1/memories/{summary['id']}"))["references"] == [second["id"]]


async def test_import_of_an_export_leaves_what_is_not_in_it(server: Server):
    tenant = await new_tenant(server, "partial-export")
    async with tenant.client() as client:
        await remember(client, "New arrival", project="p")
        exported = (await client.get("/v1/admin/export")).content
        await remember(client, "Keep me", project="p")
        position = await imported(client, exported)
        assert await current(client, "p", "keep the new arrival", position) == {"Keep me", "New arrival"}


async def test_concurrent_revisions_apply_once_and_report_the_conflict(client: Client, project: str):
    first = await remember(client, "Version A", project=project, event_id=f"rev-{project}")
    other = await remember(client, "Version B", project=project, event_id=f"rev-{project}")
    assert (other["id"], other["duplicate"]) == (first["id"], True), "one id is one memory, whatever it says"
    one = await revise(client, first["id"], "Replacement 1", expected_version=1)
    two = await revise(client, first["id"], "Replacement 2", expected_version=1)
    assert (one.status_code, two.status_code, fault(two)["version"]) == (200, 409, 2)
    assert await current(client, project, "version replacement", one.json()["position"]) == {"Replacement 1"}


async def test_expired_memory_is_not_current(client: Client, project: str):
    await remember(client, "Expired promo code", project=project, valid_until="2026-01-02T00:00:00Z")
    valid = await remember(client, "Still valid promo code", project=project)
    assert await current(client, project, "promo code", valid["position"]) == {"Still valid promo code"}


async def test_deleted_memory_does_not_come_back_with_an_old_export(server: Server):
    tenant = await new_tenant(server, "resurrection")
    async with tenant.client() as client:
        badge = await remember(client, "Alice's badge number is 123", project="p")
        await remember(client, "Unrelated fact about badges", project="p")
        exported = (await client.get("/v1/admin/export")).content
        assert b"badge number is 123" in exported
        deleted = await client.delete(f"/v1/memories/{badge['id']}")
        assert deleted.status_code == 202, deleted.text
        position = await imported(client, exported)
        assert await current(client, "p", "badge number", position) == {"Unrelated fact about badges"}
        assert b"badge number is 123" not in (await client.get("/v1/admin/export")).content


async def test_credential_in_a_memory_is_not_stored(client: Client, project: str):
    token = "sk-abcdefghijklmnopqrstuvwxyz123456"
    memory = await remember(client, f"my token is {token}", project=project)
    stored = await read(client, f"/v1/memories/{memory['id']}", after=memory["position"])
    assert (token in json.dumps(stored), "my token is" in stored["content"]) == (False, True)


async def imported(client: Client, exported: bytes) -> str:
    """Import an export; returns the position of what is written afterward."""
    headers = {"content-type": "application/x-ndjson"}
    answer = await client.post("/v1/admin/import", content=exported, headers=headers)
    assert answer.status_code == 202, answer.text
    assert answer.json()["duplicates"] or answer.json()["accepted"], answer.text
    return (await remember(client, "The import is done", project="other"))["position"]
