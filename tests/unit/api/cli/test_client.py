"""The command line's HTTP client: repeats what may be repeated, and says what went wrong."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from api.cli.client import ApiClient, UnexpectedAnswer
from api.cli.errors import ClientError, InvalidUrl, ServerUnreachable
from ingest.platform.processes import release

Handler = Callable[[httpx.Request], httpx.Response]
URL = "http://127.0.0.1:3111"


class Naps(list[float]):
    """Stands in for time.sleep: remembers, does not wait."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def naps() -> Naps:
    return Naps()


def client(handler: Handler, naps: Naps, **options: Any) -> ApiClient:
    return ApiClient(URL, transport=httpx.MockTransport(handler), sleep=naps, **options)


def answers(*given: httpx.Response) -> tuple[Handler, list[httpx.Request]]:
    """A server that gives these answers in turn, and the requests it got."""
    requests: list[httpx.Request] = []
    remaining: Iterator[httpx.Response] = iter(given)

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return next(remaining)

    return handle, requests


def busy(status: int, code: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "detail": code}, headers=headers)


def test_an_answer_is_decoded(naps: Naps):
    handle, requests = answers(httpx.Response(200, json={"events": []}))
    with client(handle, naps, agent="ada") as api:
        assert api.get("/v1/events", {"after": "", "limit": 5, "type": None}) == {"events": []}
    assert str(requests[0].url) == f"{URL}/v1/events?limit=5"
    assert requests[0].headers["X-Agent-Id"] == "ada"


def test_the_secret_travels_as_a_bearer(naps: Naps):
    handle, requests = answers(httpx.Response(200, json={}))
    with ApiClient(URL, "s3cret", transport=httpx.MockTransport(handle), sleep=naps) as api:
        api.delete("/v1/memories/mem_1", {"reason": "asked for"})
    assert requests[0].headers["Authorization"] == "Bearer s3cret"
    assert requests[0].method == "DELETE"


@pytest.mark.parametrize(("status", "code"), [(429, "overloaded"), (503, "log_unavailable")])
def test_a_write_to_a_busy_server_is_repeated_under_the_same_name(naps: Naps, status: int, code: str):
    handle, requests = answers(busy(status, code, **{"Retry-After": "3"}), httpx.Response(202, json={"id": "obs_1"}))
    with client(handle, naps) as api:
        assert api.post("/v1/observations", {"content": "hello", "event_id": "mine"}) == {"id": "obs_1"}
    names = [msgspec.json.decode(request.content)["event_id"] for request in requests]
    assert names == ["mine", "mine"]
    assert naps == [3.0]


def test_patience_ends(naps: Naps):
    def always(_: httpx.Request) -> httpx.Response:
        return busy(429, "overloaded")

    with client(always, naps) as api, pytest.raises(ClientError) as caught:
        api.post("/v1/recall", {"query": "x"})
    assert (caught.value.code, caught.value.status, caught.value.exit_code) == ("overloaded", 429, 1)
    assert sum(naps) <= 10
    assert naps == sorted(naps)


def test_a_longer_retry_after_than_patience_is_not_waited_for(naps: Naps):
    handle, _ = answers(busy(503, "projection_behind", **{"Retry-After": "60"}))
    with client(handle, naps) as api, pytest.raises(ClientError) as caught:
        api.post("/v1/recall", {"query": "x"})
    assert caught.value.retry_after == 60
    assert naps == []


def test_a_refusal_names_the_field_and_is_not_repeated(naps: Naps):
    refusal = {"code": "invalid", "detail": "query is blank", "field": "query", "extra": 1}
    handle, requests = answers(httpx.Response(422, json=refusal))
    with client(handle, naps) as api, pytest.raises(ClientError, match="query is blank") as caught:
        api.post("/v1/recall", {"query": " "})
    assert caught.value.field == "query"
    assert len(requests) == 1


def test_no_server_is_said_at_once(naps: Naps):
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    with client(refuse, naps) as api, pytest.raises(ServerUnreachable, match="mnemolog up") as caught:
        api.get("/v1/events")
    assert caught.value.exit_code == 3
    assert naps == []


def test_a_cut_connection_is_tried_again(naps: Naps):
    calls = 0

    def cut_once(request: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise httpx.RemoteProtocolError("cut", request=request)
        return httpx.Response(202, json={"ok": True})

    with client(cut_once, naps) as api:
        assert api.post("/v1/memories", {"content": "x"}) == {"ok": True}


@pytest.mark.parametrize("status", [200, 404, 502])
def test_something_else_that_listens_there_is_recognised(naps: Naps, status: int):
    handle, _ = answers(httpx.Response(status, text="<html>hello</html>"))
    with client(handle, naps) as api, pytest.raises(ClientError, match="is it a mnemolog server") as caught:
        api.get("/v1/events")
    assert caught.value.code == "not_mnemolog"


def of_another_version(version: str) -> Handler:
    """A server that knows no route but its description."""

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/openapi.json":
            return httpx.Response(200, json={"info": {"version": version}} if version else {})
        return httpx.Response(404, json={"code": "not_found", "detail": "Not Found"})

    return handle


@pytest.mark.parametrize(("version", "code"), [("0.0.9", "other_version"), (release(), "not_found"), ("", "not_found")])
def test_a_server_of_another_version_says_which_where_it_has_no_such_route(naps: Naps, version: str, code: str):
    with client(of_another_version(version), naps) as api, pytest.raises(ClientError) as caught:
        api.post("/v1/confirm", {"ids": ["mem_1"]})
    assert caught.value.code == code
    assert version in str(caught.value) or code == "not_found"


@pytest.mark.parametrize(
    "fault", [(405, "Method Not Allowed"), (422, "unknown field `min_confidence`")], ids=["method", "field"]
)
def test_a_method_or_field_that_another_version_has_not_says_so_too(naps: Naps, fault: tuple[int, str]):
    status, message = fault
    handle, _ = answers(
        httpx.Response(status, json={"code": "x", "detail": message}),
        httpx.Response(200, json={"info": {"version": "0.0.9"}}),
    )
    with client(handle, naps) as api, pytest.raises(ClientError, match=r"is mnemolog 0\.0\.9"):
        api.patch("/v1/memories/mem_1", {"content": "x"})


def test_an_answer_without_what_is_read_is_an_error_of_ours_and_no_key_error(naps: Naps):
    handle, _ = answers(httpx.Response(200, json={"items": [{"id": "mem_1"}]}))
    with client(handle, naps) as api:
        (item,) = api.get("/v1/memories")["items"]
    with pytest.raises(UnexpectedAnswer, match="'content'"):
        item["content"]
    assert item.get("content") is None


@pytest.mark.parametrize("body", [b"[]", b'"ok"', b"{", b"\xff"])
def test_an_answer_that_is_no_object_is_a_strangers(naps: Naps, body: bytes):
    handle, _ = answers(httpx.Response(200, content=body))
    with client(handle, naps) as api, pytest.raises(ClientError, match="is it a mnemolog server"):
        api.get("/v1/events")


@pytest.mark.parametrize("url", ["", "localhost:3111", "ftp://host", "http://", "http://host:port", "http://[::1"])
def test_what_is_no_address_is_a_usage_error(url: str):
    with pytest.raises(InvalidUrl) as caught:
        ApiClient(url)
    assert caught.value.exit_code == 2
