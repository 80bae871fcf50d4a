"""What a search finds, by each ranking and mode. How rankings weigh, the unit tests of projections/search tell."""

from typing import Any, get_args

import numpy as np
import pytest
from indexes import T0, Filled, vectors_of

from projections.index.protocol import Index
from projections.search import search as searching
from projections.search.question import UNCERTAIN_FROM, Filter, Hit, Question, Ranking
from projections.text.cues import PROMPT, TOOL_OUTPUT
from projections.text.dates import NamedTime

ANYTHING = Filter(tenant="default", now_ms=T0)
TEA = np.asarray([1, 0, 0, 0], np.float32)
RANKINGS = get_args(Ranking)
DAY = 86_400_000
SAID = "Deploys go out on Tuesdays and Thursdays after the meeting at ten"


def search(index: Index, text: str = "tea", allowed: Filter = ANYTHING, **fields: Any) -> list[Hit]:
    given: dict[str, Any] = {"vector": None, "now_ms": T0, "limit": 50, **fields}
    return index.search(Question(text=text, **given), allowed)


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


@pytest.mark.parametrize("ranking", RANKINGS)
async def test_an_empty_index_finds_nothing(with_table: Filled, ranking: Ranking):
    index = await with_table.settle()
    for mode in ("hybrid", "lexical", "vector"):
        assert search(index, "dogs", mode=mode, vector=TEA, ranking=ranking) == []


@pytest.mark.parametrize("ranking", ["fused", "rrf"])
async def test_each_mode_uses_its_own_leg(filled: Filled, ranking: Ranking):
    await filled.put("mem_word", "tea")
    await filled.put("mem_near", "a hot drink")
    await filled.put("mem_far", "a train")
    await filled.embed("mem_near", [1, 0.1, 0, 0])
    await filled.embed("mem_far", [0, 1, 0, 0])
    index = await filled.settle()
    query = {
        mode: ids(search(index, "where is the tea?", vector=TEA, mode=mode, ranking=ranking))
        for mode in ("hybrid", "lexical", "vector")
    }
    assert query["lexical"] == ["mem_word"]
    assert query["vector"] == ["mem_near", "mem_far"]
    assert {*query["hybrid"]} == {"mem_word", "mem_near", "mem_far"}


async def test_without_a_query_vector_words_decide(filled: Filled):
    await filled.put("mem_1", "tea")
    await filled.put("mem_2", "coffee")
    await filled.embed("mem_1", [1, 0, 0, 0])
    index = await filled.settle()
    for vector in (None, np.empty(0, np.float32)):
        assert ids(search(index, vector=vector)) == ["mem_1"]
        assert search(index, vector=vector, mode="vector") == []


@pytest.mark.parametrize("ranking", RANKINGS)
async def test_a_document_is_found_by_meaning_before_its_vectors_are_made(with_table: Filled, ranking: Ranking):
    for name, text in (("obs_1", "the puppy"), ("obs_2", "an engine"), ("obs_3", "nothing of that")):
        await with_table.put(name, text)
    index = await with_table.settle()
    assert ids(search(index, "dogs", mode="vector", ranking=ranking))[0] == "obs_1"
    assert ids(search(index, "cars", mode="vector", ranking=ranking))[0] == "obs_2"


async def test_the_models_vectors_outweigh_the_static_ones(with_table: Filled):
    await with_table.put("obs_1", "the puppy")
    await with_table.put("obs_2", "an engine")
    await with_table.apply(0, vectors_of("obs_1", [0, 1, 0, 0]), vectors_of("obs_2", [0, 1, 0, 0], [1, 0, 0, 0]))
    hits = search(await with_table.settle(), "dogs", vector=TEA, mode="vector")
    assert [(hit.id, hit.explain["cosine"]) for hit in hits] == [("obs_2", 1.0), ("obs_1", 0.0)]


async def test_a_document_without_vectors_is_found_by_its_words(filled: Filled):
    await filled.put("mem_new", "green tea")
    await filled.put("mem_old", "tea with milk")
    await filled.embed("mem_old", [1, 0, 0, 0])
    index = await filled.settle()
    for ranking in RANKINGS:
        assert {*ids(search(index, "green tea", vector=TEA, ranking=ranking))} == {"mem_new", "mem_old"}
    (new,) = (hit for hit in search(index, "green tea", vector=TEA) if hit.id == "mem_new")
    assert "cosine" not in new.explain


