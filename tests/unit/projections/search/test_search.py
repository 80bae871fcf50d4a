from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from projections.index import embedded
from projections.index.embedded import search
from projections.index.replica import IndexReplica
from projections.nouns.document import IndexEntry
from projections.search import search as module
from projections.search.question import MAX_QUERY_TERMS, MOST_COUNTED, Filter, Hit, Question
from projections.search.ranking import GROUPS, Mode
from projections.store import feed
from projections.store.feed import Remove
from projections.text.cues import PROMPT, asks_parts
from projections.text.dates import LONGEST_QUESTION, NamedTime
from projections.text.terms import terms
from projections.vectors import columns
from projections.vectors.columns import hashed

Put = Callable[..., str]
Embed = Callable[..., None]
T0 = 1_769_860_800_000
DAY = 86_400_000
ANYTHING = Filter(tenant="default", now_ms=T0)
TEA = np.asarray([1, 0, 0, 0], np.float32)


def ask(text: str = "tea", *, vector: Any = None, **fields: Any) -> Question:
    given: dict[str, Any] = {"now_ms": T0, **fields}
    return Question(text=text, vector=vector, **given)


def found(index: IndexReplica, text: str = "tea", **allowed: Any) -> set[str]:
    """The ids found for a text under a filter."""
    given: dict[str, Any] = {"tenant": "default", "now_ms": T0, **allowed}
    return {hit.id for hit in search(index, ask(text, limit=100), Filter(**given))}


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


def test_tenants_do_not_see_each_other_by_vector(index: IndexReplica, put: Put, embed: Embed):
    for tenant in ("default", "other"):
        embed(put(f"mem_{tenant}", "green tea", tenant=tenant), [1, 0, 0, 0])
    for mode in ("hybrid", "vector"):
        assert ids(search(index, ask(mode=mode, vector=TEA), ANYTHING)) == ["mem_default"]


def test_another_agent_with_the_same_text_is_its_author(index: IndexReplica, put: Put):
    put("mem_1", "tea", agent_id="ada")
    put("mem_1", "tea", agent_id="bob", occurred_ms=T0 + 1)
    assert index.authors[index.author[0]] == "bob"
    assert found(index, from_ms=T0 + 1) == {"mem_1"}


def test_restricting_a_memory_hides_it_at_once(index: IndexReplica, put: Put, embed: Embed):
    embed(put("mem_1", "tea"), [1, 0, 0, 0])
    put("mem_1", "tea", audience=["ada"])
    for mode in ("hybrid", "lexical", "vector"):
        assert search(index, ask(mode=mode, vector=TEA), ANYTHING) == []
        assert ids(search(index, ask(mode=mode, vector=TEA), replace(ANYTHING, reader="ada"))) == ["mem_1"]
    put("mem_1", "tea", audience=[])
    assert found(index) == {"mem_1"}


def test_a_removed_document_leaves_nothing_behind_to_be_read(index: IndexReplica, put: Put):
    put("mem_1", "secret tea")
    held = index.terms[0]
    assert held.any()
    index.apply(0, [Remove("mem_1")])
    assert "mem_1" not in index.ids
    assert not held.any()
    assert index.facets.dump() == {}


def test_those_beside_a_removed_document_become_neighbours(index: IndexReplica, put: Put):
    """As in an index that never had it."""
    for n in range(5):
        put(f"obs_{n}", f"turn {n}", episode="s")
    index.apply(0, [Remove("obs_1"), Remove("obs_2")])
    assert index.later[0] == index.ordinal_of["obs_3"]
    assert index.sequence.values[[0, 3, 4]].tolist() == [0, 1, 2]
    index.apply(0, [Remove(f"obs_{n}") for n in (0, 3, 4)])
    assert index.episodes == [[]]


