"""The stdio bridge against HTTP servers that answer in a certain way."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from threading import Event, Semaphore, Thread
from typing import Any, NamedTuple

import pytest

from api.dialects.profiles import PROFILES
from mcp_gateway import bridge as module
from mcp_gateway.bridge import Bridge, Message
from mcp_gateway.offline import answer as offline_answer
from mcp_gateway.profiles import UnknownProfile

VERSION = "io.modelcontextprotocol/protocolVersion"


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    message: Message


class Quiet(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


Respond = Callable[[Message], tuple[int, bytes]]


def echo(message: Message) -> tuple[int, bytes]:
    """The request's own parameters as its result."""
    return 200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": message.get("params", {})}).encode()


def held(until: Event) -> Respond:
    """Like `echo`, after an event."""
    return lambda message: echo(message) if until.wait(10) else (500, b"")


@contextmanager
def serving(respond: Respond = echo) -> Generator[tuple[str, list[Received]]]:
    """A server's URL, and the requests it received."""
    received: list[Received] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            received.append(Received(self.path, {k.lower(): v for k, v in self.headers.items()}, message))
            status, body = respond(message)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", "http://127.0.0.1:9/")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with Quiet(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", received
        http.shutdown()
        thread.join()


class Output(BytesIO):
    """Counts the lines that were written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = Semaphore(0)

    def flush(self) -> None:
        self.lines.release()


def request(number: Any, method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def nothing(message: Message) -> None:
    return None


def exchanged(
    url: str, *lines: Message | bytes, key: str | None = None, profile: str = "", offline: module.Offline = nothing
) -> list[Message]:
    """What the bridge writes for these lines of standard input, in the order of the requests' ids."""
    output = BytesIO()
    written = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    Bridge(url, key, profile, output, offline).run(written)
    answers = [json.loads(line) for line in output.getvalue().splitlines()]
    return sorted(answers, key=lambda answer: answer["id"] or 0)


def test_the_bridge_loads_no_sdk_no_model_and_no_index():
    """It runs beside every agent: importing it must stay cheap."""
    heavy = {"projections", "numpy", "onnxruntime", "redis", "pydantic", "mcp", "httpx", "httpx2", "asyncio", "rich"}
    code = f"import sys; from api.cli.main import application; application('mcp'); print({heavy!r} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_request_gets_the_answer_of_the_server():
    with serving() as (url, received):
        answers = exchanged(url, request(1, "tools/list", cursor="x"), key="k", profile="native,memex")
    assert answers == [{"jsonrpc": "2.0", "id": 1, "result": {"cursor": "x"}}]
    assert received[0].path == "/mcp?profile=native%2Cmemex"
    assert received[0].headers["authorization"] == "Bearer k"


def test_requests_of_the_older_protocol_name_the_version_that_the_handshake_agreed_on():
    with serving(lambda message: echo({**message, "params": {"protocolVersion": "2025-06-18"}})) as (url, received):
        exchange = [request(1, "initialize"), request(2, "tools/list")]
        run_in_turns(url, exchange)
    assert [seen.headers.get("mcp-protocol-version") for seen in received] == [None, "2025-06-18"]


def run_in_turns(url: str, messages: Sequence[Message]) -> None:
    """Send each message when the one before was answered, as clients do."""
    output = Output()

    def lines() -> Generator[bytes]:
        for message in messages:
            yield json.dumps(message).encode()
            assert output.lines.acquire(timeout=10)

    Bridge(url, None, "", output, nothing).run(lines())


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("recall", "recall"),
        ("é", "=?base64?" + base64.b64encode("é".encode()).decode() + "?="),
        (" x", "=?base64?IHg=?="),
    ],
)
def test_requests_of_the_newer_protocol_repeat_version_method_and_name_in_headers(name: str, header: str):
    with serving() as (url, received):
        exchanged(url, request(1, "tools/call", name=name, _meta={VERSION: "2026-07-28"}))
    headers = received[0].headers
    assert (headers["mcp-protocol-version"], headers["mcp-method"]) == ("2026-07-28", "tools/call")
    assert headers["mcp-name"] == header