async def test_vectors_of_another_model_or_length_or_document_are_passed_over(filled: Filled):
    await filled.put("mem_1", "tea")
    await filled.apply(0, vectors_of("mem_1", [1, 0, 0, 0], model="other"))
    await filled.apply(0, vectors_of("mem_1", [1, 0, 0]), vectors_of("mem_2", [1, 0, 0, 0]))
    index = await filled.settle()
    assert search(index, vector=TEA, mode="vector") == []
    assert index.with_vectors(["mem_1", "mem_2"]) == set()


async def test_another_text_drops_the_vectors_and_the_same_text_keeps_them(filled: Filled):
    await filled.put("lsn_1", "green tea")
    await filled.embed("lsn_1", [1, 0, 0, 0])
    await filled.put("lsn_1", "green tea", confidence=0.5, tags=["a"])
    (hit,) = search(await filled.settle(), vector=TEA, mode="vector")
    assert (hit.explain["cosine"], hit.explain["confidence"]) == (1, 0.5)
    await filled.put("lsn_1", "black coffee")
    index = await filled.settle()
    assert search(index, vector=TEA, mode="vector") == search(index, "green") == []
    assert ids(search(index, "coffee")) == ["lsn_1"]
    assert (len(index), index.with_vectors(["lsn_1"])) == (1, set())


async def test_neighbours_in_an_episode_come_along_when_they_match(filled: Filled):
    documents: list[tuple[str, str, dict[str, Any]]] = [
        ("obs_1", "we drank tea", {"episode": "s"}),
        ("obs_2", "at four", {"episode": "s"}),
        ("obs_3", "as always", {"episode": "s"}),
        ("obs_4", "elsewhere", {"episode": "t"}),
        ("obs_5", "drank coffee", {"episode": "u", "agent_id": "ada"}),
        ("obs_6", "from another", {"episode": "u", "agent_id": "bob"}),
        ("obs_7", "of another tenant", {"episode": "u", "tenant": "other"}),
        ("mem_1", "outside of any", {}),
    ]
    for name, text, fields in documents:
        await filled.put(name, text, **fields)
    index = await filled.settle()
    assert {*ids(search(index, "where is the tea?"))} == {"obs_1", "obs_2"}
    assert {*ids(search(index, "where is the coffee?"))} == {"obs_5", "obs_6"}
    assert ids(search(index, "where is the coffee?", Filter(tenant="default", now_ms=T0, agent_id="ada"))) == ["obs_5"]


async def test_those_beside_a_removed_document_become_neighbours(filled: Filled):
    for n, text in enumerate(("tea", "one", "two", "three", "four")):
        await filled.put(f"obs_{n}", text, episode="s")
    await filled.remove("obs_1", "obs_2")
    assert {*ids(search(await filled.settle(), "where is the tea?"))} == {"obs_0", "obs_3"}


async def test_a_document_with_another_text_keeps_its_place_in_its_episode(filled: Filled):
    for n in range(3):
        await filled.put(f"obs_{n}", f"word{n}", episode="s")
    await filled.put("obs_1", "tea", episode="s")
    assert {*ids(search(await filled.settle(), "where is the tea?"))} == {"obs_0", "obs_1", "obs_2"}
    await filled.put("obs_0", "coffee", episode="s")
    assert {*ids(search(await filled.settle(), "where is the coffee?"))} == {"obs_0", "obs_1"}


async def test_a_misspelled_word_finds_what_was_meant_among_what_may_be_found(filled: Filled):
    await filled.put("mem_1", "We write TypeScript with strict rules.")
    await filled.put("mem_2", "Kubernetes runs it.", tenant="other")
    index = await filled.settle()
    for text, terms in (("typsecript", ["typescript"]), ("typescirpt", ["typescript"]), ("typescrit", ["typescript"])):
        assert [(hit.id, [*hit.terms]) for hit in search(index, text)] == [("mem_1", terms)]
    assert search(index, "kuberentes") == []
    assert ids(search(index, "kuberentes", Filter(tenant="other", now_ms=T0))) == ["mem_2"]


async def test_what_says_nearly_the_same_is_one_hit_when_it_is_to_be_folded(filled: Filled):
    for n in (1, 2, 3):
        await filled.put(f"mem_{n}", f"{SAID} 3 march {n}")
    await filled.put("mem_4", "The cart is empty. 3 march 4")
    index = await filled.settle()
    folded = search(index, "when do deploys go out?", fold=True)
    assert [(hit.id, ids([*hit.repeats])) for hit in folded if hit.repeats] == [("mem_1", ["mem_2", "mem_3"])]
    assert {"mem_1", "mem_2", "mem_3"} <= {*ids(search(index, "when do deploys go out?"))}
    counted = search(index, "how many deploys go out?", fold=True)
    assert {"mem_1", "mem_2", "mem_3"} <= {*ids(counted)}, "of what is counted, repeats count"


