"""Anthropic's memory tool on mnemolog, beside the SDK's own tool on a folder. `test_frameworks.py` runs this file."""

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool

from mnemolog_client import AsyncMnemolog, Mnemolog, NotFound
from mnemolog_client.answers import Accepted
from mnemolog_client.anthropic import AsyncMemoryTool, MemoryTool
from mnemolog_client.files import MemoryFiles

Do = Callable[..., str]
NOTES = "/memories/notes.md"
DELETED: list[tuple[str, Accepted]] = []


@pytest.fixture
def project() -> str:
    return f"files-{uuid4().hex[:12]}"


@pytest.fixture
def client() -> Iterator[Mnemolog]:
    with Mnemolog(agent="ada") as opened:
        yield opened


@pytest.fixture(params=["blocking", "asynchronous", "mcp"])
def do(request: pytest.FixtureRequest, client: Mnemolog, project: str) -> Do:
    """Carries out a command with each of the two tools, and over MCP; an error is its text."""
    if request.param == "mcp":
        return over_mcp(client, project)
    files = MemoryFiles(project, on_deleted=lambda path, receipt: DELETED.append((path, receipt)))
    if request.param == "blocking":
        return doing(MemoryTool(client, files))

    async def asynchronous(command: dict[str, Any]) -> str:
        async with AsyncMnemolog(agent="ada", position=client.position) as other:
            try:
                return str(await AsyncMemoryTool(other, files).call(command))
            except ToolError as error:
                return str(error.content)
            finally:
                client.advance(other.position)

    def do(name: str, **fields: Any) -> str:
        return asyncio.run(asynchronous({"command": name, **fields}))

    return do


def doing(tool: Any) -> Do:
    """Carries out a command with a blocking tool; an error is its text."""

    def do(name: str, **fields: Any) -> str:
        try:
            return tool.call({"command": name, **fields})
        except ToolError as error:
            return str(error.content)

    return do


def over_mcp(client: Mnemolog, project: str) -> Do:
    """Carries out a command with the server's tool, which a host calls over MCP."""
    headers = {"Authorization": f"Bearer {os.environ['MNEMOLOG_SECRET']}", "X-Agent-Id": "ada"}

    def do(name: str, **fields: Any) -> str:
        call = {"name": "memory", "arguments": {"command": name, "project": project, **fields}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        url = f"{os.environ['MNEMOLOG_URL']}/mcp?profile=files"
        result = httpx.post(url, json=message, headers=headers, timeout=60).json()["result"]
        data: dict[str, list[dict[str, str]]] = result.get("structuredContent") or {}
        for receipt in data.get("acknowledged", ()):
            client.advance(receipt["position"])
            if path := receipt.get("path"):
                fields = {"duplicate": False, "durability": "fsync"}
                DELETED.append(
                    (path, Accepted(**{key: receipt[key] for key in ("id", "event_id", "position")}, **fields))
                )
        return result["content"][0]["text"]

    return do


COMMANDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "commands.json").read_text())


def test_commands_are_answered_as_the_sdk_answers_them_on_a_folder(do: Do, tmp_path: Path):
    theirs = doing(BetaLocalFilesystemMemoryTool(str(tmp_path)))
    for command in COMMANDS:
        name, fields = command["command"], {key: value for key, value in command.items() if key != "command"}
        assert comparable(do(name, **fields)) == comparable(theirs(name, **fields)), command


def comparable(answer: str) -> str:
    """Without what the SDK says otherwise than the documentation, and without the sizes of directories."""
    answer = answer.removeprefix("Error: ").replace("hidden items and node_modules:", "hidden items:")
    answer = re.sub(r"within the range (of lines of the file: )?(\[0, \d+\])\.?", r"within \2", answer)
    answer = answer.replace(" Please provide a valid path.", "")
    return re.sub(r"^[\d.]+[BKM]\t(/memories(?:/people)?|.*/)$", r"\1", answer, flags=re.MULTILINE)


