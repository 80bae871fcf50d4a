import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexes import entry_of, vectors_of
from numpy.typing import NDArray
from reference.pools import Pool, Scores, evidence, score
from reference.ranking import EXPECTED_COSINE, PART

from projections.index.embedded import search
from projections.index.replica import IndexReplica
from projections.search.question import RECORDED_FROM, UNCERTAIN_FROM, Filter, Question
from projections.search.ranking import (
    ANSWERABLE,
    CORRECTED,
    FEATURES,
    Mode,
    idf_of,
    shipped_weights,
)
from projections.store.feed import Put
from projections.text.terms import LONGEST_WORD, date_terms, leading_stop_words, required_terms, terms, wholes
from projections.vectors.columns import TermRows
from projections.vectors.static import StaticTable

NAN = float("nan")
MODES: tuple[Mode, ...] = ("hybrid", "lexical", "vector")


def a_pool(
    *texts: str,
    cosine: Sequence[float] | None = None,
    episode: Sequence[int] | None = None,
    sequence: Sequence[int] | None = None,
    author: Sequence[str] = (),
) -> Pool:
    """Documents that stand alone and have no vectors, unless told otherwise."""
    n = len(texts)
    return Pool(
        terms=TermRows.of(" ".join(terms(text)) for text in texts),
        cosine=np.array([NAN] * n if cosine is None else cosine, np.float32),
        episode=np.array([-1] * n if episode is None else episode, np.int32),
        sequence=np.array(range(n) if sequence is None else sequence, np.int32),
        author=np.arange(n, dtype=np.int32) if author else None,
        names=dict(enumerate(terms(name) for name in author)),
    )


def ranking(scores: Scores) -> list[int]:
    return np.argsort(-scores.final, kind="stable").tolist()


def column(scores: Scores, name: str) -> list[float]:
    return scores.features[:, FEATURES.index(name)].tolist()


# terms


def test_words_of_one_stem_are_one_term():
    assert terms("Deploying") == terms("deployed") == terms("deploys")


def test_stop_words_are_left_out():
    assert terms("What did the worker do to it?") == ["worker"]


def test_a_text_of_nothing_but_stop_words_keeps_them():
    """And looks for each as a name, too, as texts have it that write it in capitals."""
    assert terms("The Who") == ["the", "=the", "who", "=who"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ask IT for a key", ["ask", "=it", "key"]),
        ("data in the US region", ["data", "=us", "region"]),
        ("redis AND pool", ["redi", "pool"]),
        ("I have a plan", ["plan"]),
        ("WHO IS AT THE DOOR", ["door"]),
        ("IT", ["=it"]),
    ],
)
def test_a_stop_word_in_capitals_is_a_name_unless_all_of_the_text_is_in_capitals(text: str, expected: list[str]):
    assert terms(text) == expected


def test_the_stop_words_that_a_text_begins_with_are_its_leading_ones():
    assert leading_stop_words("Who are we? We are four.") == ["who", "are", "we"]
    assert leading_stop_words("word " * 40 + "who are we") == []


def test_a_version_with_a_v_is_also_one_without():
    assert terms("v1.2.4") == ["v1.2.4", *terms("1.2.4")]
    assert terms("v2") == ["v2"]
    assert terms("vendor.lock") == ["vendor.lock", "vendor", "lock"]


def test_the_parts_of_identifiers_are_told_in_their_order():
    assert wholes("why is src/api.py slow on 10.0.0.12?") == [["src", "api", "py"], ["10", "0", "0", "12"]]
    assert wholes("plain words") == []


@pytest.mark.parametrize("nothing", ["", "   ", "?!", "\n\t", "___", "→"])
def test_a_text_without_words_has_no_terms(nothing: str):
    assert terms(nothing) == []


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("retry_budget", ["retri", "budget"]),
        ("retryBudget", ["retri", "budget"]),
        ("HTTPServer", ["http", "server"]),
        ("ingest/log/redis_log.py", ["redis_log.pi", "redis_log", "ingest", "log", "redi", "log", "py"]),
        ("std::vector", ["std", "vector"]),
        ("agent-7", ["agent", "7"]),
    ],
)
def test_an_identifier_is_found_whole_and_by_its_parts(identifier: str, parts: list[str]):
    whole, *rest = terms(identifier)

    assert rest == parts
    assert terms(identifier.lower())[0] == whole


