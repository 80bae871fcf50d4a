"""When the MCP servers start, and what loads the MCP SDK."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import pytest
from starlette.applications import Starlette
from waiting import wait_until

import mcp_gateway.server
from api.dialects.profiles import PROFILES
from mcp_gateway.gateway import Gateway
from mcp_gateway.server import McpServers
from mcp_gateway.tools.tool import Call

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


class Counted(McpServers):
    """Counts how often servers are made; the first `failures` times fail."""

    made = 0
    failures = 0

    def __init__(self, *arguments: object) -> None:
        type(self).made += 1
        if self.made <= self.failures:
            raise RuntimeError("no servers")
        super().__init__(*arguments)  # pyright: ignore[reportArgumentType]


@pytest.fixture
async def counted(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    class Fresh(Counted):
        pass

    monkeypatch.setattr(mcp_gateway.server, "McpServers", Fresh)
    return Fresh


@pytest.fixture
def gateway(call: Call) -> Gateway:
    gateway = Gateway(PROFILES)
    gateway.connect(lambda scope, agent: call)
    return gateway


@pytest.fixture
async def http(gateway: Gateway, counted: type[Counted]) -> AsyncGenerator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(Starlette(routes=[gateway.route]), raise_app_exceptions=False)
    async with gateway.running(), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


async def test_requests_at_once_start_the_servers_once(http: httpx2.AsyncClient, counted: type[Counted]):
    assert counted.made == 0
    answers = await asyncio.gather(*(http.post("/mcp", json=LIST) for _ in range(3)))
    assert [answer.status_code for answer in answers] == [200] * 3
    assert counted.made == 1


async def test_a_start_that_fails_is_tried_again_by_the_next_request(http: httpx2.AsyncClient, counted: type[Counted]):
    counted.failures = 1
    assert (await http.post("/mcp", json=LIST)).status_code == 500
    assert (await http.post("/mcp", json=LIST)).status_code == 200
    assert counted.made == 2


async def test_why_the_servers_ended_is_logged_at_once(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    @asynccontextmanager
    async def ending(servers: McpServers) -> AsyncGenerator[None]:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(int, "a task of the SDK"))
            yield

    async def run_until_logged() -> None:
        async with gateway.running():
            await gateway._started()  # pyright: ignore[reportPrivateUsage]
            await wait_until(lambda: "a task of the SDK" in caplog.text)

    monkeypatch.setattr(McpServers, "running", ending)
    with pytest.raises(ExceptionGroup):
        await run_until_logged()


async def test_an_application_stops_without_a_request(gateway: Gateway):
    async with gateway.running():
        pass


def test_the_api_starts_without_the_mcp_sdk():
    code = "import sys, api.app; assert 'mcp' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
