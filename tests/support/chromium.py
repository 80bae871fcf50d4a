"""A real browser, driven over the DevTools protocol: a page that is opened, read and pressed, and its complaints."""

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import websockets

from tests.support.waiting import wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--remote-debugging-port=0",
)  # fmt: skip
ANSWERS_WITHIN_S = 60


class PageFault(Exception):
    """What an expression raised in the page."""


class Page:
    """One tab of a browser. `complaints` are errors in its console and what it refused, `refused` the requests that a
    server refused, `requests` method and address of all that it asked for."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session = ""
        self.complaints: list[str] = []
        self.refused: list[str] = []
        self.requests: list[tuple[str, str]] = []

    @property
    def hosts(self) -> set[str]:
        """Whom it asked, and "" for what it had itself."""
        return {urlsplit(address).netloc for _, address in self.requests}

    async def open(self) -> None:
        """Make the tab."""
        made = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")

    async def read(self) -> None:
        """Take what the browser sends until it ends."""
        async for message in self._socket:
            heard: dict[str, Any] = json.loads(message)
            if "id" in heard:
                self._waiting.pop(heard["id"]).set_result(heard)
            else:
                self._note(heard["method"], heard.get("params", {}))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser answers to a command; raises PageFault when it refuses it."""
        name = next(self._ids)
        answer = self._waiting[name] = asyncio.get_running_loop().create_future()
        session = {"sessionId": self._session} if self._session else {}
        await self._socket.send(json.dumps({"id": name, "method": method, "params": params, **session}))
        heard = await asyncio.wait_for(answer, ANSWERS_WITHIN_S)
        if "error" in heard:
            raise PageFault(f"{method}: {heard['error']['message']}")
        return heard["result"]

    async def value(self, expression: str) -> Any:
        """What an expression of JavaScript is in the page, waiting for a promise; raises PageFault."""
        answer = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise PageFault(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression holds in the page."""

        async def holds() -> bool:
            with suppress(PageFault):  # the page may be on its way
                return await self.value(f"Promise.resolve({expression}).then(Boolean)")
            return False

        holds.__name__ = expression
        await wait_until(holds)

    async def until_shown(self, *texts: str) -> None:
        """Wait until all texts can be read on the page."""
        for text in texts:
            try:
                await self.until(f"document.body.innerText.includes({json.dumps(text)})")
            except AssertionError as error:
                raise AssertionError(f"{error}; shown: {await self.value('document.body.innerText')}") from None

    async def go(self, address: str) -> None:
        """Show an address."""
        await self.call("Page.navigate", url=address)

    async def turn_to(self, address: str) -> None:
        """Show another address behind the # on the page that is there; returns when the page knows of it."""
        await self.value(
            "new Promise((resolve) => { addEventListener('hashchange', resolve, { once: true }); "
            f"location.hash = {json.dumps('#' + address)}; }}).then(() => true)"
        )

    async def press(self, selector: str) -> None:
        """Press the first element that fits a selector, once it is there."""
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.value(f"document.querySelector({json.dumps(selector)}).click()")

    async def press_button(self, words: str) -> None:
        """Press the first visible button, summary or link that says the words, once it is there."""
        document = (
            "[...document.querySelectorAll('button, summary, a')].find((one) => one.checkVisibility() && "
            f"one.textContent.trim() === {json.dumps(words)})"
        )
        await self.until(document)
        await self.value(f"{document}.click()")

    async def fill(self, selector: str, text: str) -> None:
        """Put a text into a field, as somebody who types it and leaves."""
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.value(
            f"((field) => {{ field.value = {json.dumps(text)}; for (const name of ['input', 'change']) "
            f"field.dispatchEvent(new Event(name, {{ bubbles: true }})); }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )

    async def key(self, name: str, code: int = 0) -> None:
        """Press a key of the keyboard."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **text
            )

    async def screenshot(self) -> bytes:
        """What is seen, as a PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])

    def _note(self, method: str, params: Mapping[str, Any]) -> None:
        match method:
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                entry = params["entry"]
                answer = self.refused if "server responded with a status of" in entry["text"] else self.complaints
                answer.append(f"{entry['text']} {entry.get('url', '')}")
            case "Network.requestWillBeSent":
                self.requests.append((params["request"]["method"], params["request"]["url"]))
            case _:
                pass


def _address(port: Path) -> str:
    """Where a browser listens, of the file that it writes; empty until it has."""
    words = port.read_text().split() if port.exists() else []
    return f"ws://127.0.0.1:{words[0]}{words[1]}" if len(words) == 2 else ""


@asynccontextmanager
async def browser_page(profile: Path, *, width: int = 1280, height: int = 900) -> AsyncGenerator[Page]:
    """A tab of a browser of its own, which ends with it."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        address = partial(_address, profile / "DevToolsActivePort")
        await wait_until(lambda: address() != "")
        async with websockets.connect(address(), proxy=None, max_size=64 << 20) as socket:
            page = Page(socket)
            reading = asyncio.create_task(page.read())
            await page.open()
            yield page
            with suppress(PageFault, websockets.ConnectionClosed):
                await page.call("Browser.close")
            reading.cancel()
            with suppress(asyncio.CancelledError, websockets.ConnectionClosed):
                await reading
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
        await process.wait()
