"""REST answers of other systems' servers, gathered into lists: what is paged newest first is read whole."""

import time
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from api.importing.mapping import Record
from api.importing.source import Unusable, decoded
from ingest.platform.proxies import proxy_options

TIMEOUT_S = 60.0
PATIENCE_S, FIRST_PAUSE_S = 10.0, 0.2
"""How long a request is repeated while the server is busy or away; the pause doubles."""
MAX_ITEMS = 2_000_000
"""Items of one list that are gathered at most: they are all in memory."""


def is_url(location: str) -> bool:
    """Whether a location is a server's address."""
    return urlsplit(location).scheme in ("http", "https")


class RestServer:
    """A server of another system; a context manager."""

    def __init__(self, url: str, secret: str = "") -> None:
        self.url = url.rstrip("/")
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._http = httpx.Client(headers=headers, timeout=TIMEOUT_S, **proxy_options(url))

    def __enter__(self) -> "RestServer":
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.close()

    def get(self, path: str, **query: str | int) -> Any:
        """The decoded answer; raises Unusable for any other than 200."""
        waited, pause = 0.0, FIRST_PAUSE_S
        while True:
            try:
                answer = self._http.get(f"{self.url}{path}", params=query)
                if answer.status_code == 200:
                    return decoded(answer.content, f"the answer of {self.url}{path}")
                fault = f"{self.url}{path} answered {answer.status_code}: {' '.join(answer.text.split())[:200]}"
                if answer.status_code != 429 and answer.status_code < 500:
                    raise Unusable(fault)
            except httpx.TransportError as error:
                fault = f"{self.url} does not answer: {error or type(error).__name__}"
            if waited + pause > PATIENCE_S:
                raise Unusable(fault, busy=True)
            time.sleep(pause)
            waited, pause = waited + pause, 2 * pause

    def pages(self, path: str, field: str, limit: int, **query: str | int) -> list[Record]:
        """All items of a list that is paged by `limit` and `offset`; `field` is where an answer has them, if any."""
        found: list[Record] = []
        while True:
            items = self.items(path, field, limit=limit, offset=len(found), **query)
            found += items
            if len(found) > MAX_ITEMS:
                raise Unusable(f"{self.url}{path} has over {MAX_ITEMS:,} items; import from its database instead")
            if len(items) < limit:
                return found

    def items(self, path: str, field: str, **query: str | int) -> list[Record]:
        """The objects in one answer's list."""
        answer = self.get(path, **query)
        listed: Any = cast(Record, answer).get(field) if field and isinstance(answer, dict) else answer
        if not isinstance(listed, list):
            raise Unusable(f"{self.url}{path} answered no list; is that the right server?")
        return [cast(Record, one) for one in cast("list[Any]", listed) if isinstance(one, dict)]
