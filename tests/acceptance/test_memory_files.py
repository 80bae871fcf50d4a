"""Anthropic's memory tool over MCP, beside that of the Python client; tests/ring/frameworks/modules has more."""

import json
from pathlib import Path
from typing import Any

import mcp.types as types
import pytest
from waiting import wait_until

from mnemolog_client import Mnemolog
from mnemolog_client.files import FileError, MemoryFiles, run
from tests.acceptance.running import SECRET, Server
from tests.acceptance.test_mcp_profiles import client_of, text

COMMANDS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "ring/frameworks/modules/commands.json").read_text()
)
NOTES = "/memories/notes.md"


def acknowledged(result: types.CallToolResult) -> list[dict[str, str]]:
    data: dict[str, Any] = result.structured_content or {}
    return data.get("acknowledged", [])


def stored(client: Mnemolog, project: str) -> list[tuple[str, str, int, list[str], str]]:
    memories = client.memories.list(project, latest=True)
    return sorted((memory.title, memory.content, memory.version, memory.tags, memory.agent_id) for memory in memories)


def answered(client: Mnemolog, files: MemoryFiles, command: str, **fields: Any) -> str:
    try:
        return run(client, getattr(files, command)(**fields))
    except FileError as error:
        return str(error)


async def test_commands_answer_and_store_as_those_of_the_python_client(server: Server, project: str):
    deleted, receipts = list[str](), list[dict[str, str]]()
    with Mnemolog(server.url, SECRET, agent="ada") as client:
        files = MemoryFiles(f"{project}-p", on_deleted=lambda path, _: deleted.append(path))
        expected = [answered(client, files, **command) for command in COMMANDS]
        async with client_of(server, "files", agent="ada") as mcp_client:
            for command, answer in zip(COMMANDS, expected, strict=True):
                result = await mcp_client.call_tool("memory", {**command, "project": f"{project}-m"})
                assert text(result) == answer, command
                receipts += acknowledged(result)
        for receipt in receipts:
            client.advance(receipt["position"])
        assert stored(client, f"{project}-m") == stored(client, f"{project}-p") != []
    assert [receipt["path"] for receipt in receipts if "path" in receipt] == deleted != []
    assert all(receipt["id"].startswith("mem_") and receipt["event_id"] for receipt in receipts)


async def test_a_wrong_call_says_what_is_wrong_and_stores_nothing(server: Server, project: str):
    refused = {
        "needs path": {"command": "view"},
        "needs file_text": {"command": "create", "path": NOTES},
        "needs new_path": {"command": "rename", "old_path": NOTES},
        "must be one of view, create": {"command": "undo"},
        "would escape /memories": {"command": "create", "path": "/memories/../x", "file_text": "x"},
        "Error: ": {"command": "create", "path": NOTES, "file_text": "x" * 1_100_000},
    }
    async with client_of(server, "files") as mcp_client:
        for message, arguments in refused.items():
            result = await mcp_client.call_tool("memory", {**arguments, "project": project})
            assert result.is_error
            assert message in text(result)
        listing = text(
            await mcp_client.call_tool("memory", {"command": "view", "path": "/memories", "project": project})
        )
        assert listing.count("\n") == 1


@pytest.mark.parametrize("profile", ["files", "native,files"])
async def test_the_files_are_memories_of_the_agent_in_a_project_of_their_own(server: Server, profile: str):
    path = f"/memories/{profile}.md"
    with Mnemolog(server.url, SECRET, agent="ada") as client:
        async with client_of(server, profile, agent="ada") as mcp_client:
            await mcp_client.call_tool(
                "memory", {"command": "create", "path": path, "file_text": "We deploy on Tuesdays."}
            )
            changed = await mcp_client.call_tool(
                "memory", {"command": "str_replace", "path": path, "old_str": "Tues", "new_str": "Mon"}
            )
            (receipt,) = acknowledged(changed)
            client.advance(receipt["position"])
            versions = client.memories.history(receipt["id"])
            assert [(memory.content, memory.agent_id, memory.project, memory.source) for memory in versions] == [
                (f"We deploy on {day}days.", "ada", "memory-files", "mcp") for day in ("Tues", "Mon")
            ]
            await mcp_client.call_tool("memory", {"command": "delete", "path": path})


async def test_a_key_reaches_only_the_files_of_its_projects(server: Server, project: str):
    limited = {"name": project, "roles": ["read", "write"], "projects": [project]}
    async with server.client() as admin:
        key = (await admin.post("/v1/admin/keys", json=limited)).json()["key"]
    with_key = server._replace(secret=key)

    async def is_accepted() -> bool:
        async with with_key.client() as http:
            return (await http.get("/v1/projects")).status_code == 200

    await wait_until(is_accepted)
    create = {"command": "create", "path": NOTES, "file_text": "x"}
    async with client_of(with_key, "files") as mcp_client:
        assert not (await mcp_client.call_tool("memory", {**create, "project": project})).is_error
        refusal = await mcp_client.call_tool("memory", create)
    assert refusal.is_error
    assert "memory-files" in text(refusal)


async def test_tags_alone_make_no_file_and_break_none(server: Server, project: str):
    tags = [f"file:{NOTES}", "file:/memories", "blank:notjson", 'blank:{"a": 1}']
    with Mnemolog(server.url, SECRET, agent="ada") as client:
        for title in ("", NOTES, "/memories"):
            client.memories.create(f"No file {title}", project=project, title=title, tags=tags)
        async with client_of(server, "files", agent="ada") as mcp_client:

            async def answers(path: str) -> set[str]:
                arguments = {"command": "view", "path": path, "project": project, "agent_id": "ada"}
                # first over REST, which waits for what this client wrote: the MCP connection does not know of it
                over_rest = answered(client, MemoryFiles(project), "view", path=path)
                return {over_rest, text(await mcp_client.call_tool("memory", arguments))}

            (listing,) = await answers("/memories")
            assert listing.count("\n") == 1
            assert await answers(NOTES) == {f"The path {NOTES} does not exist. Please provide a valid path."}
            answered(client, MemoryFiles(project, fields={"tags": ["x"]}), "create", path=NOTES, file_text="ours")
            file = next(memory for memory in client.memories.list(project) if memory.keep_duplicates)
            client.memories.revise(file.id, tags=tags)
            (shown,) = await answers(NOTES)
            assert shown.endswith("\tours")
