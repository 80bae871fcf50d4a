"""What tests of the viewer share: a server with something to show, a browser, and what holds whatever the page does."""

import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from chromium import CHROMIUM, Page, browser_page

from api.http.openapi import document
from api.native.catalog import ABOUT, MODULES
from tests.acceptance.running import Server

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
TABS = (
    "diary", "search", "memories", "sessions", "dashboard", "inbox", "lessons", "slots", "actions", "timeline",
    "replay", "graph", "pipeline",
)  # fmt: skip


class Shown(NamedTuple):
    """A server that has something to show, and the id of its memory."""

    server: Server
    memory: str

    def url(self, address: str) -> str:
        """The page at an address behind the #."""
        return f"{self.server.url}/viewer#{address}"

    def post(self, path: str, **body: object) -> httpx.Response:
        """Write something, as who has the secret, and answer when it is taken."""
        return self._ask("POST", path, json=body)

    def patch(self, path: str, **body: object) -> httpx.Response:
        """Change something, as who has the secret, and answer when it is taken."""
        return self._ask("PATCH", path, json=body)

    def get(self, path: str, **params: str) -> httpx.Response:
        """Read something."""
        return self._ask("GET", path, params=params)

    def _ask(self, method: str, path: str, **what: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.server.secret}"} if self.server.secret else {}
        url = f"{self.server.url}{path}"
        return httpx.request(method, url, headers=headers, timeout=60, trust_env=False, **what).raise_for_status()


@pytest.fixture
async def page(tmp_path: Path) -> AsyncGenerator[Page]:
    """A tab of a browser. Whatever a test does with it, it has asked for nothing but documented routes, and neither
    raised, logged nor refused anything."""
    async with browser_page(tmp_path / "profile") as opened:
        yield opened
    assert opened.complaints == []
    assert undocumented(opened) == set()


async def shown_tab(page: Page, shown: Shown, address: str) -> None:
    """Show an address, and wait until its tab is there."""
    await page.go(shown.url(address))
    await page.until("document.querySelector('main h1') && !document.querySelector('main[aria-busy]')")


def undocumented(page: Page) -> set[str]:
    """What the page asked for that the OpenAPI document does not have."""
    asked = {f"{method} {urlsplit(address).path}" for method, address in page.requests if address.startswith("http")}
    return {one for one in asked if not DOCUMENTED.fullmatch(one)}


def _documented() -> re.Pattern[str]:
    paths = document(ABOUT, [one for module in MODULES for one in module.ENDPOINTS])["paths"]
    routes = [f"{method.upper()} {path}" for path, methods in paths.items() for method in methods]
    parts = [re.split(r"\{\w+\}", route) for route in routes]
    return re.compile("|".join("[^/]+".join(map(re.escape, some)) for some in parts))


DOCUMENTED = _documented()
