"""What changes between being found and being read."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from indexes import Filled, entry_of, opens_on_engine
from msgspec.structs import replace

from projections.search.index import DocumentLocation
from projections.search.question import Filter, Question
from projections.search_engine.engine import Engine
from projections.search_engine.layout import PartitionIndex, packed

ALLOWED = Filter(tenant="default")


def remove(engine: Engine, key: str) -> None:
    engine.ask([["UNLINK", key]])


def hide(engine: Engine, key: str) -> None:
    engine.ask([["HSET", key, "x", packed(replace(entry_of("obs_2", ""), audience=["eve"]))]])


@pytest.mark.parametrize("change", [remove, hide])
@pytest.mark.parametrize("ranking", ["fused", "similarity", "rrf"])
async def test_what_is_removed_or_hidden_between_being_found_and_being_read_is_no_hit(
    engine_url: str, monkeypatch: pytest.MonkeyPatch, change: Callable[[Engine, str], None], ranking: Any
):
    read = Engine.read

    def late(
        engine: Engine, index: str, places: Sequence[DocumentLocation], key_scope: int
    ) -> list[tuple[int, list[Any]]]:
        change(engine, PartitionIndex(index, 0).document("obs_2"))
        return read(engine, index, places, key_scope)

    monkeypatch.setattr(Engine, "read", late)
    async with opens_on_engine(engine_url)(None) as filled:
        await fill(filled)
        asked = Question(text="tea", vector=np.asarray([1, 0, 0, 0], np.float32), ranking=ranking)
        assert [hit.id for hit in (await filled.settle()).search(asked, ALLOWED)] == ["obs_1"]


async def fill(filled: Filled) -> None:
    for name in ("obs_1", "obs_2"):
        await filled.put(name, "tea", episode="s")
        await filled.embed(name, [1, 0, 0, 0])