@pytest.mark.parametrize("text", ["/w/kettle_7.py", "kettle-7.py", "kettle 7 py", "Edit: Kettle_7.py", "kettle:7:py"])
def test_what_is_required_of_an_identifier_is_said_with_any_joiner(text: str):
    assert set(required_terms("kettle_7.py")) <= set(terms(text))
    assert required_terms("the kettle") == terms("the kettle")


def test_possessives_and_contractions_are_not_terms_of_their_own():
    assert terms("Ada's worker didn’t crash") == terms("Ada worker crash")


def test_accents_and_width_do_not_matter():
    assert terms("Ｃａｆé") == terms("cafe")


def test_a_script_without_spaces_is_found_by_a_part_of_a_sentence():
    assert set(terms("東京")) <= set(terms("昨日東京タワーに行った"))


def test_vowel_signs_do_not_break_words():
    assert len(terms("हिन्दी भाषा")) == 2


def test_a_run_too_long_to_be_a_word_is_cut():
    assert terms("A" * 10_000) == ["a" * LONGEST_WORD]


def test_a_word_that_folding_makes_longer_is_cut_too():
    assert [len(term) for term in terms("ß" * LONGEST_WORD)] == [LONGEST_WORD]


def test_a_path_too_long_to_be_one_term_keeps_its_parts():
    assert terms("/".join(["folder"] * 50)) == ["folder"] * 50


def test_an_iso_date_in_a_query_names_the_day_as_documents_do():
    when = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)

    assert set(date_terms(when)) <= set(terms("what broke on 2023-05-08?"))
    assert set(date_terms(when)) <= set(terms("what broke at 2023-05-08T13:56:00Z?"))


@pytest.mark.parametrize("said", ["8 May 2023", "May 8th, 2023", "the 8th of May 2023"])
def test_a_date_in_words_names_the_day_as_documents_do(said: str):
    assert set(date_terms(datetime(2023, 5, 8, tzinfo=UTC))) <= set(terms(said))


def test_a_date_that_does_not_exist_is_read_as_numbers():
    assert terms("2023-13-45") == ["2023-13-45", "2023", "13", "45"]


