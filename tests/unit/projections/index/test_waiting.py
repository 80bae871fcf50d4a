"""Searches wait for the thread of the index, and not too many of them."""

import asyncio
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import cast

import pytest

from ingest.errors import Overloaded
from ingest.log.position import Position, Token
from ingest.platform.connections import Client
from projections.index.replica import IndexReplica, apply_steps, steps_of
from projections.index.service import ReplicaService
from projections.index.waiting import MAX_WAITING, MOST_AT_ONCE, Searches, work_folder
from projections.nouns.index_entry import IndexEntry
from projections.search.question import Filter, Hit, Question
from projections.store.feed import FeedItem, Put, Remove, entry_fields
from projections.vectors.embedder import Embedders

QUESTION, ALLOWED = Question(text="tea", vector=None), Filter(tenant="acme", now_ms=0)


def find(question: Question, allowed: Filter) -> list[Hit]:
    return []


async def test_one_search_too_many_is_refused_and_those_that_wait_are_answered():
    in_use = Lock()
    in_use.acquire()

    with ThreadPoolExecutor(1) as thread:
        searches = Searches(thread, find, in_use)
        waiting = [asyncio.ensure_future(searches.ask(QUESTION, ALLOWED)) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        more = [asyncio.ensure_future(searches.ask(QUESTION, ALLOWED)) for _ in range(MOST_AT_ONCE + 1)]
        await asyncio.wait(more, return_when=asyncio.FIRST_EXCEPTION, timeout=5)
        refused = [search for search in more if search.done()]
        assert refused
        for search in refused:
            with pytest.raises(Overloaded) as error:
                await search
            assert error.value.cause == "queue"
        in_use.release()
        for search in [*waiting, *(search for search in more if search not in refused)]:
            assert await search == []


async def test_a_short_search_of_an_index_that_nobody_uses_does_not_wait_for_its_thread():
    with ThreadPoolExecutor(1) as thread:
        busy = Event()
        thread.submit(busy.wait, 10)
        search = Searches(thread, find, Lock()).ask(QUESTION, ALLOWED, is_short=True)
        assert await asyncio.wait_for(search, 5) == []
        busy.set()


class Following(ReplicaService):
    """Covers what a test says."""

    covered = Position(0, 0)

    @property
    def applied(self) -> dict[int, Position]:
        return {0: self.covered}

    async def cover(self, ms: int) -> None:
        """Everything up to a millisecond is applied, and whoever waits has looked."""
        self.covered = Position(ms, 0)
        await self._notify()
        await asyncio.sleep(0.01)


async def test_a_read_waits_until_all_of_its_token_is_applied(tmp_path: Path):
    following = Following(cast(Client, None), 1, tmp_path, cast(Embedders, None), "reader")
    read = asyncio.create_task(following.wait_for(Token({0: Position(5, 0)}), 30))
    await asyncio.sleep(0)
    await following.cover(4)
    assert not read.done()
    await following.cover(5)
    assert read.done()
    await read


def test_entries_are_applied_in_the_order_of_the_feed(index: IndexReplica, entry: Callable[..., IndexEntry]):
    batches: list[list[FeedItem]] = [[Put(entry("mem_1", "tea"))], [Remove("mem_1")], [Put(entry("mem_2", "tea"))]]
    fields = [entry_fields(items, Position(n, 0)) for n, items in enumerate(batches, 1)]
    entries = [{name.encode(): value for name, value in field.items()} for field in fields]
    apply_steps(index, 0, steps_of(entries))
    assert list(index.ordinal_of) == ["mem_2"]


def test_folders_of_dead_processes_of_this_host_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Those of living ones stay, also of other users; so do those of other hosts."""
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    for name in ("here-1", "here-2", "here-3", "here-x", "there-1"):
        (tmp_path / name).mkdir()

    def signal(pid: int, number: int) -> None:
        if pid < 3:
            raise {1: ProcessLookupError, 2: PermissionError}[pid]

    monkeypatch.setattr(os, "kill", signal)
    assert work_folder(tmp_path) == tmp_path / f"here-{os.getpid()}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here-2", "here-3", "here-x", "there-1"]
