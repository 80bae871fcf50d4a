"""The stdio bridge: passes messages between a client that started it and the MCP endpoint of a running mnemolog.

One runs beside every agent's session, so this module only imports the standard library. Each request is an HTTP request
of its own. While the server does not answer, `mcp_gateway.offline` answers the handshake and the lists, because clients
ask for them once, and calls say what to do. Standard output carries only the protocol; logs go to stderr.
"""

import base64
import json
import logging
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore, Lock
from typing import Any, BinaryIO, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from ingest.errors import MnemologError
from ingest.platform.addresses import HTTP_PROXIES, proxies_of

logger = logging.getLogger(__name__)

Message = dict[str, Any]
Offline = Callable[[Message], Message | None]
"""The result of a request while the server does not answer; none if only the server knows it. Raises MnemologError."""

ANSWER_TIMEOUT_S = 60.0
"""The first recall may wait for the model to load, which is the slowest case."""
LIST_TIMEOUT_S = 5.0
"""Of the handshake and the lists, which need no model, and for which a client waits before it starts."""
AT_ONCE = 8
WAITING = 64
"""Requests read from standard input and not yet answered; at more, reading waits."""
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
"""In the `_meta` of each request, from 2026-07-28 on; headers then repeat the method and the name (SEP-2243)."""
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
PARSE_ERROR, INTERNAL_ERROR = -32700, -32603
_PLAIN = re.compile(r"[!-~]([ -~]*[!-~])?")


class Unreachable(Exception):
    """The server does not answer, or refuses; the message is for the agent."""