def test_threads_may_stem_at_the_same_time():
    words = [f"{stem}{ending}" for stem in ("deploy", "index", "project") for ending in ("s", "ed", "ing")]
    expected = {word: terms(word) for word in words}
    seen: list[bool] = []

    def stem_them() -> None:
        seen.append(all(terms(f"{word} zq{n}x")[0] == expected[word][0] for n in range(300) for word in words))

    threads = [threading.Thread(target=stem_them) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert seen == [True] * 4


@settings(max_examples=60)
@given(st.text(max_size=200))
def test_any_text_gives_terms_that_are_words(text: str):
    assert all(term and not term.isspace() and len(term) <= LONGEST_WORD for term in terms(text))


# score


def test_a_document_that_says_the_query_comes_first():
    pool = a_pool("the cache was flushed", "the worker crashed on start", "lunch at noon")

    assert ranking(score(terms("why did the worker crash?"), pool))[0] == 1


def test_a_rare_word_counts_more_than_a_common_one():
    pool = a_pool("worker restarted", "worker stalled", "worker stalled", "segfault seen", "worker idle")

    assert ranking(score(terms("worker segfault"), pool))[0] == 3


def test_meaning_finds_what_words_miss():
    pool = a_pool("the box fell over", "lunch at noon", "tea at four", cosine=[0.7, 0.1, 0.0])

    assert ranking(score(terms("server outage"), pool))[0] == 0


def test_a_document_without_a_vector_yet_is_judged_by_its_words():
    pool = a_pool("lunch at noon", "the worker crashed", "tea at four", cosine=[0.3, NAN, 0.1])
    scores = score(terms("worker crashed"), pool)

    assert ranking(scores)[0] == 1


@pytest.mark.parametrize(("query", "mode"), [("worker", "vector"), ("", "hybrid")])
def test_a_document_known_by_neither_words_nor_meaning_comes_last(query: str, mode: Mode):
    pool = a_pool("worker", "soup", "tea", "cake", cosine=[NAN, 0.5, 0.1, 0.3])

    scores = score(terms(query), pool, mode=mode)

    assert ranking(scores)[:2] == [1, 3]
    assert scores.final[0] <= scores.final[2]


def test_without_vectors_hybrid_is_lexical():
    pool = a_pool("the worker crashed", "lunch", "the worker", cosine=[NAN] * 3)
    query = terms("worker crashed")

    assert score(query, pool).final == pytest.approx(score(query, pool, mode="lexical").final)


def test_without_query_terms_hybrid_ranks_by_meaning():
    pool = a_pool("the worker crashed", "lunch", "tea", cosine=[0.1, 0.5, 0.3])

    assert ranking(score([], pool))[0] == 1


def test_words_do_not_matter_in_vector_mode():
    pool = a_pool("worker", "lunch", "tea", cosine=[0.1, 0.5, 0.3], author=["worker", "b", "c"])
    scores = score(terms("worker"), pool, mode="vector")

    assert ranking(scores) == [1, 2, 0]
    assert not scores.lexical.any()
    assert column(scores, "author") == [0.0, 0.0, 0.0]


def test_meaning_does_not_matter_in_lexical_mode():
    pool = a_pool("worker", "lunch", "tea", cosine=[0.1, 0.9, 0.3])

    assert ranking(score(terms("worker"), pool, mode="lexical"))[0] == 0


def test_the_answer_is_found_next_to_its_question():
    """The turn after the one that has the words beats a turn elsewhere that has as few words itself."""
    pool = a_pool(
        "which region is the staging cluster in?", "eu-west", "lunch?", "soup", "tea", "cake", "us-east",
        episode=[0, 0, 1, 1, 1, 2, 2], sequence=[0, 1, 0, 1, 2, 0, 1],
    )  # fmt: skip

    assert ranking(score(terms("region of the staging cluster"), pool))[:2] == [0, 1]


def test_neighbours_are_found_whatever_the_order_of_the_pool():
    texts = ["alpha beta", "gamma", "delta alpha", "epsilon", "beta"]
    episode, sequence, order = [0, 0, 0, 1, 1], [3, 4, 5, 3, 4], [4, 2, 0, 3, 1]
    straight = score(["alpha", "beta"], a_pool(*texts, episode=episode, sequence=sequence))
    shuffled = score(
        ["alpha", "beta"],
        a_pool(*[texts[i] for i in order], episode=[episode[i] for i in order], sequence=[sequence[i] for i in order]),
    )

    assert shuffled.final == pytest.approx(straight.final[order])


def test_a_gap_in_the_sequence_separates_neighbours():
    texts = ["the worker crashed", "soup", "tea", "cake"]
    near = score(["worker"], a_pool(*texts, episode=[0, 0, 1, 2], sequence=[0, 1, 0, 0]))
    apart = score(["worker"], a_pool(*texts, episode=[0, 0, 1, 2], sequence=[0, 9, 0, 0]))

    assert near.final[1] > apart.final[1]


def test_a_query_spread_over_neighbours_counts_as_said():
    """Two turns that say the whole query between them beat two that say the same word twice."""
    pool = a_pool(
        "staging database", "restore failed", "staging database", "staging database", "tea", "soup",
        episode=[0, 0, 1, 1, 2, 2], sequence=[0, 1, 0, 1, 0, 1],
    )  # fmt: skip
    scores = score(terms("staging restore"), pool)

    assert column(scores, "near_coverage")[0] > column(scores, "near_coverage")[2]


def test_an_episode_about_the_query_lifts_its_turns():
    pool = a_pool(
        "tea", "soup", "cake", "worker crashed", "bread", "tea", "soup", "cake", "rice",
        episode=[0] * 5 + [1] * 4, sequence=[0, 1, 2, 9, 20, 0, 1, 2, 3],
    )  # fmt: skip
    scores = score(terms("worker crashed"), pool)

    assert column(scores, "episode")[0] > column(scores, "episode")[5]
    assert scores.final[4] > scores.final[8]


def test_documents_outside_any_episode_do_not_lift_each_other():
    pool = a_pool("the worker crashed", "soup", "tea", "soup")
    scores = score(["worker"], pool)

    assert scores.final[1] == pytest.approx(scores.final[2])


def test_a_memory_on_its_own_holds_its_place_against_a_turn_in_a_session():
    pool = a_pool(
        "the worker crashed", "the worker crashed", "soup", "tea", "cake", "rice",
        episode=[-1, 0, 0, 0, 1, 1], sequence=[0, 0, 1, 2, 0, 1],
    )  # fmt: skip

    assert ranking(score(terms("worker crashed"), pool))[0] == 0


def test_naming_the_author_lifts_what_they_said():
    texts = ["it was flaky", "it was flaky", "tea"]
    scores = score(terms("what did Ada find flaky?"), a_pool(*texts, author=["Grace", "Ada", "Grace"]))

    assert column(scores, "author") == [0.0, 1.0, 0.0]
    assert ranking(scores)[0] == 1


def test_half_a_name_counts_half():
    scores = score(terms("what did Ada say?"), a_pool("tea", "soup", author=["Ada Lovelace", "Grace"]))

    assert column(scores, "author") == [0.5, 0.0]


def test_final_is_the_weighted_sum_of_the_features_and_relevance_keeps_its_order():
    pool = a_pool("worker", "worker crashed", "tea", cosine=[0.2, 0.1, 0.4], episode=[0, 0, 1], sequence=[0, 1, 0])
    scores = score(terms("worker crashed"), pool)

    assert scores.final == pytest.approx((scores.features * scores.weights).sum(axis=1))
    assert np.argsort(scores.relevance).tolist() == np.argsort(scores.final).tolist()
    assert (scores.relevance.min(), scores.relevance.max()) == (0.0, 1.0)


@pytest.mark.parametrize("mode", MODES)
def test_an_empty_pool_is_refused(mode: Mode):
    with pytest.raises(ValueError, match="the pool is empty"):
        score(["worker"], a_pool(), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_pool_of_one_is_relevant(mode: Mode):
    scores = score(["worker"], a_pool("the worker crashed", cosine=[0.4]), mode=mode)

    assert np.isfinite(scores.final).all()
    assert scores.relevance.tolist() == [1.0]


IDF = idf_of([3, 40, 0], 100)
KNOWN = np.ones(3, np.bool_)


def sure(
    said: list[list[int]], static: list[float], cosine: list[float] | None = None, known: list[int] | None = None
) -> list[float]:
    rows = np.array(said, np.float64)
    cosines = np.array([NAN] * len(said) if cosine is None else cosine)
    knows = KNOWN if known is None else np.array(known, np.bool_)
    return answerable(evidence(rows, np.minimum(rows, 1.0), IDF, np.array(static), cosines, knows))


def answerable(columns: NDArray[np.float64]) -> list[float]:
    return (1 / (1 + np.exp(-columns @ shipped_weights().answerable))).tolist()


def test_a_rare_word_tells_more_than_a_frequent_one_and_one_that_nobody_says_most():
    assert IDF[2] > IDF[0] > IDF[1] > 0


def test_who_says_all_of_the_question_is_surer_than_who_says_its_frequent_word():
    all_of_it, frequent = sure([[1, 1, 1], [0, 1, 0]], [0.5, 0.5])
    assert all_of_it > 0.7
    assert all_of_it > frequent


def test_what_is_nearer_in_meaning_is_surer():
    near, far = sure([[1, 1, 0], [1, 1, 0]], [0.8, 0.1])
    assert near > far
    (near,), (far,) = (sure([[1, 1, 0]], [0.5], [cosine]) for cosine in (0.8, 0.1))
    assert near > far


def test_a_document_without_a_models_vector_counts_as_if_its_cosine_were_barely_an_answers():
    (waiting,), (embedded,), (near,) = (sure([[1, 1, 0]], [0.5], [it]) for it in (NAN, EXPECTED_COSINE, 0.6))
    assert waiting == embedded < near


def test_a_question_about_what_nobody_ever_said_has_no_answer():
    assert sure([[0, 1, 0]], [0.1])[0] < UNCERTAIN_FROM


def test_a_name_that_neither_the_documents_nor_the_model_know_makes_an_answer_less_likely():
    """Other words may be said in other words; a name may not."""
    word, name = (sure([[1, 1, 0]], [0.5], [0.5], [1, 1, knows])[0] for knows in (1, 0))
    assert name < word
    assert sure([[1, 1, 1]], [0.5], [0.5], [1, 1, 0]) == sure([[1, 1, 1]], [0.5], [0.5], [1, 1, 1])


def test_a_corrected_word_is_trusted_half():
    rows, static = np.ones((1, 3)), np.array([0.5])
    sure = [
        answerable(evidence(rows, rows, IDF, static, static, KNOWN, np.array([1.0, 1.0, last])))[0]
        for last in (1.0, CORRECTED, 0.0)
    ]
    assert sure[0] > sure[1] > sure[2]


def test_how_often_a_word_is_said_does_not_count():
    assert sure([[1, 1, 1]], [0.3]) == sure([[7, 2, 9]], [0.3])


def test_a_document_without_a_static_vector_is_judged_by_its_words():
    assert sure([[1, 1, 1]], [NAN]) == sure([[1, 1, 1]], [0.0])


@pytest.mark.parametrize("at", [0, 20, 40])
def test_a_long_question_is_judged_by_its_best_part_wherever_that_is(at: int):
    terms = 60
    rows = np.zeros((2, terms))
    rows[0, at : at + PART] = 1
    idf, static = np.full(terms, 5.0), np.full(2, 0.4)
    answer, nothing = answerable(evidence(rows, rows, idf, static, static, np.ones(terms, np.bool_)))
    assert answer > 0.5
    assert nothing < answer


def test_a_short_question_has_no_parts():
    rows = np.zeros((1, 24))
    rows[0, :8] = 1
    words, half = np.full(24, 5.0), np.full(1, 0.3)
    (sure,) = answerable(evidence(rows, rows, words, half, half, np.ones(24, np.bool_)))
    assert sure < 0.5


def test_removed_documents_that_are_still_counted_make_no_word_negative():
    assert (idf_of([12], 10) > 0).all()


def test_no_candidates_and_no_words_are_no_error():
    nothing = np.zeros(0)
    assert evidence(np.zeros((0, 3)), np.zeros((0, 3)), IDF, nothing, nothing, KNOWN).shape == (0, len(ANSWERABLE))
    rows, two = np.zeros((2, 0)), np.zeros(2)
    assert evidence(rows, rows, nothing, two, two, np.zeros(0, np.bool_)).shape == (2, len(ANSWERABLE))


def test_of_a_few_documents_a_word_that_none_says_does_not_outweigh_the_others():
    """As with "why did checkout fail?" on a new server, where one of three documents says "checkout"."""
    said, unsaid = idf_of([1, 0], 3)
    assert unsaid < 1.25 * said


MODEL = "test/model"
TABLE = StaticTable("static", ["checkout", "fail", "timeout"], np.eye(3, dtype=np.float32))


def confident(question: str, *texts: str, cosine: float = NAN, prefix: str = "obs") -> list[tuple[Any, Any]]:
    """Return the confidence of each text as a result of a question, and that of the question as far as it tells.

    The first text has the cosine, if any, and an id with the prefix.
    """
    index = IndexReplica(4, MODEL, TABLE)
    names = [f"{'obs' if number else prefix}_{number}" for number in range(len(texts))]
    index.apply(0, [Put(entry_of(name, text)) for name, text in zip(names, texts, strict=True)])
    if cosine == cosine:
        index.apply(0, [vectors_of(names[0], [cosine, (1 - cosine**2) ** 0.5, 0, 0])])
    vector = np.array([1, 0, 0, 0], np.float32)
    hits = search(index, Question(text=question, vector=vector), Filter(tenant="default", now_ms=0))
    return [(hit.confidence, hit.answerable) for hit in sorted(hits, key=lambda hit: hit.id[4:])]


def test_results_share_the_probability_of_an_answer_by_their_scores():
    (first, of_question), (second, _), (third, _) = confident(
        "Why did checkout fail?", "checkout fails: timeout", "checkout", "timeout"
    )
    assert of_question > first > second >= third


def test_of_words_that_no_vector_knows_some_are_enough_but_every_number_is_needed():
    (_, other_ticket), (_, ticket) = confident("тест 9999", "тест 1111", "тест 9999")
    assert other_ticket == 0
    assert ticket > UNCERTAIN_FROM
    [(_, bigrams)] = confident("测试付款", "测试")
    assert bigrams > UNCERTAIN_FROM


def test_a_summary_leaves_its_sources_their_share_of_the_answer():
    texts = "checkout fails: checkout timeout", "checkout fails", "timeout"
    (_, (beside_summary, _), _), (_, (beside_another, _), _) = (
        confident("Why did checkout fail?", *texts, prefix=prefix) for prefix in ("sum", "obs")
    )
    assert beside_summary > beside_another


def test_the_nearer_the_best_cosine_the_surer_a_question_in_another_language_has_an_answer():
    [(_, far)], [(_, near)] = (
        confident("почему ночью упал сервер", "диск был заполнен", cosine=best) for best in (0.2, 0.6)
    )
    assert far < UNCERTAIN_FROM < RECORDED_FROM < near