async def test_confidence_says_whether_anything_is_an_answer(with_table: Filled):
    await with_table.put("mem_1", "The dog barks at every car.")
    await with_table.put("mem_2", "An engine needs oil.")
    index = await with_table.settle()
    sure, unsure = search(index, "which dog barks?"), search(index, "holiday refunds of passengers with dogs")
    assert sure[0].id == "mem_1"
    assert (sure[0].confidence or 0) > UNCERTAIN_FROM > (unsure[0].confidence or 0) > 0


async def test_confidence_is_not_known_without_static_vectors(filled: Filled):
    await filled.put("mem_1", "tea")
    assert [hit.confidence for hit in search(await filled.settle())] == [None]


async def test_equal_scores_are_ordered_by_id_whatever_came_first(filled: Filled):
    names = [f"mem_{n:02d}" for n in range(60)]
    for name in np.random.default_rng(3).permutation(names).tolist():
        await filled.put(name, "tea")
        await filled.embed(name, [1, 0, 0, 0])
    index = await filled.settle()
    for ranking in RANKINGS:
        for limit in (0, 1, 30, 60):
            assert ids(search(index, vector=TEA, limit=limit, shown=60, ranking=ranking)) == names[:limit]


@pytest.mark.parametrize("allowed", [{}, {"operator": True}, {"any_of": [("tag", "rare"), ("project", "atlas")]},
                                     {"reader": "ada", "projects": ["atlas", "rare"]}])  # fmt: skip
async def test_only_what_a_document_says_decides_which_are_candidates(
    filled: Filled, monkeypatch: pytest.MonkeyPatch, allowed: dict[str, Any]
):
    """Not how rare its project is, nor its tags."""
    monkeypatch.setattr("projections.search.search.CANDIDATES", 2)
    monkeypatch.setattr("projections.search.candidates.STATIC_CANDIDATES", 2)
    for n in range(40):
        await filled.put(
            f"mem_{n:02d}", "coffee with very many other words in it" if n else "tea tea tea", tags=["often"]
        )
    await filled.put("mem_rare", "tea and very much else that makes it a worse match than the other", tags=["rare"],
                     agent_id="rare", user_id="rare")  # fmt: skip
    await filled.put("mem_more", "tea tea and a little else")
    index = await filled.settle()
    given: dict[str, Any] = {"tenant": "default", "now_ms": T0, **allowed}
    assert {*ids(search(index, "tea", Filter(**given)))} == {"mem_00", "mem_more"}


async def test_a_hit_says_where_and_what_it_is(filled: Filled):
    for name, kind in (("obs_1", "observation"), ("mem_1", "memory"), ("lsn_1", "lesson"), ("sum_1", "summary")):
        await filled.put(name, f"tea {kind}", partition=3)
    index = await filled.settle()
    for name, kind in (("obs_1", "observation"), ("mem_1", "memory"), ("lsn_1", "lesson"), ("sum_1", "summary")):
        (first, *_) = search(index, kind)
        assert (first.id, first.kind, first.partition) == (name, kind, 3)


async def test_a_half_life_prefers_what_is_recent(filled: Filled):
    await filled.put("mem_old", "tea tea", occurred_ms=T0 - 365 * DAY)
    await filled.put("mem_new", "tea milk", occurred_ms=T0)
    index = await filled.settle()
    assert ids(search(index)) == ["mem_old", "mem_new"]
    assert ids(search(index, half_life_days=1.0, alpha=0.3)) == ["mem_new", "mem_old"]


@pytest.mark.parametrize("ranking", RANKINGS)
async def test_nothing_that_was_removed_or_hidden_is_found(with_table: Filled, ranking: Ranking):
    await with_table.put("obs_1", "the puppy", episode="s")
    await with_table.put("obs_2", "a dog", episode="s")
    await with_table.embed("obs_2", [1, 0, 0, 0])
    await with_table.remove("obs_2")
    for mode in ("hybrid", "lexical", "vector"):
        hits = search(await with_table.settle(), "dog", vector=TEA, mode=mode, ranking=ranking)
        assert "obs_2" not in ids(hits)
    await with_table.put("obs_1", "the puppy", episode="s", retired_ms=1)
    assert search(await with_table.settle(), "dog", vector=TEA, ranking=ranking) == []