ERRORS = {
    ("view", "path=/memories/no"): "The path /memories/no does not exist. Please provide a valid path.",
    ("create", f"path={NOTES}", "file_text=x"): f"Error: File {NOTES} already exists",
    ("create", f"path={NOTES}/x", "file_text=x"): f"Error: {NOTES} is a file, not a directory",
    ("str_replace", "path=/memories/no", "old_str=a", "new_str=b"): (
        "Error: The path /memories/no does not exist. Please provide a valid path."
    ),
    ("str_replace", f"path={NOTES}", "old_str=cat", "new_str=b"): (
        f"No replacement was performed, old_str `cat` did not appear verbatim in {NOTES}."
    ),
    ("str_replace", f"path={NOTES}", "old_str=tea", "new_str=b"): (
        "No replacement was performed. Multiple occurrences of old_str `tea` in lines: 1, 3. Please ensure it is unique"
    ),
    ("insert", "path=/memories/no", "insert_line=0", "insert_text=x"): "Error: The path /memories/no does not exist",
    ("insert", f"path={NOTES}", "insert_line=7", "insert_text=x"): (
        "Error: Invalid `insert_line` parameter: 7. It should be within the range of lines of the file: [0, 3]"
    ),
    ("delete", "path=/memories/no"): "Error: The path /memories/no does not exist",
    ("rename", "old_path=/memories/no", "new_path=/memories/x"): "Error: The path /memories/no does not exist",
    ("rename", f"old_path={NOTES}", f"new_path={NOTES}"): f"Error: The destination {NOTES} already exists",
}


def test_errors_have_the_texts_of_the_documentation(do: Do):
    do("create", path=NOTES, file_text="tea\nmilk\ntea\n")
    for (name, *given), text in ERRORS.items():
        fields: dict[str, Any] = dict(one.split("=", 1) for one in given)
        if "insert_line" in fields:
            fields["insert_line"] = int(fields["insert_line"])
        assert do(name, **fields) == text


def test_a_listing_has_sizes_and_leaves_out_hidden_files_and_what_is_deeper_than_two_levels(do: Do):
    do("create", path="/memories/big.md", file_text="x" * 1536)
    do("create", path="/memories/a/b/c.md", file_text="12345")
    do("create", path="/memories/.secret", file_text="x")
    do("create", path="/memories/node_modules/x.js", file_text="x")
    assert do("view", path="/memories") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
        "1.5K\t/memories\n5B\t/memories/a/\n5B\t/memories/a/b/\n1.5K\t/memories/big.md"
    )