def test_notifications_and_blank_lines_are_not_sent():
    with serving() as (url, received):
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert exchanged(url, notification, b"\n", {"jsonrpc": "2.0", "id": 4, "result": {}}) == []
    assert received == []


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b"[" * 100_000, b'{"id": 1, "method": ["a"]}'])
def test_a_line_that_is_no_message_gets_an_error_and_the_next_one_its_answer(line: bytes):
    with serving() as (url, _):
        error, answer = exchanged(url, line, request(2, "ping"))
    assert (error["id"], error["error"]["code"]) == (None, -32700)
    assert answer["id"] == 2


@pytest.mark.parametrize("text", [b'"tea \\ud83c"', b'"\xff\xfe"', '"日本"'.encode()])
def test_text_that_is_no_unicode_still_arrives(text: bytes):
    with serving() as (url, received):
        line = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"content":%s}}}' % text
        assert exchanged(url, line)[0]["id"] == 1
    assert received[0].message["params"]["arguments"]["content"]


def test_a_byte_order_mark_before_a_message_is_ignored():
    with serving() as (url, _):
        assert exchanged(url, b"\xef\xbb\xbf" + json.dumps(request(1, "ping")).encode())[0]["id"] == 1


def test_requests_are_answered_side_by_side():
    second_is_answered = Event()

    def respond(message: Message) -> tuple[int, bytes]:
        if message["id"] == 1:
            assert second_is_answered.wait(10)
        else:
            second_is_answered.set()
        return echo(message)

    with serving(respond) as (url, _):
        assert {answer["id"] for answer in exchanged(url, request(1, "ping"), request(2, "ping"))} == {1, 2}


def test_a_canceled_request_gets_no_answer():
    canceled = Event()

    def lines() -> Generator[bytes]:
        yield json.dumps(request(1, "tools/call", name="recall")).encode()
        yield json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}).encode()
        yield json.dumps(request(2, "ping")).encode()
        canceled.set()

    output = BytesIO()
    with serving(held(canceled)) as (url, _):
        Bridge(url, None, "", output, nothing).run(lines())
    assert [json.loads(line)["id"] for line in output.getvalue().splitlines()] == [2]


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (401, b"{}", "requires a key, and rejected the one that was sent"),
        (403, b"", "lacks the scope"),
        (404, b"<html>", "is MNEMOLOG_URL a mnemolog server?"),
        (200, b"{}", "is MNEMOLOG_URL a mnemolog server?"),
        (302, b"", "HTTP 302"),
        (503, b'{"error": {"message": "too many requests at once"}}', "HTTP 503: too many requests at once"),
    ],
)
def test_a_refusal_is_a_tool_error_that_says_what_to_do(status: int, body: bytes, advice: str):
    with serving(lambda _: (status, body)) as (url, received):
        called, listed = exchanged(url, request(1, "tools/call", name="recall"), request(2, "prompts/get"), key="wrong")
    assert len(received) == 2  # a redirect is not followed: it would carry the key elsewhere
    assert called["result"]["isError"] is True
    assert advice in called["result"]["content"][0]["text"]
    assert advice in listed["error"]["message"]


def test_the_servers_own_errors_are_passed_on():
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "there is no MCP profile 'x'"}}
    with serving(lambda _: (400, json.dumps(error).encode())) as (url, _):
        assert exchanged(url, request(7, "initialize")) == [{**error, "id": 7}]


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
def test_no_error_quotes_the_key(method: str):
    """http.client quotes a header that it cannot send."""
    (answer,) = exchanged("http://127.0.0.1:9", request(1, method, name="remember"), key="sk-secret\n")
    assert "sk-secret" not in json.dumps(answer)


