"""What a result's confidence is where words alone tell, where nothing does, and of the question's own prompt."""

from typing import Any

import numpy as np
from indexes import T0, Filled

from projections.search.dates import NamedTime
from projections.search.index import Index
from projections.search.question import Filter, Hit, Question

READER = Filter(tenant="default")
DAY_MS = 86_400_000
DATED = "31 januari 2026"


def ask(index: Index, text: str, **fields: Any) -> list[Hit]:
    vector = np.array([0.5, 0.5, 0.5, 0.5], np.float32)
    return index.search(Question(text=text, vector=vector, now_ms=T0, **fields), READER)


async def test_a_ticket_that_nobody_mentioned_is_no_answer_whatever_looks_like_it(with_table: Filled):
    await with_table.put("mem_1", "dog car PROJ-1234 is fixed in v1.2.4 on 10.0.0.8", occurred_ms=T0)
    await with_table.embed("mem_1", [1, 1, 1, 1])
    index = await with_table.settle()
    for unsaid in ("PROJ-9999", "10.0.0.7", "v1.2.9", "3f9a77c1"):
        assert {hit.confidence for hit in ask(index, unsaid)} <= {0.0}
    for said in ("PROJ-1234", "10.0.0.8", "v1.2.4"):
        assert (ask(index, said)[0].confidence or 0) > 0.9


async def test_an_emoji_or_punctuation_is_no_question_for_everything(with_table: Filled):
    await with_table.put("mem_1", "dog bark")
    await with_table.embed("mem_1", [1, 1, 1, 1])
    index = await with_table.settle()
    for text in ("🙂", "?!", "—"):
        assert {hit.confidence for hit in ask(index, text)} <= {0.0}


async def test_of_documents_in_a_language_that_the_table_does_not_know_confidence_is_not_known(with_table: Filled):
    await with_table.put("mem_1", "der hund bellt die ganze nacht dog")
    index = await with_table.settle()
    assert [hit.confidence for hit in ask(index, "dog")] == [None]
    for n in (2, 3):
        await with_table.put(f"mem_{n}", f"dog bark car dog bark {DATED}")
    assert all(hit.confidence is not None for hit in ask(await with_table.settle(), "dog"))


async def test_the_prompt_that_asks_is_neither_found_nor_counts_as_having_said_it(with_table: Filled):
    """In any ranking and mode; what it says is a slip still, and its neighbors do not say it either."""
    await with_table.put("mem_1", "the car engine")
    before = ask(await with_table.settle(), "dog bark unicorn")
    for n, trait in enumerate(("+prompt", "+user")):
        session: dict[str, Any] = {"episode": "ses_1", "session_id": "ses_1", "partition": 1}
        await with_table.put(f"obs_{n}1", "", terms=f"dog bark unicorn pleas {trait} {DATED}", **session)
        await with_table.put(f"obs_{n}2", "", terms=f"dog bark unicorn is pink {trait} {DATED}", tenant="other")
    index = await with_table.settle()
    for mode in ("hybrid", "lexical", "vector"):
        for ranking in ("fused", "similarity", "rrf"):
            found = ask(index, "dog bark unicorn", mode=mode, ranking=ranking)
            assert not any(hit.id.startswith("obs") for hit in found)
    assert {hit.id for hit in ask(index, "dog bark")} == {"obs_01", "obs_11", "mem_1"}, "a look-up finds prompts"
    assert [hit.confidence for hit in ask(index, "dog bark unicorn")] == [hit.confidence for hit in before]


async def test_a_prompt_that_states_a_fact_beside_the_question_is_found(with_table: Filled):
    await with_table.put("obs_1", "", terms=f"dog bark unicorn pink +prompt {DATED}")
    assert [hit.id for hit in ask(await with_table.settle(), "dog bark unicorn")] == ["obs_1"]


async def test_what_occurred_in_the_named_time_says_the_words_for_it(with_table: Filled):
    """Without that, a question of few other words is withheld: half of what it asks seems not to be said."""
    await with_table.put("mem_then", f"the dog bark {DATED}", occurred_ms=T0)
    index = await with_table.settle()
    named = NamedTime(T0, T0 + DAY_MS, "dog unicorn", False)
    inside = ask(index, "dog unicorn yesterday morning", named=named)
    outside = ask(index, "dog unicorn yesterday morning", named=named._replace(from_ms=0, to_ms=1))
    assert [hit.id for hit in inside] == [hit.id for hit in outside] == ["mem_then"]
    assert (inside[0].confidence or 0) > (outside[0].confidence or 0)
