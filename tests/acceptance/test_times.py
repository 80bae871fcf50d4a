"""Every listing takes bounds of when something happened and of when it was recorded."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.acceptance.asking import all_pages, read, refused, write

LONG_AGO = datetime(2021, 3, 14, tzinfo=UTC)
DAY = timedelta(days=1)
LISTED: dict[str, dict[str, Any]] = {
    "/v1/timeline": {},
    "/v1/sessions": {},
    "/v1/sessions/{session}/observations": {},
    "/v1/sessions/{session}/commits": {},
    "/v1/memories": {},
    "/v1/lessons": {},
    "/v1/actions": {"open": True},
    "/v1/relations": {},
    "/v1/commits": {},
    "/v1/slots": {},
    "/v1/summaries": {},
}
"""The listings of a project, all of which have something that happened long ago and was recorded now."""


@pytest.fixture
async def happened(client: httpx.AsyncClient, project: str) -> datetime:
    """One of everything, said to have happened long ago. Returns a time before any of it was recorded."""
    before = datetime.now(UTC) - timedelta(minutes=1)
    about: dict[str, Any] = {"project": project, "occurred_at": LONG_AGO.isoformat()}
    session = {**about, "session_id": f"{project}-s"}
    await write(client, "/v1/observations", **session, content="The heron nests. We decided to keep the gate shut.")
    memory = await write(client, "/v1/memories", **about, content="herons nest in March")
    lesson = await write(client, "/v1/lessons", **about, content="wait for the heron")
    await write(client, "/v1/actions", **about, title="count the nests")
    await write(client, "/v1/slots", **about, label="notes", content="herons")
    await write(client, "/v1/commits", **session, commit="abc123")
    await write(client, "/v1/relations", **about, source=memory["id"], target=lesson["id"], relation="causes")
    ended = await write(client, "/v1/sessions", **session, status="ended")
    await read(client, "/v1/timeline", project=project, after=ended["position"])
    summary = await client.post(f"/v1/sessions/{project}-s/summary", json={"project": project})
    await read(client, "/v1/summaries", project=project, after=summary.json()["position"])
    return before


async def listed(client: httpx.AsyncClient, path: str, project: str, **bounds: datetime) -> int:
    """How much a listing has of some time."""
    texts = {name: time.isoformat() for name, time in bounds.items()}
    where = path.format(session=f"{project}-s")
    if path in ("/v1/slots", "/v1/sessions/{session}/commits"):
        return len((await read(client, where, project=project, **texts))["items"])
    return len(await all_pages(client, where, project=project, **LISTED[path], **texts))


async def test_every_listing_is_bounded_by_when_it_happened_and_by_when_it_was_recorded(
    client: httpx.AsyncClient, project: str, happened: datetime
):
    """A summary happens when it is made, whenever its session was."""
    for path in LISTED:
        count = await listed(client, path, project, recorded_since=happened)
        assert count >= 1, path
        assert await listed(client, path, project, recorded_until=happened) == 0, path
        made_now = path == "/v1/summaries"
        when = datetime.now(UTC) if made_now else LONG_AGO
        assert await listed(client, path, project, since=when - DAY, until=when + DAY) == count, path
        assert await listed(client, path, project, until=when - DAY) == 0, path
        assert await listed(client, path, project, since=when + DAY) == 0, path


async def test_an_interval_has_its_beginning_and_not_its_end(
    client: httpx.AsyncClient, project: str, happened: datetime
):
    for path in ("/v1/timeline", "/v1/memories"):
        assert await listed(client, path, project, since=LONG_AGO) == 1
        assert await listed(client, path, project, until=LONG_AGO) == 0
        assert await listed(client, path, project, until=LONG_AGO + timedelta(milliseconds=1)) == 1


async def test_the_log_and_the_audit_are_bounded_by_both_times(
    client: httpx.AsyncClient, project: str, happened: datetime
):
    for path, name, about in (("/v1/events", "events", {}), ("/v1/audit", "entries", {"operation": "*"})):

        async def count(path: str = path, name: str = name, about: dict[str, str] = about, **bounds: datetime) -> int:
            texts = {name: time.isoformat() for name, time in bounds.items()}
            return len((await read(client, path, project=project, limit=1000, **about, **texts))[name])

        everything = await count()
        assert everything >= 8
        assert await count(recorded_since=happened) == everything, path
        assert await count(recorded_until=happened) == 0, path
        assert await count(until=LONG_AGO + DAY) == await count(since=LONG_AGO, until=LONG_AGO + DAY) > 0, path
        assert await count(until=LONG_AGO) == 0, path
        assert await count(since=LONG_AGO + DAY) == everything - await count(until=LONG_AGO + DAY), path


async def test_receipts_are_bounded_by_when_they_were_asked_for(client: httpx.AsyncClient, project: str):
    before = datetime.now(UTC)
    asked = await client.post("/v1/forget", json={"kind": "project", "subject": project})
    name = asked.json()["id"]
    for bounds, there in (({"since": before}, True), ({"until": before}, False), ({"recorded_since": before}, True)):
        found = await all_pages(client, "/v1/forget", **{key: time.isoformat() for key, time in bounds.items()})
        assert (name in [one["id"] for one in found]) is there


async def test_dead_letters_take_bounds_and_have_none_of_a_time_without_any(client: httpx.AsyncClient):
    answer = await read(client, "/v1/admin/dead-letters", recorded_until=LONG_AGO.isoformat())
    assert (answer["dead_letters"], answer["next"]) == ([], None)


async def test_what_was_imported_keeps_the_time_at_which_it_was_first_recorded(client: httpx.AsyncClient, project: str):
    header = {"format": "mnemolog-export", "version": 1, "tenant": "default", "project": project}
    event = {
        "event_id": "m1", "type": "memory.recorded", "version": 2, "tenant": "default", "project": project,
        "occurred_at": LONG_AGO.isoformat(), "recorded_at": (LONG_AGO + DAY).isoformat(),
        "data": {"content": "an egret"},
    }  # fmt: skip
    lines = [header, event, {"end": True, "events": 1}]
    answer = await client.post("/v1/admin/import", content="\n".join(map(json.dumps, lines)))
    assert (answer.status_code, answer.json()["events"]) == (202, 1), answer.text
    marker = await write(client, "/v1/lessons", project=project, content="the egret is here")
    await read(client, "/v1/lessons", project=project, after=marker["position"])
    for since, count in ((LONG_AGO, 1), (LONG_AGO + 2 * DAY, 0)):
        bounds = {"recorded_since": since, "recorded_until": LONG_AGO + 9 * DAY}
        assert await listed(client, "/v1/memories", project, **bounds) == count


@pytest.mark.parametrize("bound", ["since", "until", "recorded_since", "recorded_until"])
@pytest.mark.parametrize("text", ["soon", "2026-01-31", "2026-01-31T12:00:00"])
async def test_a_bound_is_a_time_with_an_offset(client: httpx.AsyncClient, bound: str, text: str):
    assert await refused(client, "GET", "/v1/memories", **{bound: text}) == (422, "invalid", bound)
