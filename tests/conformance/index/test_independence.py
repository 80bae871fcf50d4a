"""An answer is a function of the documents that its reader can read: others change no id, score or confidence."""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from indexes import T0, Filled

from projections.search.index import Index
from projections.search.question import Filter, Hit, Question

WORDS = [
    "dog", "puppi", "bark", "car", "engin", "checkout", "webhook", "retri", "stripe", "lemon", "tea", "port", "6380",
    "deploy", "friday",
]  # fmt: skip
OWN = 40
READER = Filter(tenant="default", project="atlas", within=["atlas"], reader="ada")
UNREADABLE: dict[str, dict[str, Any]] = {
    "another tenant": {"tenant": "other"},
    "another project": {"project": "zeus"},
    "private memories": {"audience": ["eve"]},
}
QUESTIONS = (
    "checkout webhook retri", "which port did stripe use", "dog bark", "why did the deploy fail on friday",
    "chekcout webhok", "unicorn", "webhook",
)  # fmt: skip
"""With words that all say, that few say, that none says, and with slips."""


async def write(filled: Filled, seed: int, count: int, **fields: Any) -> None:
    random = Random(seed)
    for n in range(count):
        name, text = f"mem_{seed}{n:04d}", " ".join(random.choices(WORDS, k=random.randrange(2, 12)))
        await filled.put(name, text, partition=n % 2, recorded_ms=T0 + n, **fields)
        if n % 3:
            await filled.embed(name, [random.random() for _ in range(4)], partition=n % 2)


def answers(index: Index) -> dict[tuple[str, str, str], Sequence[Hit]]:
    vector = np.array([0.5, 0.5, 0.5, 0.5], np.float32)
    return {
        (text, mode, ranking): index.search(
            Question(text=text, vector=vector, mode=mode, ranking=ranking, limit=20, now_ms=T0, fold=True), READER
        )
        for text in QUESTIONS
        for mode in ("hybrid", "lexical", "vector")
        for ranking in ("fused", "similarity", "rrf")
    }


@pytest.mark.parametrize("whose", UNREADABLE)
async def test_documents_that_a_reader_cannot_read_change_nothing_of_its_answers(with_table: Filled, whose: str):
    await write(with_table, 1, OWN)
    before = answers(await with_table.settle())
    assert sum(map(len, before.values())) > 100
    for seed, count in ((2, 1), (3, 1), (4, 8), (5, 90)):
        await write(with_table, seed, count, **UNREADABLE[whose])
        await with_table.put(f"mem_{seed}x", "unicorn chekcout webhok " * 9, **UNREADABLE[whose])
        index = await with_table.settle()
        assert answers(index) == before
        assert index.counts(READER, T0, "project") == {"atlas": OWN}
        assert index.linked_values(READER, T0, "project", 9) == ["atlas"]


async def test_a_slip_is_corrected_to_the_readers_words_however_many_others_say_like_ones(with_table: Filled):
    for n in range(120):
        await with_table.put(f"mem_1{n:03d}", "checkouts checkouty chekcout", audience=["eve"])
    await with_table.put("mem_2", "the checkout is slow")
    index = await with_table.settle()
    (hit,) = index.search(Question(text="chekcout", vector=None, mode="lexical", now_ms=T0), READER)
    assert (hit.id, list(hit.terms)) == ("mem_2", ["checkout"])