def test_a_failure_of_the_bridge_itself_is_answered():
    def offline(message: Message) -> None:
        raise ZeroDivisionError

    (answer,) = exchanged("http://127.0.0.1:9", request(1, "initialize"), offline=offline)
    assert "ZeroDivisionError" in answer["error"]["message"]


def test_a_request_that_is_canceled_while_it_waits_is_not_sent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "AT_ONCE", 1)
    canceled = Event()

    def lines() -> Generator[bytes]:
        yield json.dumps(request(1, "ping")).encode()
        yield json.dumps(request(2, "tools/call", name="remember")).encode()
        yield json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}).encode()
        canceled.set()

    output = BytesIO()
    with serving(held(canceled)) as (url, received):
        Bridge(url, None, "", output, nothing).run(lines())
    assert [seen.message["id"] for seen in received] == [1]


def test_an_interrupt_does_not_wait_for_the_server():
    goes_on = Event()

    def lines() -> Generator[bytes]:
        yield json.dumps(request(1, "ping")).encode()
        raise KeyboardInterrupt

    with serving(held(goes_on)) as (url, _):
        with pytest.raises(KeyboardInterrupt):
            Bridge(url, None, "", BytesIO(), nothing).run(lines())
        assert not goes_on.is_set()
        goes_on.set()


def test_without_a_server_calls_say_how_to_start_it():
    (answer,) = exchanged("http://127.0.0.1:9", request(1, "tools/call", name="remember"))
    text = answer["result"]["content"][0]["text"]
    assert "Nothing was stored" in text
    assert "mnemolog up" in text


def test_a_server_that_breaks_off_its_answer_may_have_stored_the_write():
    def respond(message: Message) -> tuple[int, bytes]:
        raise ConnectionAbortedError

    with serving(respond) as (url, _):
        (answer,) = exchanged(url, request(1, "tools/call", name="remember"))
    assert "may or may not have been stored" in answer["result"]["content"][0]["text"]


def release(profile: str) -> module.Offline:
    offered = PROFILES.offer(PROFILES.chosen(profile))
    return lambda message: offline_answer(offered, message["method"], message.get("params", {}))


def test_without_a_server_the_handshake_and_the_lists_are_those_of_this_release():
    methods = ("initialize", "tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping")
    messages = [request(count, method, protocolVersion="2025-03-26") for count, method in enumerate(methods)]
    answers = exchanged("http://127.0.0.1:9", *messages, offline=release(""))
    results: dict[str, Any] = {methods[answer["id"]]: answer["result"] for answer in answers}
    assert results["initialize"]["protocolVersion"] == "2025-03-26"
    assert results["initialize"]["serverInfo"]["name"] == "mnemolog"
    assert set(results["initialize"]["capabilities"]) == {"tools", "prompts", "resources"}
    assert results["tools/list"]["tools"][0]["name"] == "recall"
    assert results["prompts/list"]["prompts"]
    assert results["resources/templates/list"]["resourceTemplates"]
    assert results["ping"] == {}


def test_a_version_that_this_release_does_not_speak_becomes_one_that_it_does():
    handshake = request(1, "initialize", protocolVersion="1999")
    (answer,) = exchanged("http://127.0.0.1:9", handshake, offline=release(""))
    assert answer["result"]["protocolVersion"] >= "2025-06-18"


def test_an_unknown_profile_is_an_error_of_the_handshake():
    def offline(message: Message) -> None:
        raise UnknownProfile("nope", PROFILES)

    (answer,) = exchanged("http://127.0.0.1:9", request(1, "initialize"), offline=offline)
    assert "there is no MCP profile 'nope'" in answer["error"]["message"]


def test_more_requests_than_are_answered_at_once_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "WAITING", 2)
    with serving() as (url, _):
        answers = exchanged(url, *(request(number, "ping") for number in range(20)))
    assert sorted(answer["id"] for answer in answers) == list(range(20))