def test_a_document_with_another_text_keeps_its_place_in_its_session(index: IndexReplica, put: Put):
    for n in range(3):
        put(f"obs_{n}", f"turn {n}", episode="s")
    put("obs_1", "compressed", episode="s")
    assert (index.later[0], index.earlier[2]) == (index.ordinal_of["obs_1"],) * 2
    assert index.sequence.values[[0, 2]].tolist() == [0, 2]
    put("obs_1", "moved", episode="t")
    assert (index.later[0], index.earlier[2]) == (2, 0)


def test_a_word_finds_only_documents_that_say_it_unless_none_does(index: IndexReplica, put: Put, embed: Embed):
    put("mem_word", "a train with tea")
    embed(put("mem_near", "a hot drink"), [1, 0.1, 0, 0])
    assert ids(search(index, ask("tea", vector=TEA), ANYTHING)) == ["mem_word"]
    assert ids(search(index, ask("beverage", vector=TEA), ANYTHING)) == ["mem_near"]


@pytest.mark.parametrize("query", ["stripe_refund.py", "src/payments/refund.py", "docker-compose.yml", "prod-us"])
def test_a_name_that_was_never_said_finds_no_other_name(index: IndexReplica, put: Put, embed: Embed, query: str):
    embed(put("mem_1", "src/payments/stripe_webhook.py verifies signatures"), TEA)
    embed(put("mem_2", "prod-eu runs Redis"), TEA)
    assert search(index, ask(query, vector=TEA), ANYTHING) == []


@pytest.mark.parametrize("query", ["stripe_webhook.py", "stripe webhook", "stripe_webhok.py", "stripe_refund.py docs"])
def test_a_name_that_was_said_or_is_one_of_several_words_finds_it(
    index: IndexReplica, put: Put, embed: Embed, query: str
):
    embed(put("mem_1", "src/payments/stripe_webhook.py verifies signatures"), TEA)
    assert ids(search(index, ask(query, vector=TEA), ANYTHING)) == ["mem_1"]


def test_a_remark_on_a_time_finds_only_what_has_to_do_with_the_rest_of_it(index: IndexReplica, put: Put, embed: Embed):
    embed(put("mem_1", "Money is stored as integer cents", occurred_ms=1_500), [0.2, 1, 0, 0])
    embed(put("mem_2", "It rained on the bicycles", occurred_ms=1_500), [1, 0, 0, 0])
    today = NamedTime(1_000, 2_000, rest="nice weather", only=False)
    assert ids(search(index, ask("nice weather today", vector=TEA, named=today), ANYTHING)) == ["mem_2"]


def test_a_question_of_nothing_but_punctuation_is_answered_by_vectors(index: IndexReplica, put: Put, embed: Embed):
    embed(put("mem_1", "tea"), [1, 0, 0, 0])
    assert ids(search(index, ask("?!", vector=TEA), ANYTHING)) == ["mem_1"]
    assert search(index, ask("?!"), ANYTHING) == []


def test_the_limit_bounds_and_does_not_reorder(index: IndexReplica, put: Put):
    for n in range(20):
        put(f"mem_{n:02d}", "tea " * (n % 7 + 1) + "milk " * n)
    everything = ids(search(index, ask(limit=100), ANYTHING))
    assert len(everything) == 20
    for limit in (0, 1, 5, 20):
        assert ids(search(index, ask(limit=limit), ANYTHING)) == everything[:limit]


@pytest.mark.parametrize(
    ("text", "asks"), [("the date, the budget, and the owner", True), ("the date and owner", False)]
)
def test_only_a_list_of_three_asks_for_parts(text: str, asks: bool):
    assert bool(asks_parts(f"What are {text} of Atlas?")) == asks


def test_of_equally_good_documents_those_for_other_parts_of_a_question_come_first(index: IndexReplica, put: Put):
    for number in range(3):
        put(f"mem_0{number}", f"Atlas has an owner and a budget, number {number}")
        put(f"mem_1{number}", f"Atlas has a release date, number {number}")
    put("mem_lunch", "lunch at Atlas")
    parts = search(index, ask("owner of Atlas, budget of Atlas, and release date of Atlas", limit=3), ANYTHING)
    assert ids(parts) == ["mem_00", "mem_10", "mem_01"]
    no_list = search(index, ask("owner of Atlas budget of Atlas and release date of Atlas", limit=3), ANYTHING)
    assert ids(no_list) == ["mem_00", "mem_01", "mem_02"]