class Bridge:
    """Sends requests to the server at `url`. `profile` is empty for the server's own setting."""

    def __init__(self, url: str, key: str | None, profile: str, output: BinaryIO, offline: Offline) -> None:
        self._url, self._output, self._offline = url.rstrip("/"), output, offline
        self._endpoint = f"{self._url}/mcp" + (f"?profile={quote(profile)}" if profile else "")
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        proxies = proxies_of(url)
        if proxy := proxies.pop("all", None):
            proxies = dict.fromkeys(HTTP_PROXIES, proxy) | proxies
        self._http = build_opener(_NoRedirects(), ProxyHandler(proxies))
        self._version = ""  # of the protocol, once a handshake has agreed on it
        self._open: set[str] = set()
        self._writing = Lock()

    def run(self, lines: Iterable[bytes]) -> None:
        """Answer requests, up to `AT_ONCE` side by side, until the lines end and the last one is answered."""
        room = BoundedSemaphore(WAITING)

        def answer(message: Message) -> None:
            try:
                if repr(message["id"]) in self._open:  # else it was canceled while it waited
                    self._write(self._answer(message), message["id"])
            except Exception as error:  # a client waits for every answer
                logger.exception("a request could not be answered")
                text = f"the bridge failed ({type(error).__name__}); its log on stderr says more"
                self._write(_error(message["id"], INTERNAL_ERROR, text), message["id"])
            finally:
                room.release()

        threads = ThreadPoolExecutor(AT_ONCE)  # not as a context, which would make Ctrl-C wait for the server
        for line in filter(bytes.strip, lines):
            message = _parsed(line)
            if message is None or not isinstance(message.get("method", ""), str):
                self._write(_error(None, PARSE_ERROR, "a message is one line with a JSON object"))
            elif message.get("method") == "notifications/cancelled":
                self._open.discard(repr(member(message, "params").get("requestId")))
            elif "method" in message and "id" in message:  # the server has no use for other notifications
                self._open.add(repr(message["id"]))
                room.acquire()
                threads.submit(answer, message)
        threads.shutdown()

    def _answer(self, message: Message) -> Message:
        """The server's answer to a request, or what this release says instead."""
        try:
            answer = self._sent(message)
        except Unreachable as error:
            logger.warning("%s: %s", message["method"], error)
            try:
                result = self._offline(message)
            except MnemologError as invalid:
                return _error(message["id"], INTERNAL_ERROR, str(invalid))
            if result is None and message["method"] == "tools/call":
                result = {"content": [{"type": "text", "text": str(error)}], "isError": True}
            if result is None:
                return _error(message["id"], INTERNAL_ERROR, str(error))
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if message["method"] == "initialize":
            self._version = str(member(answer, "result").get("protocolVersion", ""))
        return answer

    def _sent(self, message: Message) -> Message:
        """The server's answer; raises Unreachable."""
        timeout = ANSWER_TIMEOUT_S if message["method"] in NAMED_BY else LIST_TIMEOUT_S
        request = Request(self._endpoint, json.dumps(message).encode(), {**self._headers, **self._routing(message)})
        try:
            try:
                with self._http.open(request, timeout=timeout) as response:
                    status, body = response.status, response.read()
            except HTTPError as error:
                with error:
                    status, body = error.code, error.read()
        except Exception as error:  # whatever is wrong with an answer, the agent gets an explanation
            raise Unreachable(no_answer(self._url, error)) from error
        answer = _parsed(body)
        if answer is None or "jsonrpc" not in answer or status in (401, 403):
            raise Unreachable(refusal(self._url, status, answer or {}, has_key="Authorization" in self._headers))
        return {**answer, "id": message["id"]}

    def _routing(self, message: Message) -> dict[str, str]:
        """The headers by which the server knows a request's version, method and name."""
        params = member(message, "params")
        version = member(params, "_meta").get(VERSION_KEY)
        if not isinstance(version, str):
            return {"MCP-Protocol-Version": self._version} if self._version else {}
        headers = {"MCP-Protocol-Version": version, "Mcp-Method": str(message["method"])}
        if isinstance(name := params.get(NAMED_BY.get(message["method"], "")), str):
            headers["Mcp-Name"] = name
        return {header: _header_value(value) for header, value in headers.items()}

    def _write(self, answer: Message, request: Any = None) -> None:
        """Write an answer as a line, unless the client canceled its request."""
        line = json.dumps(answer).encode() + b"\n"
        with self._writing:
            if request is not None and repr(request) not in self._open:
                return
            self._open.discard(repr(request))
            self._output.write(line)
            self._output.flush()


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would send the key elsewhere."""

    def redirect_request(self, *request: Any, **options: Any) -> None:
        return None


def no_answer(url: str, error: Exception) -> str:
    """What an agent reads if a request failed; without the text of the error, which can quote the key."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(error, URLError) and isinstance(reason, (ConnectionRefusedError, socket.gaierror, TimeoutError)):
        return (
            f"mnemolog is not running at {url}. Nothing was stored. Start it with `mnemolog up` "
            "(or point MNEMOLOG_URL at the server), then make the same call again."
        )
    return (
        f"mnemolog at {url} did not finish its answer ({type(reason).__name__}). Reads can be repeated; a write may or "
        "may not have been stored: recall it before you repeat it."
    )


def refusal(url: str, status: int, answer: Message, *, has_key: bool) -> str:
    """What an agent reads if a server answered, but not as MCP. `has_key`: whether a key was sent."""
    if status == 401:
        return (
            f"mnemolog at {url} requires a key, and {'rejected the one that was sent' if has_key else 'none was sent'}."
            " Nothing was stored. Store an API key here with `mnemolog admin keys store`, or set MNEMOLOG_KEY"
            " for this bridge, then start it again."
        )
    if status == 403:
        return (
            f"mnemolog at {url} refused the request (HTTP 403), and nothing was stored: the access token "
            "lacks the scope for it, or the server does not know its name in MNEMOLOG_URL."
        )
    reason = member(answer, "error").get("message") or "is MNEMOLOG_URL a mnemolog server?"
    return f"{url}/mcp answered HTTP {status}: {reason}"


def _parsed(line: bytes) -> Message | None:
    """A message; none if it is not a JSON object. A byte order mark before it is ignored."""
    try:
        value: Any = json.loads(line.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return None
    return cast("Message", value) if isinstance(value, dict) else None


def member(message: Mapping[str, Any], name: str) -> Message:
    """An object in an object; empty if there is no such object."""
    value = message.get(name)
    return cast("Message", value) if isinstance(value, dict) else {}


def _error(request: Any, code: int, text: str) -> Message:
    return {"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text}}


def _header_value(value: str) -> str:
    """As SEP-2243 writes a value that a header cannot carry."""
    if _PLAIN.fullmatch(value) and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="
