"""Searches wait for the thread of the index, and not too many of them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from ingest.errors import Overloaded
from projections.search.question import Filter, Hit, Question
from projections.search.waiting import MAX_WAITING, MOST_AT_ONCE, Searches

QUESTION, ALLOWED = Question(text="tea", vector=None), Filter(tenant="acme")


async def test_one_search_too_many_is_refused_and_those_that_wait_are_answered():
    go_on = Event()

    def search(question: Question, allowed: Filter) -> list[Hit]:
        go_on.wait()
        return []

    with ThreadPoolExecutor(1) as thread:
        searches = Searches(thread, search)
        waiting = [asyncio.ensure_future(searches.ask(QUESTION, ALLOWED)) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        more = [asyncio.ensure_future(searches.ask(QUESTION, ALLOWED)) for _ in range(MOST_AT_ONCE + 1)]
        await asyncio.wait(more, return_when=asyncio.FIRST_EXCEPTION, timeout=5)
        refused = [one for one in more if one.done()]
        assert refused
        for one in refused:
            with pytest.raises(Overloaded) as fault:
                await one
            assert fault.value.cause == "queue"
        go_on.set()
        for one in [*waiting, *(one for one in more if one not in refused)]:
            assert await one == []
