"""Which of an index's hits a recall reads."""

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from factories import observed

from ingest.ids import DocumentId
from projections.nouns.access import Reader
from projections.nouns.observation import observation
from projections.queries import recall as recall_module
from projections.queries.recall import Recall, Recalled, RecallRequest, falling
from projections.search.question import Hit


def hit(name: str, *, confidence: float | None = 0.5, repeats: Sequence[Hit] = ()) -> Hit:
    return Hit(
        id=name, partition=0, kind="observation", score=1.0, explain={}, confidence=confidence, repeats=repeats,
        answerable=0.1,
    )  # fmt: skip


SURE, UNSURE = hit("obs_sure", confidence=0.9), hit("obs_unsure", confidence=0.1)


@pytest.mark.parametrize(
    ("hits", "least", "read"),
    [
        ([SURE, UNSURE], None, ["obs_sure", "obs_unsure"]),
        ([SURE, UNSURE], 0.0, ["obs_sure", "obs_unsure"]),
        ([SURE, UNSURE], 0.5, ["obs_sure"]),
        ([SURE, hit("obs_unknown", confidence=None)], 0.5, ["obs_sure", "obs_unknown"]),
        ([hit("obs_first", repeats=[UNSURE])], 0.5, ["obs_first", "obs_unsure"]),  # it may be listed as a repeat
        ([hit("obs_first", confidence=0.1, repeats=[SURE])], 0.5, ["obs_first", "obs_sure"]),
        ([], None, []),
    ],
)
async def test_only_results_below_the_least_confidence_are_not_read(
    hits: list[Hit], least: float | None, read: list[str]
):
    names: list[str] = []

    async def search(*_: Any) -> list[Hit]:
        return hits

    async def get(locations: Sequence[tuple[int, str]]) -> list[None]:
        names.extend(name for _, name in locations)
        return [None] * len(locations)

    index = SimpleNamespace(search=search, embedder=SimpleNamespace(dimensions=0, model=""), ready=True, lag={})
    recall = Recall(cast(Any, index), cast(Any, SimpleNamespace(get=get)))
    request = RecallRequest(query="which port does the gateway use?", min_confidence=least)
    assert (await recall.found(request, Reader("acme"))).hits == []
    assert names == read
    recall.close()


@pytest.mark.parametrize(("dimensions", "confidence"), [(4, 0.0), (0, None)], ids=["by meaning, too", "words only"])
async def test_what_nothing_matches_is_probably_not_recorded_if_it_was_searched_by_meaning(
    dimensions: int, confidence: float | None
):
    async def search(*_: Any) -> list[Hit]:
        return []

    async def get(locations: Sequence[tuple[int, str]]) -> list[None]:
        return []

    def embed(texts: list[str]) -> Any:
        return np.ones((len(texts), dimensions))

    embedder = SimpleNamespace(dimensions=dimensions, model="m", embed=embed)
    index = SimpleNamespace(search=search, embedder=embedder, ready=True, lag={})
    recall = Recall(cast(Any, index), cast(Any, SimpleNamespace(get=get)))
    assert (await recall.found(RecallRequest(query="stripe_refund.py"), Reader("acme"))).confidence == confidence
    recall.close()


def test_no_result_has_a_higher_confidence_than_those_before_it():
    confidences = [0.4, 0.7, None, 0.2, 0.3]
    results = [Recalled(hit("obs_1", confidence=sure), cast(Any, None), []) for sure in confidences]
    assert [result.hit.confidence for result in falling(results)] == [0.4, 0.4, None, 0.2, 0.2]


@pytest.mark.parametrize(("chars", "in_loop"), [(200, True), (30_000, False)])
async def test_long_texts_are_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch, chars: int, in_loop: bool):
    """While they are read there, the event loop answers other requests."""
    event = observed(1, "port " * (chars // 5))
    threads: list[threading.Thread] = []

    def newest_first(recalled: list[Recalled], query: str) -> list[Recalled]:
        threads.append(threading.current_thread())
        return recalled

    async def search(*_: Any) -> list[Hit]:
        return [SURE]

    async def get(locations: Sequence[tuple[int, str]]) -> list[Any]:
        return [observation(event, cast(Any, event.data), DocumentId("ses_1"))]

    monkeypatch.setattr(recall_module, "newest_first", newest_first)
    index = SimpleNamespace(search=search, embedder=SimpleNamespace(dimensions=0, model=""), ready=True, lag={})
    recall = Recall(cast(Any, index), cast(Any, SimpleNamespace(get=get)))
    found = await recall.found(RecallRequest(query="which port?"), Reader("default"))
    assert [result.hit.id for result in found.hits] == ["obs_sure"]
    assert [thread is threading.main_thread() for thread in threads] == [in_loop]
    recall.close()
