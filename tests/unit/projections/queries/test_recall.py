"""Which of an index's hits a recall reads."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from projections.documents.access import Reader
from projections.queries.recall import Recall, RecallRequest
from projections.search.question import Hit


def hit(name: str, *, likely: bool = True, confidence: float = 0.5, repeats: Sequence[Hit] = ()) -> Hit:
    return Hit(
        id=name, partition=0, kind="observation", score=1.0, explain={}, likely=likely, confidence=confidence,
        repeats=repeats, answerable=0.9,
    )  # fmt: skip


SURE, UNSURE = hit("obs_sure", confidence=0.9), hit("obs_unsure", likely=False, confidence=0.1)


@pytest.mark.parametrize(
    ("hits", "least", "read"),
    [
        ([SURE, UNSURE], None, ["obs_sure"]),
        ([SURE, UNSURE], 0.0, ["obs_sure", "obs_unsure"]),
        ([SURE, UNSURE], 0.5, ["obs_sure"]),
        ([hit("obs_first", repeats=[UNSURE])], None, ["obs_first", "obs_unsure"]),  # it may be listed as a repeat
        ([hit("obs_first", likely=False, repeats=[SURE])], None, ["obs_first", "obs_sure"]),
        ([], None, []),
    ],
)
async def test_what_is_not_returned_is_not_read(hits: list[Hit], least: float | None, read: list[str]):
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
