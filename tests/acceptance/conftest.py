"""Real processes: servers that tests share, and private ones for tests that start, kill or configure a server.

Tests that share a server keep to a project, an agent or a tenant of their own. Everything is stopped when the session
or the test ends, whatever became of it.

Where tests run side by side, most of those that share a server run in one process, which starts it once.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from oauth_issuer import RESOURCE, Issuer
from together import Together
from waiting import wait_until
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.acceptance.running import Doors, Server, Tenant, every_dialect, new_tenant, running
from tests.acceptance.visibility import everybody, matrix_server, planted_memories

__all__ = ["everybody", "matrix_server", "planted_memories"]

STARTING = ("test_up", "test_backup")
"""Files whose tests each start what they are about: they may run in any process."""
TOGETHER = {
    "test_a_log_that_is_printed_is_in_the_order_of_time": "test_names",
    "test_limits_and_scopes": "test_overload",
    "test_secrets": "test_authorisation_walk",
}
"""Files, and tests, that run in the process of another file, whose servers they use."""
FIRST = (
    "test_up", "test_authorisation_walk", "test_mcp_gateway", "test_backup",
    "test_pages", "test_viewer_of_a_fleet", "test_overload", "test_visibility_matrix",
    "test_agent_hooks", "test_forgetting", "test_fuzz",
)  # fmt: skip
"""The files that take longest begin first, so that no process is left with much when the others are done."""


class ByFile(LoadScopeScheduling):
    """Gives the tests of a file to one process, and those that share its servers: each is started once or twice."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        name = test.partition("[")[0]
        group = TOGETHER.get(name) or TOGETHER.get(Path(file).stem, Path(file).stem)
        return nodeid if group in STARTING else group


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Where these tests are chosen by `--dist loadfile`."""
    return ByFile(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first."""
    order = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder whose path leaves room for a unix socket's name."""
    folder = Path(tempfile.mkdtemp(prefix="mnemo-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server(cache_dir: Path, together: Together) -> Server:
    """The server that tests share; each keeps to a project of its own."""
    return together(running(cache_dir))


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """Whose access tokens the guarded server takes."""
    with Issuer() as running_issuer:
        running_issuer.claims = {"tenant": "default", "projects": "*"}
        yield running_issuer


@pytest.fixture(scope="session")
def guarded(cache_dir: Path, together: Together, issuer: Issuer) -> Doors:
    """A server with a secret and every dialect's port, which takes access tokens, too."""
    claims = {"oauth_tenant_claim": "tenant", "oauth_projects_claim": "projects"}
    taking = {"oauth_issuer": issuer.url, "oauth_resource": RESOURCE, **claims}
    return together(every_dialect(cache_dir, partitions=4, embedder="none", **taking))


@pytest.fixture(scope="session")
def small(cache_dir: Path, together: Together) -> Server:
    """A server with small limits: three observations a session, writes are refused above forty unprojected events."""
    return together(running(cache_dir, embedder="none", partitions=2, observations_per_session=3, lag_ceiling=40))


@pytest.fixture(scope="session")
def breakable(cache_dir: Path, together: Together) -> Server:
    """A server that tests may freeze and kill parts of; ask for `broken`, which is this one in good health."""
    return together(running(cache_dir, embedder="none", partitions=2, read_wait=1))


@pytest.fixture
async def broken(breakable: Server) -> Server:
    """A server to break: all of its processes run, and everything is projected."""
    async with breakable.client() as client:

        async def healthy() -> bool:
            breakable.supervisor.watch()
            ready = await client.get("/readyz")
            return ready.status_code == 200 and ready.json()["lag"] == {}

        await wait_until(healthy)
    return breakable


@pytest.fixture(scope="session")
def two_servers(cache_dir: Path, together: Together) -> tuple[Server, Server]:
    """What one exports the other imports; no session on them ever ends by itself."""
    chosen: dict[str, Any] = {"embedder": "none", "partitions": 4, "session_idle_minutes": 525_600}
    return together(running(cache_dir, **chosen)), together(running(cache_dir, **chosen))


@pytest.fixture
async def tenants(two_servers: tuple[Server, Server], project: str) -> tuple[Tenant, Tenant]:
    """The same new tenant on two servers."""
    first, second = await asyncio.gather(*(new_tenant(server, project) for server in two_servers))
    return first, second


@pytest.fixture(scope="session")
def rebuildable(cache_dir: Path, together: Together) -> Server:
    """A server whose documents are rebuilt, and which has no embedder and may be given some."""
    embedders = ("default", "onnx:/nowhere")
    return together(running(cache_dir, partitions=4, embedder="none", embedders=embedders))


@pytest.fixture
def private_server(cache_dir: Path) -> Iterator[Callable[..., Server]]:
    """Starts a server that the test may break: `private_server(partitions=2)`. It has no embedder unless asked for."""
    with ExitStack() as stack:

        def start(**changes: Any) -> Server:
            return stack.enter_context(running(cache_dir, **{"embedder": "none", "partitions": 4, **changes}))

        yield start


@pytest.fixture
async def client(server: Server) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the shared server, with its secret, reading as nobody in particular."""
    async with server.client() as http:
        yield http
