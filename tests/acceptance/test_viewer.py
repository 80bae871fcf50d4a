"""The viewer in a real browser: it shows what was written, and runs nothing of it. Needs chromium."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.running import SECRET, Server, running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PLANTED = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
LOOKS = 5
HEALTHY = re.compile(r'id="health"[^>]*>healthy')
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without a secret that has something to show."""
    with running(tmp_path_factory.mktemp("cache"), embedder="none", partitions=2, secret=None) as server:
        with httpx.Client(base_url=f"{server.url}/agentmemory", timeout=60, trust_env=False) as client:
            where = {"sessionId": "checkout-1", "project": "shop", "cwd": "/shop"}
            client.post("/session/start", json={**where, "title": "Checkout times out"}).raise_for_status()
            data = {"tool_name": "Bash", "tool_input": "npm test", "tool_output": f"PASS 12 tests {PLANTED}"}
            observed = {**where, "hookType": "post_tool_use", "timestamp": "2026-01-31T12:00:00.000Z", "data": data}
            client.post("/observe", json=observed).raise_for_status()
            kept = {"content": f"The pool retries five times. {PLANTED}", "project": "shop"}
            client.post("/remember", json=kept).raise_for_status()
            client.post("/lessons", json={"content": f"Restart Redis in tests. {PLANTED}"}).raise_for_status()
            client.post("/actions", json={"title": f"Add a chaos test {PLANTED}"}).raise_for_status()
        yield server


@pytest.fixture
def page(tmp_path: Path) -> Callable[[str], str]:
    """What the page is like after some seconds: its document as text."""

    def shown(address: str) -> str:
        assert CHROMIUM is not None
        command = [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=3000",
            f"--user-data-dir={tmp_path / 'profile'}", address,
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    return shown


@pytest.mark.parametrize(
    ("view", "told"),
    [
        ("live", ["Bash", "PASS 12 tests", "checkout-1"]),
        ("sessions", ["Checkout times out", "1 observation", "shop"]),
        ("sessions/checkout-1", ["Bash", "PASS 12 tests", "Input and output"]),
        ("search/pool", ["The pool retries five times."]),
        ("memories", ["The pool retries five times.", "fact"]),
        ("lessons", ["Restart Redis in tests."]),
        ("actions", ["Add a chaos test", "1 can be worked on now"]),
        ("graph", ["memory", "session", "in project"]),
    ],
)
def test_the_page_shows_what_was_written_and_runs_nothing_of_it(
    opened: Server, page: Callable[[str], str], view: str, told: list[str]
):
    document = body = ""
    for _ in range(LOOKS):  # on a busy machine a page may not have everything yet when it is looked at
        document = page(f"{opened.url}/viewer#{view}")
        body = document[document.index("<main") : document.index("</main>")]
        if all(words in body for words in told) and HEALTHY.search(document):
            break
    for words in told:
        assert words in body
    assert "<title>mnemolog</title>" in document
    assert "<script" not in body
    assert "<img" not in body
    assert HEALTHY.search(document)


def test_a_server_with_a_secret_asks_for_it_and_shows_nothing_before(server: Server, page: Callable[[str], str]):
    headers = {"Authorization": f"Bearer {SECRET}"}
    kept = {"content": "The pool retries five times."}
    httpx.post(f"{server.url}/agentmemory/remember", json=kept, headers=headers, timeout=60).raise_for_status()
    document = page(f"{server.url}/viewer#memories")
    assert re.search(r'<dialog id="unlock"[^>]* open', document)
    assert "The pool retries" not in document


def test_a_view_that_fails_says_so(opened: Server, page: Callable[[str], str]):
    document = page(f"{opened.url}/viewer#sessions/nobody-knows-it")
    assert "That did not work" in document
    assert "Try again" in document


def test_the_page_may_only_run_its_own_script(opened: Server):
    answer = httpx.get(f"{opened.url}/viewer", timeout=60)
    policy = answer.headers["content-security-policy"]
    assert answer.headers["content-type"].startswith("text/html")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert f"ws://127.0.0.1:{opened.supervisor.settings.port}" in policy