@pytest.mark.parametrize(
    "path",
    ["/memories/../x", "/memories/a/../../x", "/memories/..", "/memories/./x", "/memories/%2e%2e/x", "/memories/..\\x",
     "/memories/..%2Fx", "/memoriesx", "memories/x", "", "/memories/a\0b"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["view", "create", "str_replace", "insert", "delete", "rename"])
def test_a_path_outside_of_the_memories_is_refused(client: Mnemolog, project: str, name: str, path: str):
    do = doing(MemoryTool(client, MemoryFiles(project)))
    others = {"file_text": "x", "old_str": "a", "new_str": "b", "insert_line": 0, "insert_text": "x"}
    refusals = [do(name, path=path, old_path=path, new_path="/memories/x", **others)]
    if name == "rename":
        refusals.append(do(name, old_path="/memories/x", new_path=path))
    assert all("would escape /memories" in one or "must start with /memories" in one for one in refusals), refusals
    assert list(client.memories.list(project)) == []


@pytest.mark.parametrize(
    "name", ["a b.md", " a ", "a,b;c", "naïve.md", "nai\u0308ve.md", "茶/🍵.md", "'\"`#?&=$()", "-", "x" * 480, "NUL"]
)
def test_a_file_may_have_any_name(client: Mnemolog, project: str, name: str):
    do = doing(MemoryTool(client, MemoryFiles(project)))
    path = f"/memories/{name}"
    assert "created" in do("create", path=path, file_text="tea")
    assert do("view", path=path) == f"Here's the content of {path} with line numbers:\n     1\ttea"
    assert do("create", path=path, file_text="again") == f"Error: File {path} already exists"
    assert do("delete", path=path) == f"Successfully deleted {path}"


def test_every_change_is_a_version(do: Do, client: Mnemolog, project: str):
    do("create", path=NOTES, file_text="tea at four\n")
    do("str_replace", path=NOTES, old_str="four", new_str="five")
    do("insert", path=NOTES, insert_line=1, insert_text="milk first")
    do("rename", old_path=NOTES, new_path="/memories/tea.md")
    (memory,) = client.memories.list(project, latest=True)
    versions = client.memories.history(memory.id)
    assert [(one.version, one.title, one.content) for one in versions] == [
        (1, NOTES, "tea at four\n"),
        (2, NOTES, "tea at five\n"),
        (3, NOTES, "tea at five\nmilk first\n"),
        (4, "/memories/tea.md", "tea at five\nmilk first\n"),
    ]


def test_a_directory_is_renamed_as_a_whole_or_not_at_all(do: Do, client: Mnemolog, project: str):
    for text in ("older", "newer"):
        path = "/memories/a/two.md"
        client.memories.create(text, project=project, title=path, keep_duplicates=True, tags=[f"file:{path}"])
    do("create", path=f"/memories/a/{'x' * 200}", file_text="x")
    do("create", path="/memories/a/one.md", file_text="x")
    assert "at most 500" in do("rename", old_path="/memories/a", new_path=f"/memories/{'b' * 400}")
    assert {one.version for one in client.memories.list(project, latest=True)} == {1}
    assert do("rename", old_path="/memories/a", new_path="/memories/b").startswith("Successfully")
    assert "does not exist" in do("view", path="/memories/a")
    assert "newer" in do("view", path="/memories/b/two.md")


def test_deleting_forgets_every_version_and_hands_over_a_receipt(do: Do, client: Mnemolog, project: str):
    DELETED.clear()
    do("create", path="/memories/a/x.md", file_text="the vault is behind the painting")
    do("str_replace", path="/memories/a/x.md", old_str="painting", new_str="mirror")
    do("create", path="/memories/a/y.md", file_text="y")
    stored = list(client.memories.list(project))
    assert do("delete", path="/memories/a") == "Successfully deleted /memories/a"
    assert {path for path, _ in DELETED} == {"/memories/a/x.md", "/memories/a/y.md"}
    assert all(receipt.position and receipt.event_id for _, receipt in DELETED)
    assert list(client.memories.list(project)) == []
    for memory in stored:
        with pytest.raises(NotFound):
            client.memories.get(memory.id)
    assert not [event for event in client.events(project=project) if "vault" in str(event.data)]


def test_agents_share_files_and_one_deletes_what_another_changed(client: Mnemolog, project: str):
    ada = doing(MemoryTool(client, MemoryFiles(project)))
    ada("create", path=NOTES, file_text="tea\n")
    with Mnemolog(agent="bob", position=client.position) as other:
        bob = doing(MemoryTool(other, MemoryFiles(project)))
        assert "tea" in bob("view", path=NOTES)
        bob("str_replace", path=NOTES, old_str="tea", new_str="coffee")
        client.advance(other.position)
    assert "coffee" in ada("view", path=NOTES)
    ada("delete", path=NOTES)
    assert "does not exist" in ada("view", path=NOTES)


def test_private_files_are_seen_by_their_agent_alone(client: Mnemolog, project: str):
    files = MemoryFiles(project, fields={"visibility": "private"})
    assert "created" in doing(MemoryTool(client, files))("create", path=NOTES, file_text="ada's")
    with Mnemolog(agent="bob", position=client.position) as other:
        bob = doing(MemoryTool(other, files))
        assert "does not exist" in bob("view", path=NOTES)
        assert "created" in bob("create", path=NOTES, file_text="bob's")
        assert "bob's" in bob("view", path=NOTES)


def test_a_file_that_the_server_refuses_is_an_error_for_the_model(do: Do, client: Mnemolog, project: str):
    assert do("create", path=NOTES, file_text="x" * 1_100_000).startswith("Error: ")
    assert list(client.memories.list(project)) == []
