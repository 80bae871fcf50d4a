"""What a page of a listing tells of documents that its reader may not see: nothing, also by its cursor."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest
from desk import ALONE, NOBODY, Desk
from factories import AGENT, PROJECT, TENANT

from ingest.commands.decide import LinkCommit, Relate, WriteAction
from ingest.log.redis_log import RedisLog
from ingest.roles import KeyScope
from projections.documents.access import Reader
from projections.queries import documents as documents_module
from projections.queries.documents import DocumentReader
from projections.queries.lessons import Lessons
from projections.queries.log_events import Audit, EventFilter, LogEvents
from projections.queries.memories import Memories
from projections.queries.observations import Observations
from projections.queries.sessions import Commits, Sessions, Summaries
from projections.queries.work import Actions, Relations

ELSEWHERE = Reader(TENANT, AGENT, key_scope=KeyScope(projects=("elsewhere",)))
"""A key for another project."""
PAGES: dict[str, Callable[[Desk], Callable[..., Awaitable[Any]]]] = {
    "memories": lambda desk: Memories(desk.documents, desk.lookup, desk.replica).page,
    "lessons": lambda desk: Lessons(desk.replica, desk.documents, desk.recall.vectors).page,
    "actions": lambda desk: Actions(desk.documents).page,
    "relations": lambda desk: Relations(desk.documents, desk.lookup).page,
    "sessions": lambda desk: Sessions(desk.documents).page,
    "commits": lambda desk: Commits(desk.documents).page,
    "summaries": lambda desk: Summaries(desk.documents).page,
    "timeline": lambda desk: Observations(desk.replica, desk.documents).timeline,
}
EVERYONES = [name for name in PAGES if name != "summaries"]
"""Those that `_write` writes to, for each agent: a summary is nobody's."""


@pytest.fixture(autouse=True)
def little_at_a_time(monkeypatch: pytest.MonkeyPatch):
    """A request that looks at few documents, so that pages end behind some that may not be seen."""
    monkeypatch.setattr(documents_module, "MAX_SCANNED", 2)
    monkeypatch.setattr(documents_module, "SCANNED_AT_ONCE", 1)


async def _write(desk: Desk, agent: str, count: int) -> set[str]:
    """Documents of every kind that an agent writes alone; their ids."""
    written: set[str] = set()
    for _ in range(count):
        name, said = uuid4().hex, _by(agent)
        memory = await desk.remember(name, agent_id=agent, visibility="private")
        written |= {
            memory,
            await desk.learn(name, agent_id=agent),
            await desk.observe(name, agent_id=agent, session_id=name),
            await desk.say(WriteAction(title=name, **said)),
            await desk.say(LinkCommit(commit=name, **said)),
            await desk.say(Relate(source=memory, target=memory, relation="explains", **said)),
        }
    return written


def _by(agent: str) -> dict[str, Any]:
    return {"project": PROJECT, "agent_id": agent}


async def _walk(desk: Desk, listing: str, reader: Reader) -> tuple[list[str], str]:
    """The ids on all pages of a listing, and all that their cursors say."""
    found: list[str] = []
    said, cursor = "", None
    while True:
        page = await PAGES[listing](desk)(reader, PROJECT, cursor, 1)
        found += [one["id"] for one in page.items]
        if (cursor := page.next) is None:
            return found, said
        said += base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode() + "\n"


async def test_a_reader_gets_all_that_it_may_see_and_no_cursor_names_what_it_may_not(desk: Desk):
    hidden = await _write(desk, AGENT, 4)
    own = await _write(desk, "bob", 1)
    hidden |= await _write(desk, AGENT, 4)
    own |= await _write(desk, "bob", 1)
    hidden |= await _write(desk, AGENT, 4)
    await desk.settle()
    for listing in EVERYONES:
        found, said = await _walk(desk, listing, ALONE)
        assert len(found) == 2, listing
        assert said, listing
        assert [name for name in hidden if name in said] == [], listing
        if listing != "sessions":
            assert set(found) <= own, listing


async def test_no_cursor_names_a_private_memory_of_somebody_else(desk: Desk):
    hidden = [await desk.remember(f"{n}", visibility="private") for n in range(4)]
    public = await desk.remember("tea")
    hidden += [await desk.remember(f"more {n}", visibility="private") for n in range(4)]
    await desk.settle()
    found, said = await _walk(desk, "memories", NOBODY)
    assert found == [public]
    assert [name for name in hidden if name in said] == []


@pytest.mark.parametrize("listing", PAGES)
async def test_of_a_project_that_a_key_is_not_for_nothing_is_read(
    desk: Desk, listing: str, monkeypatch: pytest.MonkeyPatch
):
    await _write(desk, AGENT, 1)
    await desk.settle()
    monkeypatch.setattr(DocumentReader, "page", _refuse)
    page = await PAGES[listing](desk)(ELSEWHERE, PROJECT, None, 1)
    assert (page.items, page.next) == ([], None)


async def test_of_a_project_that_a_key_is_not_for_the_log_is_not_read(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    await _write(desk, AGENT, 1)
    await desk.settle()
    for reading in ("read", "read_back", "head"):
        monkeypatch.setattr(RedisLog, reading, _refuse)
    assert (await Audit(desk.log).entries(ELSEWHERE, project=PROJECT)).next is None
    events = LogEvents(desk.log, desk.replica, desk.documents)
    wanted = EventFilter(ELSEWHERE, project=PROJECT)
    assert (await events.page(wanted, "", 10, None)).next is None
    assert (await events.page(wanted, "0:5-0", 10, None)).next == "0:5-0"


async def _refuse(*asked: Any, **more: Any) -> None:
    raise AssertionError("this is not to be read")
