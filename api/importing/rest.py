"""REST answers of other systems' servers, gathered into lists: what is paged newest first is read whole."""

import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from api.importing.mapping import Record
from api.importing.source import Unusable, decoded
from ingest.platform.addresses import proxy_options

TIMEOUT_S = 60.0
PATIENCE_S, FIRST_PAUSE_S = 10.0, 0.2
"""How long a request is repeated while the server is busy or away; the pause doubles."""
MAX_ITEMS = 2_000_000
"""Items of one list that are gathered at most: they are all in memory."""
AGENTMEMORY_SESSIONS = 100
AGENTD_PAGE, AGENT_MEMORY_PAGE = 200, 100
"""The most that those servers answer at once."""
STATUSES, SEVERITIES = ("active", "completed", "failed"), ("critical", "warning", "info")


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


def agentmemory_export(server: RestServer) -> Record:
    """The whole export of an agentmemory server, gathered from pages of sessions."""
    whole: Record = {}
    while True:
        page: Any = server.get(
            "/agentmemory/export",
            maxSessions=AGENTMEMORY_SESSIONS,
            offset=len(cast("list[Any]", whole.get("sessions", []))),
        )
        if not isinstance(page, dict) or not isinstance(cast(Record, page).get("sessions"), list):
            fault: Any = cast(Record, page).get("error") if isinstance(page, dict) else None
            raise Unusable(f"{server.url} answered no export of agentmemory{f': {fault}' if fault else ''}")
        part = cast(Record, page)
        if not whole:
            whole = part
        else:
            whole["sessions"] += part["sessions"]
            whole["observations"] = {**(whole.get("observations") or {}), **(part.get("observations") or {})}
        pagination = cast(Mapping[str, Any], part.get("pagination") or {})
        if not pagination.get("hasMore") or not part["sessions"]:
            return whole
        if len(whole["sessions"]) > MAX_ITEMS:
            raise Unusable(f"{server.url} has over {MAX_ITEMS:,} sessions")


def agentd_memories(server: RestServer) -> list[Record]:
    """All memories of an agentd server."""
    return server.pages("/memories", "items", AGENTD_PAGE)


class AgentMemory:
    """What the REST API of an agent-memory server tells: all observations, and as many of the others as it lists.

    It lists at most AGENT_MEMORY_PAGE sessions or rules for one question, so it is asked one for each project,
    status and severity; `cut` says where even that was not enough.
    """

    def __init__(self, server: RestServer) -> None:
        self.cut: list[str] = []
        self.observations = server.pages("/api/observations", "", AGENT_MEMORY_PAGE)
        stats: Any = server.get("/api/admin/stats")
        named: Any = cast(Record, stats).get("by_project") if isinstance(stats, dict) else None
        projects = sorted(
            {str(one.get("project_name") or "") for one in self.observations}
            | set(cast("dict[str, Any]", named if isinstance(named, dict) else {}))
        )
        self.sessions = self._listed(
            server, "/api/sessions", [{"project": one, "status": status} for one in projects for status in STATUSES]
        )
        self.lessons = self._listed(
            server,
            "/api/lessons",
            [
                {"severity": severity, "active": active, **project}
                for severity in SEVERITIES
                for active in ("true", "false")
                for project in ({}, *({"project": one} for one in projects))
            ],
        )

    def _listed(self, server: RestServer, path: str, questions: list[dict[str, str]]) -> list[Record]:
        found: dict[Any, Record] = {}
        for question in questions:
            items = server.items(path, "", limit=AGENT_MEMORY_PAGE, **question)
            if len(items) >= AGENT_MEMORY_PAGE:
                about = ", ".join(f"{name} {value!r}" for name, value in question.items())
                self.cut.append(f"{path} lists at most {AGENT_MEMORY_PAGE} ({about}): there may be more")
            found.update((one.get("id"), one) for one in items)
        return list(found.values())
