"""The command line's HTTP client: small, synchronous, retries for a few seconds, explains errors.

A write has its event id before it is first sent, so a retry (after 429, 503 or a cut connection) stores it once.
"""

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import msgspec

from api.cli.errors import ClientError, InvalidUrl, NotMnemolog, ServerUnreachable
from ingest.errors import MnemologError, reason_of
from ingest.platform.addresses import is_http, proxy_options
from ingest.platform.processes import release

PATIENCE_S = 10.0
"""How long a request is retried."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Between retries, if the server names no time; doubles."""
MAX_ATTEMPTS = 1_000  # patience ends before
TIMEOUT_S = 30.0
"""A batch in a busy server's queue takes seconds; a server that is silent for longer is broken."""
STREAM_TIMEOUT_S = 300.0
"""For exports and imports, which are silent while they skip others' events, or wait in a full queue."""
_BUSY = frozenset({429, 503})


class UnexpectedAnswer(MnemologError):
    """An answer lacks a field that a command reads."""

    code, exit_code = "unexpected_answer", 1

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the server's answer has no {name!r}: the server is another version than this command line ({release()}); "
            "run `mnemolog doctor`"
        )


class _Answer(dict[str, Any]):
    """An object of an answer; a missing field raises UnexpectedAnswer."""

    def __missing__(self, name: str) -> Any:
        raise UnexpectedAnswer(name)