async def test_a_named_time_lifts_what_occurred_then_or_says_so(filled: Filled):
    named = NamedTime(T0, T0 + DAY, "tea", False, [["2", "januari", "2026"]])
    for days in range(-3, 4):
        await filled.put(f"obs_{days}", "tea", terms="tea 3 4 5 1 decemb 2025", occurred_ms=T0 + days * DAY)
    await filled.put("obs_about", "", terms="tea 2 januari 2026 1 decemb 2025", occurred_ms=T0 + 5 * DAY)
    await filled.put("obs_dated", "", terms="tea 3 4 5 2 januari 2026", occurred_ms=T0 + 6 * DAY)
    index = await filled.settle()
    results = ids(search(index, "tea", named=named))
    assert {*results[:2]} == {"obs_0", "obs_about"}, "the last three terms are a document's own date"
    assert len(results) == 9, "the others are found, too"


async def test_what_occurred_in_a_named_time_is_found_among_many_others(filled: Filled):
    await filled.put("obs_then", "green tea with milk", occurred_ms=T0)
    for number in range(150):
        await filled.put(f"obs_{number}", "green tea", occurred_ms=T0 - DAY)
    index = await filled.settle()
    named = NamedTime(T0, T0 + DAY, "green tea", False)
    assert "obs_then" not in ids(search(index, "green tea"))
    assert "obs_then" in ids(search(index, "green tea", named=named))


async def test_a_question_of_a_time_alone_lists_it_by_importance_statements_first(filled: Filled):
    await filled.put("obs_early", "one", occurred_ms=T0)
    await filled.put("obs_late", "two", occurred_ms=T0 + 5)
    await filled.put("obs_tool", "", terms=f"three {TOOL_OUTPUT}", occurred_ms=T0 + 6)
    await filled.put("obs_prompt", "", terms=f"four {PROMPT}", occurred_ms=T0 + 7)
    await filled.put("obs_vital", "five", occurred_ms=T0 + 1, importance=9.0)
    await filled.put("obs_after", "six", occurred_ms=T0 + DAY, importance=9.0)
    await filled.put("obs_before", "seven", occurred_ms=T0 - 1)
    index = await filled.settle()
    hits = search(index, "what did we do?", named=NamedTime(T0, T0 + DAY, "what did we do?", True))
    assert ids(hits) == ["obs_vital", "obs_late", "obs_early", "obs_prompt", "obs_tool"]
    assert {hit.confidence for hit in hits} == {None}
    assert ids(search(index, "", Filter(tenant="other", now_ms=T0), named=NamedTime(T0, T0 + DAY, "", True))) == []


async def test_of_a_long_time_the_important_are_listed_before_the_newest(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(searching, "LISTED", 3)
    for number in range(8):
        await filled.put(
            f"obs_{number}", f"word{number}", occurred_ms=T0 + number, importance=8.0 if number == 1 else 5.0
        )
    index = await filled.settle()
    hits = search(index, "", named=NamedTime(T0, T0 + DAY, "", True))
    assert ids(hits) == ["obs_1", "obs_7", "obs_6", "obs_5"]


READER = Filter(tenant="default", now_ms=T0)
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
        assert ask(index, unsaid) == []
    for text in ("PROJ-1234", "10.0.0.8", "v1.2.4"):
        assert (ask(index, text)[0].answerable or 0) > 0.9


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
            results = ask(index, "dog bark unicorn", mode=mode, ranking=ranking)
            assert not any(hit.id.startswith("obs") for hit in results)
    assert {hit.id for hit in ask(index, "dog bark")} == {"obs_01", "obs_11"}, "a look-up finds prompts"
    assert [hit.confidence for hit in ask(index, "dog bark unicorn")] == [hit.confidence for hit in before]


async def test_a_prompt_that_states_a_fact_beside_the_question_is_found(with_table: Filled):
    await with_table.put("obs_1", "", terms=f"dog bark unicorn pink +prompt {DATED}")
    assert [hit.id for hit in ask(await with_table.settle(), "dog bark unicorn")] == ["obs_1"]


async def test_what_occurred_in_the_named_time_says_the_words_for_it(with_table: Filled):
    """Without that, a question of few other words is withheld: half of what it asks seems not to be said."""
    await with_table.put("mem_then", f"the dog bark {DATED}", occurred_ms=T0)
    index = await with_table.settle()
    named = NamedTime(T0, T0 + DAY_MS, "dog unicorn", False)
    inside = ask(index, "the dog unicorn yesterday morning", named=named)
    outside = ask(index, "the dog unicorn yesterday morning", named=named._replace(from_ms=0, to_ms=1))
    assert [hit.id for hit in inside] == [hit.id for hit in outside] == ["mem_then"]
    assert (inside[0].confidence or 0) > (outside[0].confidence or 0)
