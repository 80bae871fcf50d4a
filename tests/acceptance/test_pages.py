"""What the documentation shows is so: its blocks run in their order, against a server, and print what it says.

Every page is a tenant of its own of one server, and a shell of its own. What a block is, is said in
`tests/support/pages.py`. Left open: prose.
"""

import asyncio
import json
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from pages import PAGES, ROOT, WITHOUT_SERVER, Block, Shell, answer_schema, blocks, matches
from ports import free_port
from waiting import wait_until

from ingest.platform.settings import from_environment
from tests.acceptance.running import Server, Tenant, new_tenant

NAMES = {str(page.relative_to(ROOT)): page for page in PAGES}
RUN = [name for name, page in NAMES.items() if {block.kind for block in blocks(page.read_text())} - WITHOUT_SERVER]


@pytest.mark.parametrize("name", NAMES)
def test_every_block_of_a_page_is_run_or_says_why_it_is_not(name: str):
    text = NAMES[name].read_text()
    found = list(blocks(text, name))
    assert [str(block) for block in found if not block.kind] == []
    fences = sum(line.lstrip().startswith(("```", "~~~")) for line in text.splitlines())
    assert fences == 2 * len(found), "a fence that is not read as one"


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ("```sh\nls\n```", "sh"),
        ("```\nls\n```", ""),
        ("```ruby\nputs 1\n```", ""),
        ("<!-- not run: needs a second machine -->\n```ruby\nputs 1\n```", "not run"),
        ("<!-- not run: -->\n```sh\nls\n```", ""),
        ("<!-- not run -->\n```ruby\nputs 1\n```", ""),
        ("<!-- not run: needs a second machine -->\n\n```ruby\nputs 1\n```", ""),
        ("- a point\n\n  ```python\n  pass\n  ```", "python"),
    ],
)
def test_a_block_is_run_for_its_language_and_left_out_for_a_reason(block: str, kind: str):
    (found,) = blocks(f"Text.\n\n{block}\n")
    assert found.kind == kind


@pytest.mark.parametrize(
    ("shown", "as_printed"),
    [("one\ntwo", True), ("one t…", True), ("… two", True), ("o...o", True), ("one", False), ("on…e", False)],
)
def test_output_is_what_the_page_shows_but_for_what_it_leaves_open(shown: str, as_printed: bool):
    assert matches(shown, "one\ntwo\n") == as_printed


@pytest.mark.parametrize("name", RUN)
def test_every_block_of_a_page_does_what_the_page_says(name: str, server: Server, folder: Path, cache_dir: Path):
    tenant = asyncio.run(new_tenant(server, f"page-{uuid4().hex[:8]}"))
    described = httpx.get(f"{server.url}/openapi.json", headers={"Authorization": f"Bearer {tenant.key}"}).json()
    with ExitStack() as running:
        shell, secret, printed = _shell(folder, tenant), server.secret, ""
        for block in blocks(NAMES[name].read_text(), name):
            match block.kind:
                case "sh" | "python":
                    printed = shell.run(block)
                    _settle(shell.url, secret)
                case "output":
                    assert matches(block.text, printed), f"{block} shows what was not printed:\n{printed}"
                case "answer":
                    Draft202012Validator(answer_schema(described, block)).validate(json.loads(block.text))
                case "settings":
                    from_environment(dict(line.split("=", 1) for line in block.text.split()))
                case "mcp servers":
                    asyncio.run(_connect(json.loads(shell.text(block))["mcpServers"], shell))
                case "in the background":
                    shell, secret = running.enter_context(_started(block, folder, cache_dir)), ""
                case _:
                    assert block.kind in WITHOUT_SERVER


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what the source tree has: what a page names is there, and what it writes stays apart."""
    for entry in ROOT.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def _shell(folder: Path, tenant: Tenant) -> Shell:
    """A shell whose commands, clients and curl are the tenant's."""
    (folder / ".curlrc").write_text(f'header = "Authorization: Bearer {tenant.key}"\n')
    standing_for = {"/path/to/mnemolog": str(ROOT), "<secret>": tenant.key, "0123456789AB": tenant.key.split("_")[1]}
    return Shell(folder, tenant.server.url, {**tenant.variables, "REDIS_URL": tenant.server.redis_url}, standing_for)


@contextmanager
def _started(block: Block, folder: Path, cache_dir: Path) -> Generator[Shell]:
    """A shell for the server that a block starts, which asks for no key and has a port and data of its own."""
    (folder / ".curlrc").unlink()
    port = str(free_port())
    with tempfile.TemporaryDirectory(prefix="mnemo-") as data:  # short: a unix socket's path has 100 characters
        settings = {"MNEMOLOG_PORT": port, "MNEMOLOG_DATA_DIR": data, "MNEMOLOG_CACHE_DIR": str(cache_dir)}
        shell = Shell(folder, f"http://127.0.0.1:{port}", settings, {})
        process = shell.start(block)
        try:
            asyncio.run(wait_until(lambda: _is_up(shell, process), timeout_s=60))
            yield shell
        finally:
            process.terminate()
            assert process.wait(30) == 0


def _is_up(shell: Shell, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the server ended"
    try:
        return _projected(shell.url, "")
    except httpx.TransportError:
        return False


def _settle(url: str, secret: str) -> None:
    """Return when whatever was written can be read by anybody."""
    asyncio.run(wait_until(lambda: _projected(url, secret)))


def _projected(url: str, secret: str) -> bool:
    """Whether the server is ready, and whatever was written can be read by anybody."""
    ready = httpx.get(f"{url}/readyz", headers={"Authorization": f"Bearer {secret}"} if secret else {})
    return ready.status_code == 200 and ready.json()["lag"] == {}


async def _connect(servers: dict[str, dict[str, Any]], shell: Shell) -> None:
    """Do what a host does with such an entry: connect, and list the tools."""
    for entry in servers.values():
        if "command" in entry:
            environment = {**shell.environment, **entry.get("env", {})}
            command = StdioServerParameters(command=entry["command"], args=entry["args"], env=environment)
            async with Client(command) as client:
                assert (await client.list_tools()).tools
        else:
            async with (
                httpx2.AsyncClient(headers=entry["headers"]) as http,
                Client(streamable_http_client(entry["url"], http_client=http)) as client,
            ):
                assert (await client.list_tools()).tools
