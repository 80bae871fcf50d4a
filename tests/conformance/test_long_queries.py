import threading

import pytest
from desk import ADA, Desk

from projections.queries import memories
from projections.queries.recall import RecallRequest
from projections.search import terms

VIEWS = memories  # registers the view of a memory


async def test_a_long_query_is_searched_by_its_rarest_terms_and_read_outside_the_event_loop(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    name = await desk.remember("The saffron is in the pantry")
    await desk.settle()
    reference, threads = terms.terms_in_python, list[str]()

    def reading(text: str) -> list[str]:
        threads.append(threading.current_thread().name)
        return reference(text)

    monkeypatch.setattr(terms, "compiled_terms", None)
    monkeypatch.setattr(terms, "terms_in_python", reading)
    query = " ".join(map("word{}".format, range(1_800)))
    answer = await desk.recall(RecallRequest(query=f"{query} saffron", min_confidence=0.0), ADA)
    assert [result.id for result in answer.results] == [name]
    assert answer.notes == ["the query has 1,801 different terms; the 64 rarest were searched"]
    assert {*threads} == {"index_0"}
