import threading
from typing import Any

import pytest
from desk import ADA, Desk
from factories import PROJECT

from projections.queries import memories
from projections.queries.recall import RecallRequest
from projections.search import terms as module

VIEWS = memories  # registers the view of a memory
WORDS = " ".join(f"word{number}" for number in range(2_500))


async def test_a_long_query_says_how_many_of_its_terms_were_searched(desk: Desk):
    name = await desk.remember("The saffron is in the pantry")
    await desk.settle()
    answer = await desk.recall(RecallRequest(query=f"{WORDS[:15_000]} saffron", min_confidence=0.0), ADA)
    assert [result.id for result in answer.results] == [name]
    assert answer.notes == ["the query has 1,791 different terms; the 64 rarest were searched"]
    short = await desk.recall(RecallRequest(query=f"{WORDS[:400]} saffron", min_confidence=0.0), ADA)
    assert short.notes == []


async def test_a_long_query_is_read_outside_the_event_loop(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    await desk.remember("word1 word2", project=PROJECT)
    await desk.settle()
    read = list[tuple[int, threading.Thread]]()
    compiled: Any = module.compiled_terms

    class Recording:
        @staticmethod
        def of(text: str) -> list[str]:
            read.append((len(text), threading.current_thread()))
            return compiled.of(text) if compiled else module.terms_in_python(text)

    monkeypatch.setattr(module, "compiled_terms", Recording)
    query = f"{WORDS[:19_000]} what was decided about tea on Tuesday?"
    await desk.recall(RecallRequest(query=query), ADA)
    (thread,) = [thread for length, thread in read if length > 1_000]  # read once
    assert thread is not threading.main_thread()