class ApiClient:
    """A connection to one server; a context manager. `agent` reads and writes, unless a request names another."""

    def __init__(
        self,
        url: str,
        secret: str | None = None,
        *,
        agent: str = "",
        node_timeout_s: float = PATIENCE_S,
        sleep: Callable[[float], None] = time.sleep,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        host_of(url)
        headers = {b"Authorization": f"Bearer {secret}".encode("ascii")} if secret else {}
        if agent:
            headers[b"X-Agent-Id"] = agent.encode()  # httpx encodes text in ASCII alone
        self._http = httpx.Client(
            base_url=self.url, headers=headers, timeout=TIMEOUT_S, transport=transport, **proxy_options(url)
        )
        self._patience_s, self._sleep, self._has_key = node_timeout_s, sleep, bool(secret)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer; parameters that are None or empty are left out."""
        filled = {name: value for name, value in (params or {}).items() if value is not None and value != ""}
        return self._send("GET", path, params=filled)

    def find(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """Like `get`; None if it does not exist."""
        try:
            return self.get(path, params)
        except ClientError as error:
            if error.status != 404:
                raise
            return None

    def look(self, path: str) -> tuple[int, Any]:
        """Status and decoded body, without retries; a 503 is an answer here. Raises ClientError."""
        with self._connection():
            response = self._http.get(path)
        return response.status_code, self._decoded(response, also=503)

    def version(self) -> str:
        """The server's release; empty if unknown."""
        try:
            return str(self._http.get("/openapi.json").json()["info"]["version"])
        except (httpx.HTTPError, ValueError, LookupError, TypeError):
            return ""

    def post(self, path: str, body: Any) -> Any:
        """The decoded answer to a query, or to a write that has its event ids."""
        return self._send("POST", path, body=body)

    def patch(self, path: str, body: Any) -> Any:
        """The decoded answer."""
        return self._send("PATCH", path, body=body)

    def delete(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """The decoded answer; parameters that are None are left out."""
        return self._send("DELETE", path, params={k: v for k, v in (params or {}).items() if v is not None})

    @contextmanager
    def download(self, path: str, params: Mapping[str, str]) -> Generator[Iterator[bytes]]:
        """The body of a long answer in blocks, without retries; raises ClientError."""
        with (
            self._connection(),
            self._http.stream("GET", path, params=dict(params), timeout=STREAM_TIMEOUT_S) as response,
        ):
            if not response.is_success:
                response.read()
                raise self._error_of(response)
            yield response.iter_bytes()

    def upload(self, path: str, blocks: Iterable[bytes]) -> Any:
        """The decoded answer to a long body of lines, without retries; raises ClientError."""
        headers = {"Content-Type": "application/x-ndjson"}
        with self._connection():
            return self._decoded(self._http.post(path, content=blocks, headers=headers, timeout=STREAM_TIMEOUT_S))

    def post_lines(self, path: str, lines: bytes) -> Any:
        """The decoded answer to lines with event ids, retried like any request."""
        return self._send("POST", path, lines=lines)

    @contextmanager
    def _connection(self) -> Generator[None]:
        """Turns errors of the connection into ServerUnreachable or a ClientError."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            message = ""
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                reason = str(error).rpartition(": ")[2].partition(" (")[0]
                message = f"the certificate of {self.url} is not trusted: {reason}"
            elif "SSL" in str(error):
                message = f"no TLS at {self.url} ({error}); did you mean http://{self.url.partition('://')[2]}?"
            raise ServerUnreachable(self.url, message) from None
        except httpx.RemoteProtocolError as error:
            if "illegal" in str(error):  # not even HTTP; a server that ends says something else
                raise NotMnemolog(self.url, "does not answer in HTTP") from None
            lost = f"{self.url} closed the connection ({error}); does another program use the port?"
            raise ClientError("connection_lost", lost) from None
        except httpx.TransportError as error:
            raise ClientError("connection_lost", f"{self.url} closed the connection: {reason_of(error)}") from None

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: dict[str, Any] | None = None,
        lines: bytes | None = None,
    ) -> Any:
        """Retry until the server is not busy, or time runs out; raises ClientError."""
        content = lines if body is None else msgspec.json.encode(body)
        kind = "application/json" if lines is None else "application/x-ndjson"
        headers = {} if content is None else {"Content-Type": kind}
        attempts = None
        while True:
            try:
                with self._connection():
                    response = self._http.request(method, path, params=params, content=content, headers=headers)
            except (ServerUnreachable, NotMnemolog):
                raise
            except ClientError as lost:
                problem = lost
            else:
                if response.status_code not in _BUSY:
                    return self._decoded(response)
                problem = self._error_of(response)
            if attempts is None:
                from mnemolog_client.retry import Attempts, Retry  # loads the client, which few commands need

                attempts = Attempts(Retry(MAX_ATTEMPTS, self._patience_s, FIRST_PAUSE_S, LONGEST_PAUSE_S), max)
            after = problem.retry_after
            self._sleep(attempts.pause_s(problem, None if after is None else max(after, FIRST_PAUSE_S)))

    def _decoded(self, response: httpx.Response, also: int = 0) -> Any:
        """The object in a successful answer, or in one with the status `also`; raises ClientError."""
        if not response.is_success and response.status_code != also:
            raise self._error_of(response)
        try:
            answer: Any = json.loads(response.content, object_hook=_Answer)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._not_mnemolog(response)
        return answer  # pyright: ignore[reportUnknownVariableType]

    def _error_of(self, response: httpx.Response) -> ClientError:
        try:
            problem = msgspec.json.decode(response.content, type=_Problem)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._not_mnemolog(response)
        status, detail = response.status_code, problem.detail
        unsupported = (status, detail) == (404, "Not Found") or status == 405 or detail.startswith("unknown field ")
        if unsupported and (version := self.version()) not in ("", release()):
            return ClientError(
                "other_version",
                f"{self.url} is mnemolog {version}, which does not support this command of {release()}",
                status=status,
            )
        if status == 401:
            reason = "rejected the key: it is wrong, expired or revoked" if self._has_key else "requires a key"
            detail = (
                f"{self.url} {reason}. Set MNEMOLOG_KEY to an API key, or store one for this server with "
                "`mnemolog admin keys store`; on the server's machine, `mnemolog admin keys create NAME --role "
                "read,write` creates one"
            )
        retry_after = _seconds(response.headers.get("Retry-After"))
        return ClientError(problem.code, detail, field=problem.field, retry_after=retry_after, status=status)

    def _not_mnemolog(self, response: httpx.Response) -> ClientError:
        retry_after, status = _seconds(response.headers.get("Retry-After")), response.status_code
        return NotMnemolog(self.url, f"answered {status} without JSON", retry_after=retry_after, status=status)


class _Problem(msgspec.Struct, frozen=True):
    code: str
    detail: str
    field: str | None = None


def probe(url: str, timeout_s: float) -> httpx.Response:
    """The answer to a GET without a key; status 0 without an answer."""
    try:
        return httpx.get(url, timeout=timeout_s, **proxy_options(url))
    except (httpx.HTTPError, httpx.InvalidURL):
        return httpx.Response(0)


def host_of(url: str) -> str:
    """The host of an http(s) URL; raises InvalidUrl."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if is_http(parts) else None
    except ValueError:
        raise InvalidUrl(url) from None
    if not host:
        raise InvalidUrl(url)
    return host


def _seconds(header: str | None) -> float | None:
    """Seconds of a Retry-After header; None for none or a date, which the server never sends."""
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:
        return None