def test_documents_for_the_parts_of_a_question_come_in_order_of_falling_scores(index: IndexReplica, put: Put):
    for number in range(9):
        put(f"mem_{number}", f"the Atlas release {'date ' * (number % 3)}moved {number} times")
    put("mem_budget", "Atlas has a budget of ten")
    put("mem_owner", "Mia is the owner of Atlas")
    hits = search(index, ask("release date of Atlas, budget of Atlas, and owner of Atlas", limit=5), ANYTHING)
    scores = [hit.score for hit in hits]
    assert len(hits) == 5
    assert scores == sorted(scores, reverse=True)


def test_scores_fall_and_say_how_they_came_about(index: IndexReplica, put: Put, embed: Embed):
    for n in range(5):
        embed(put(f"mem_{n}", "tea " * (n + 1) + "milk"), [1, n, 0, 0])
    hits = search(index, ask(vector=TEA, half_life_days=30.0, explain=True), ANYTHING)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    keys = {*GROUPS, "cosine", "whole", "relevance", "tool", "echo", "confidence", "importance", "recency"}
    assert all(hit.explain.keys() == keys for hit in hits)
    assert "recency" not in search(index, ask(vector=TEA), ANYTHING)[0].explain


def test_a_time_in_the_future_is_as_good_as_now(index: IndexReplica, put: Put):
    put("mem_1", "tea", occurred_ms=T0 + 99 * DAY)
    (hit,) = search(index, ask(half_life_days=1.0), ANYTHING)
    assert hit.explain["recency"] == 1


def test_a_doubtful_lesson_stands_behind_a_sure_one(index: IndexReplica, put: Put):
    put("lsn_1", "tea is hot", confidence=0.1)
    put("lsn_2", "tea is hot", confidence=0.9)
    assert ids(search(index, ask(), ANYTHING)) == ["lsn_2", "lsn_1"]


def test_a_lesson_that_nobody_repeats_fades(index: IndexReplica, put: Put):
    """As `lesson_rules.decayed` says; what has no such time does not."""
    put("lsn_1", "tea is hot", confidence=0.8, renewed_ms=T0 - 10 * 7 * DAY)
    put("lsn_2", "tea is hot", confidence=0.7, renewed_ms=T0 - 6 * DAY)
    put("lsn_3", "tea is hot", confidence=0.6)
    hits = search(index, ask(), ANYTHING)
    assert ids(hits) == ["lsn_2", "lsn_3", "lsn_1"]
    assert [hit.explain["confidence"] for hit in hits] == [0.7, 0.6, 0.3]
    assert [hit.explain["confidence"] for hit in search(index, ask(now_ms=0), ANYTHING)] == [0.8, 0.7, 0.6]


def test_equal_scores_are_ordered_by_id_whatever_came_first(index: IndexReplica, put: Put, embed: Embed):
    """Also at the cut: the candidates of each leg, and the limit."""
    names = [f"mem_{n:03d}" for n in range(400)]
    for name in np.random.default_rng(3).permutation(names).tolist():
        embed(put(name, "tea"), [1, 0, 0, 0])
    for mode in ("hybrid", "lexical", "vector"):
        assert ids(search(index, ask(mode=mode, vector=TEA, limit=30), ANYTHING)) == names[:30]


def test_the_order_is_the_same_every_time(index: IndexReplica, put: Put, embed: Embed):
    """Also among equals: the same index and question give the same list, score by score."""
    for n in range(60):
        embed(put(f"mem_{n}", "tea", episode="s" if n % 3 else ""), [1, 0, 0, 0])
    first = search(index, ask(vector=TEA, limit=60), ANYTHING)
    assert len(first) == 60
    for _ in range(5):
        assert search(index, ask(vector=TEA, limit=60), ANYTHING) == first


def test_what_a_filter_leaves_out_takes_no_places(index: IndexReplica, put: Put, monkeypatch: pytest.MonkeyPatch):
    """The best hundred and more are all out of the span of time; the one within it is found."""
    monkeypatch.setattr(module, "CANDIDATES", 10)
    for n in range(150):
        put(f"mem_{n}", "tea tea tea", occurred_ms=T0)
    put("mem_old", "tea and very much else that makes it a worse match", occurred_ms=T0 - DAY)
    assert found(index, to_ms=T0 - 1) == {"mem_old"}


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_the_one_document_of_a_file_is_found_however_bad_a_match_it_is(index: IndexReplica, put: Put, mode: Mode):
    for n in range(800):
        put(f"mem_{n}", "tea tea tea")
    put("mem_far", "tea and very much else that makes it a worse match", files=["a.py"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CANDIDATES", 2)
        hits = search(index, ask(mode=mode, limit=5), replace(ANYTHING, files=["a.py"]))
    assert ids(hits) == ["mem_far"]


def test_many_forgotten_documents_do_not_hide_the_one_that_is_left(
    index: IndexReplica, put: Put, monkeypatch: pytest.MonkeyPatch
):
    """Or it would fill the candidates of every later search."""
    monkeypatch.setattr(module, "CANDIDATES", 2)
    for n in range(400):
        put(f"mem_{n}", "tea tea tea")
    put("mem_left", "tea and very much else that makes it a worse match")
    index.apply(0, [Remove(f"mem_{n}") for n in range(400)])
    assert found(index, "tea") == {"mem_left"}


def test_an_index_without_dimensions_searches_by_words(tmp_path: Path, entry: Callable[..., IndexEntry]):
    plain = IndexReplica(0, "none")
    asked = ask(vector=np.empty(0, np.float32))
    assert search(plain, asked, ANYTHING) == []
    plain.apply(0, [feed.Put(entry("mem_1", "tea"))])
    assert ids(search(plain, asked, ANYTHING)) == ["mem_1"]
    assert search(plain, ask(vector=np.empty(0, np.float32), mode="vector"), ANYTHING) == []


@pytest.mark.parametrize("ranking", ["fused", "similarity", "rrf"])
@pytest.mark.parametrize("form", ["word{} ", "v1.{}.3 ", "字{}。"])
def test_a_long_query_costs_what_64_terms_cost(
    index: IndexReplica, put: Put, monkeypatch: pytest.MonkeyPatch, form: str, ranking: Any
):
    query = "".join(map(form.format, range(2_000)))
    put("mem_1", query[:200])
    looked_for = list[int]()

    def recording(words: Any) -> Any:
        hashes = hashed(words)
        looked_for.append(len(hashes))
        return hashes

    for using in (columns, embedded, module):
        monkeypatch.setattr(using, "hashed", recording)
    search(index, ask(query, ranking=ranking), ANYTHING)
    *others, most = sorted(looked_for)
    assert max(others) <= MAX_QUERY_TERMS < MOST_COUNTED >= most
    assert len(others) <= LONGEST_QUESTION // 4  # most of them are identifiers


def test_a_long_query_is_searched_by_the_terms_in_the_fewest_documents(index: IndexReplica, put: Put):
    """Prompts that repeat it do not count."""
    common = " ".join(map("word{}".format, range(100)))
    for number in range(50):
        put(f"mem_{number}", common)
    rare, query = put("mem_rare", "saffron"), f"{common} unsaid saffron"
    put("obs_prompt", query, terms=f"{query} {PROMPT} 1 januari 2026")
    hits = search(index, ask(query, mode="lexical", limit=200), ANYTHING)
    assert rare in ids(hits)
    assert hits[0].terms == [*terms(common)[: MAX_QUERY_TERMS - 1], "saffron"]
