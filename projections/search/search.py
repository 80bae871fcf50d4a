"""One search of the index, by the ranking that the question names. Runs in the index thread; never waits.

`fused` has four stages: candidates (`pool_of`), features (`score`, and lifts by time and identifiers), weights
(`_weigh`), and order (`best_first`, then folding of repeats).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ingest.kinds import SEARCHED_BY_PREFIX
from ingest.platform.tracing import span
from projections.search.candidates import (
    Candidates,
    DocumentColumns,
    Meaning,
    best_first,
    by_id,
    corrected,
    cosines_of,
)
from projections.search.decay import decayed_confidence, faded_judgment
from projections.search.languages import is_english, language_of
from projections.search.question import MAX_QUERY_TERMS, MOST_COUNTED, Hit, Question
from projections.search.ranking import (
    ANSWERABLE,
    CORRECTED,
    Confidence,
    Pool,
    PoolBM25,
    Scores,
    confidence,
    confidence_by_cosine,
    confidence_by_words,
    evidence,
    idf_of,
    lowered,
    score,
    shared,
    stretched,
)
from projections.text.cues import (
    DATE_TERMS,
    PROMPT,
    TOOL_OUTPUT,
    TOOL_OUTPUT_WEIGHT,
    Cues,
    asks_parts,
    cues_of,
    echo_weight,
    having,
    is_lookup,
    tool_weight,
)
from projections.text.dates import NamedTime, without_middle
from projections.text.similarity import Distinct, distinct
from projections.text.terms import (
    names_in,
    query_terms_of,
    required_terms,
    single_characters,
    terms,
    wholes,
)
from projections.vectors.columns import TermRows, ascending, hashed

Floats = NDArray[np.float64]
DAY_MS = 86_400_000


def hits(
    rows: DocumentColumns,
    documents: NDArray[np.int64],
    places: Iterable[int],
    scores: Floats,
    parts: Mapping[str, NDArray[Any]],
    digits: int | None = None,
    sure: Confidence | None = None,
    terms: Sequence[str] = (),
) -> list[Hit]:
    """The hits at these places of `documents`, in that order; `parts` explain, nan is left out.

    With `digits` all figures are rounded. `sure` is their confidence.
    """
    chosen = np.fromiter(places, np.int64)
    ordinals: list[int] = documents[chosen].tolist()
    # figures are rounded as arrays: for each of some hundred alone, it would take longer than the search for words
    figures = np.array([scores[chosen], *(part[chosen] for part in parts.values())], np.float64).T
    figures = figures if digits is None else np.round(figures, digits)

    def sureness(column: Floats | None) -> list[float | None]:
        return [None] * len(chosen) if column is None else np.round(column[chosen], CONFIDENCE_DIGITS).tolist()

    answers = sureness(None if sure is None else sure.answers)
    answerable = sureness(None if sure is None else sure.answerable)
    return [
        Hit(
            id=rows.ids[ordinal],
            partition=int(rows.partition[ordinal]),
            kind=SEARCHED_BY_PREFIX[rows.ids[ordinal].partition("_")[0]],
            score=row[0],
            explain={name: value for name, value in zip(parts, row[1:], strict=True) if value == value},
            confidence=confidence,
            answerable=answerability,
            terms=terms,
        )
        for ordinal, row, confidence, answerability in zip(ordinals, figures.tolist(), answers, answerable, strict=True)
    ]


def age_days(rows: DocumentColumns, documents: NDArray[np.int64], now_ms: int) -> NDArray[np.float64]:
    """Days since each document occurred, `(n,) float64`; 0 for one from the future."""
    return np.maximum(0, now_ms - rows.occurred_ms.values[documents]) / DAY_MS


CANDIDATES = 100
"""Documents from each leg. Measured on LoCoMo: 30 costs 0.5 points of recall@10, more than 100 gains nothing."""
REACH = 1
"""Neighbors on either side that join the pool; two are no better (72.7 against 72.7 recall@5, measured on LoCoMo)."""
HALF_LIFE_ALPHA = 0.7
"""Weight of similarity against recency when a question has a half-life and no weight."""
IMPORTANCE_LIFT = 0.02
"""A step of importance above or below 5 moves a memory by 2 %: it only decides among equals. The importance of an
observation, which is guessed by rules, does not count."""
SUMMARY_WEIGHT = 0.5
"""A summary repeats many statements: their sources come first."""
RELATED_FROM = 0.4
"""Cosine from which a document has to do with a remark that names a time and of which it says no other word: of what
three agents' notes and four remarks on the day have by chance, the highest is .34."""
LOOKED_UP = 3
"""Terms of a look-up in a script without spaces, at most: four characters have three bigrams."""
FIRST_BY = 2.0
"""In log odds: how far a document of the named time is put before the best of other times if it says as much of the
question. Newness alone makes a difference of up to 1.3."""
WHOLE_LIFT = 4.0
"""In log odds, for documents that say an identifier, path, version or address in the order of its parts, if the
question asks for nothing else."""
LISTED = 150
"""The newest documents of a named time, and the newest IMPORTANT ones, that are weighed if only a time is named."""
IMPORTANT = 7
"""Of 10: what an agent called important, above the default of 5."""
PARTS_FROM, PARTS_WEIGHT, PARTS_DECAY = 2, 1.2, 0.7
"""For a question that lists what it asks for: how many times as many documents are ordered as are returned, what having
all of its words weighs against the best score, 1, and what is left of a word's weight after each document that has it.
Chosen on GateMem, such that recall at 10 stays on eight other sets."""
CONFIDENCE_DIGITS = 3
DIGITS = 6
"""Scores that differ by less are equal, and equals are ordered by id."""


def fused(candidates: Candidates, question: Question) -> list[Hit]:
    """The best by relevance (0..1), confidence and importance; also by recency if the question has a half-life."""
    if question.named is not None and question.named.only:
        listed = _listed(candidates, question, question.named)
        if listed or not _is_word_or_two(question):
            return listed
        question = replace(question, named=None)  # "in May": nothing is of that time, but a text may say it
    query_words = question.words
    documents, pool = pool_of(candidates, question, query_words)
    distinct_terms = list(dict.fromkeys(query_words))
    frequencies, _ = candidates.frequencies(distinct_terms)
    unsaid = [term for term, documents_saying in zip(distinct_terms, frequencies, strict=True) if not documents_saying]
    query_terms = corrected(candidates, query_words, unsaid)
    if query_terms != query_words:
        documents, pool = pool_of(candidates, question, query_terms)
    if not len(documents):
        return []
    with span("rank", {"mnemolog.candidates": len(documents)}):
        return _ranked(candidates, question, query_terms, query_words, documents, pool)


def _ranked(
    candidates: Candidates,
    question: Question,
    query_terms: Sequence[str],
    query_words: Sequence[str],
    documents: NDArray[np.int64],
    pool: Pool,
) -> list[Hit]:
    """The best of the pool; `query_terms` are `query_words` with their spelling corrected."""
    rows, cues = candidates.rows, cues_of(question.text)
    measured = features(candidates, question, query_terms, query_words, documents, pool, cues)
    scores = measured.scores
    final = scores.final + measured.first_of_time + measured.whole
    # weights
    relevance = stretched(final)
    tool = tool_weight(cues, scores.having(TOOL_OUTPUT))
    echo = echo_weight(cues, scores.said, pool.terms.lengths, scores.having(PROMPT))
    weighed, weights = _weigh(rows, question, relevance * tool * echo, documents)
    # order
    fold = question.fold and not cues.several  # a question that counts needs each of them
    order = best_first(rows, documents, np.round(weighed, DIGITS), len(documents))
    matches = _matches(question, pool, measured, cues, is_corrected=query_terms != query_words)
    order = [number for number in order if matches[number]]
    if order and asks_parts(question.text):
        first = order[: PARTS_FROM * question.limit]
        order[: len(first)] = covering(first, weighed, scores.said > 0, measured.idf)
        weighed[order[: len(first)]] = weighed[first]
    order = order[: None if fold else question.limit]
    lifts = {"first_of_time": measured.first_of_time, "whole": measured.whole}
    parts = {
        "cosine": pool.cosine,
        "static": np.full(len(documents), np.nan) if pool.static is None else pool.static,
        **(scores.groups() if question.explain else {}),
        **{name: lift for name, lift in lifts.items() if lift.any()},
        "relevance": relevance,
        "tool": tool,
        "echo": echo,
        **weights,
    }
    # a summary says all that its sources do, and would take their share of the answer
    is_summary = rows.is_of("sum_", documents)
    competing = np.where(is_summary, lowered(scores.final, SUMMARY_WEIGHT), scores.final)
    confidences = _confidences(candidates, question, query_terms, pool, order, measured, competing)
    best = distinct(pool.terms, order, question.limit) if fold else [Distinct(place, []) for place in order]
    return _to_hits(rows, documents, best, weighed, parts, confidences, query_terms)


def covering(order: Sequence[int], scores: Floats, says: NDArray[np.bool_], idf: Floats) -> list[int]:
    """Return the documents, each the best of those left: by its score, and by the question's words (columns of `says`)
    that it has, which weigh less for each document before it that has them. The first stays."""
    values, says = scores[order], says[order]
    weights = PARTS_WEIGHT * idf[: says.shape[1]] / (idf.sum() or 1.0)
    numbers = [0]
    while len(numbers) < len(order):
        values[numbers[-1]] = -np.inf
        weights = np.where(says[numbers[-1]], PARTS_DECAY * weights, weights)
        numbers.append(int((values + says @ weights).argmax()))
    return [order[number] for number in numbers]


def _to_hits(
    rows: DocumentColumns,
    documents: NDArray[np.int64],
    best: Sequence[Distinct],
    scores: Floats,
    parts: Mapping[str, NDArray[Any]],
    confidences: Confidence | None,
    query_terms: Sequence[str],
) -> list[Hit]:
    def at(places: Iterable[int], terms: Sequence[str] = ()) -> list[Hit]:
        return hits(rows, documents, places, scores, parts, DIGITS, confidences, terms)

    first = at((result.place for result in best), query_terms)
    return [
        replace(hit, repeats=at(result.repeats)) if result.repeats else hit
        for hit, result in zip(first, best, strict=True)
    ]


def _of_time(
    rows: DocumentColumns, documents: NDArray[np.int64], said: TermRows, named: NamedTime
) -> NDArray[np.bool_]:
    """(n,), whether each occurred in the named time, or says a date of it other than its own."""
    occurred = rows.occurred_ms.values[documents]
    occurs = (named.from_ms <= occurred) & (occurred < named.to_ms)
    return np.any([occurs, *(said.in_order(date, DATE_TERMS) for date in named.dates)], axis=0)


def _time_lift(inside: NDArray[np.bool_], scores: Scores, counted: NDArray[np.bool_]) -> Floats:
    """(n,), for documents `inside` the time that the question names.

    If the best of them says as much of the question as the best of all, it comes first: otherwise a text that is
    written every day would be lost among the others that say the same.
    """
    final = scores.final
    if not inside.any():
        return np.zeros(len(final))
    best, best_inside = int(final.argmax()), int(np.where(inside, final, -np.inf).argmax())
    said = np.count_nonzero(scores.said[:, counted[: scores.near.shape[1]]], axis=1)  # by vectors alone: of no terms
    if said[best_inside] < said[best]:
        return np.zeros(len(final))
    return np.where(inside, float(final[best] - final[best_inside]) + FIRST_BY, 0.0)


def _whole_lift(question: Question, said: TermRows) -> Floats:
    """(n,), WHOLE_LIFT times the share of the question that is identifiers, paths, versions and addresses, for
    documents that say the parts of all of them in order."""
    identifiers = [] if question.mode == "vector" else wholes(question.text)
    if not identifiers:
        return np.zeros(len(said))
    share = sum(map(len, identifiers)) / len({*terms(question.text)})
    said_whole = np.sum([said.in_order(identifier) for identifier in identifiers], axis=0).astype(np.float64)
    return said_whole * (WHOLE_LIFT * min(1.0, share) / len(identifiers))


def _listed(candidates: Candidates, question: Question, named: NamedTime) -> list[Hit]:
    """The most important of a time, newest first; prompts and tool output after statements."""
    rows, inside = candidates.rows, candidates.within(named.from_ms, named.to_ms)
    dated = [ordinal for date in named.dates for ordinal in candidates.by_words(date, LISTED, every=True)]
    documents = np.unique(np.array([*inside.newest(LISTED), *inside.newest(LISTED, IMPORTANT), *dated], np.int64))
    said = rows.terms.rows(documents)
    selected = _of_time(rows, documents, said, named)
    documents, said = documents[selected], rows.terms.rows(documents[selected])
    importance = rows.importance.values[documents].astype(np.float64) / 10
    tool = np.where(having(said, PROMPT, TOOL_OUTPUT).any(axis=1), TOOL_OUTPUT_WEIGHT, 1.0)
    scores = np.round(importance * tool, DIGITS)
    newest = np.array(
        best_first(rows, documents, rows.occurred_ms.values[documents].astype(np.float64), len(documents)), np.int64
    )
    order: list[int] = newest[np.argsort(-scores[newest], kind="stable")].tolist()
    best = distinct(said, order, question.limit) if question.fold else [Distinct(place, []) for place in order]
    best = best[: question.limit]
    return _to_hits(rows, documents, best, scores, {"importance": importance, "tool": tool}, None, [])


class PoolFeatures(NamedTuple):
    """What a pool says of a question; every column is (n,)."""

    scores: Scores
    first_of_time: Floats
    """What lifts documents of the time that the question names above the best of other times."""
    whole: Floats
    """What lifts documents that say an identifier in the order of its parts."""
    idf: Floats
    """(terms,), of each distinct term among all that the reader can read."""
    near: Floats
    """(n, terms), above 0 where the document, or one near it, says the term."""
    in_table: NDArray[np.bool_] | None
    """(terms,), which have a static vector; None without a table."""
    evidence: Floats
    """(n, len(ANSWERABLE))."""
    counted: NDArray[np.bool_]
    """(terms,), which do not name the time that the question names."""


def features(
    candidates: Candidates,
    question: Question,
    query_terms: Sequence[str],
    query_words: Sequence[str],
    documents: NDArray[np.int64],
    pool: Pool,
    cues: Cues,
) -> PoolFeatures:
    """The features of a pool; `query_terms` are `query_words` with their spelling corrected.

    Documents of the time that the question names count as saying the words that name it; without any, those words do
    not count.
    """
    distinct_terms, table, n = list(dict.fromkeys(query_terms)), candidates.table, len(documents)
    # an answer need not say the words that name the time
    of_time = set[str]() if question.named is None else {*query_words} - {*terms(question.named.rest)}
    counted = np.array([term not in of_time for term in distinct_terms], np.bool_)
    inside = np.zeros(n, np.bool_)
    if question.named is not None:
        inside = _of_time(candidates.rows, documents, pool.terms, question.named)
    idf = idf_of(*candidates.frequencies(distinct_terms))
    scores = score(query_terms, pool, mode=question.mode, cues=cues, inside=inside)
    said, near = scores.said, scores.near
    if inside.any() and question.mode != "vector":
        of_inside = inside[:, None] & ~counted
        said, near = np.maximum(said, of_inside), np.maximum(near, of_inside)
    elif not inside.any():
        idf = idf * counted
    in_table = None if table is None else table.knows(hashed(term.encode() for term in distinct_terms))
    familiar = np.zeros(len(distinct_terms), np.bool_) if in_table is None else in_table
    trust = np.array([1.0 if term in query_words else CORRECTED for term in distinct_terms])
    static = np.full(n, np.nan) if pool.static is None else pool.static

    speaks = np.zeros((n, len(ANSWERABLE)))
    if question.mode == "hybrid":
        speaks = evidence(said, near, idf, static, pool.cosine, familiar, trust)
    named, whole = _time_lift(inside, scores, counted), _whole_lift(question, pool.terms)
    if is_lookup(question.text) and scores.lexical.any():
        # all that have the word come before the rest, however near that is: agentmemory's clients count on it
        says = scores.lexical > 0
        whole = whole + says * (np.ptp(scores.final) + WHOLE_LIFT * scores.lexical / scores.lexical.max())
    return PoolFeatures(scores, named, whole, idf, near, in_table, speaks, counted)


def _confidences(
    candidates: Candidates,
    question: Question,
    query_terms: Sequence[str],
    pool: Pool,
    order: Sequence[int],
    measured: PoolFeatures,
    final: Floats,
) -> Confidence | None:
    """How likely the question has an answer and each document of the pool, of these scores, is one. 0 for a question
    without words, such as punctuation.

    If the question or the first results are in code or a language without static vectors, the best cosine tells, and
    the words that they share: a word without a static vector is not one that was never said. None if unknown: without
    vectors, for an English question about texts in another language, which the default model cannot compare, or if the
    model knows other languages than the static vectors, because its cosines have another scale.
    """
    table = candidates.table
    if table is None or measured.in_table is None or question.mode != "hybrid":
        return None
    if not query_terms or not measured.idf.sum():
        none = np.zeros(len(pool.terms))
        return Confidence(none, none)
    language = language_of(pool, order, table)
    if language == "English" and is_english(question.text, measured.in_table, surely=not table.of_model):
        # not with the lifts of a named time and of identifiers: what they pass would seem impossible
        return confidence(measured.evidence, final)
    if not table.of_model or (language == "other" and is_english(question.text, measured.in_table, surely=True)):
        return None
    answerable = np.zeros(len(pool.terms))
    if not measured.in_table.any():
        answerable = confidence_by_words(list(dict.fromkeys(query_terms)), measured.near, measured.idf)
    elif np.isnan(pool.cosine).all():
        return None
    is_name = bool(names_in(question.text)) or (_is_word_or_two(question) and not measured.in_table.any())
    if not is_name:  # names that differ are as near as those that are the same
        answerable = np.maximum(answerable, confidence_by_cosine(pool.cosine))
    return shared(answerable, final)


def _matches(
    question: Question, pool: Pool, measured: PoolFeatures, cues: Cues, *, is_corrected: bool
) -> NDArray[np.bool_]:
    """(n,), which documents of the pool are results at all: almost always all of them.

    Of a question that is nothing but names, those that say one of the names whole: a file that was never mentioned is
    no other file. Of a word or two, those that say one, if any does. Of a remark with a time ("nice weather today"),
    those that have to do with what is left besides the time.
    """
    every = np.ones(len(pool.terms), np.bool_)
    if question.mode != "hybrid":
        return every
    has_term = np.asarray((measured.scores.said > 0) & measured.counted)
    if (names := names_in(question.text)) and not is_corrected:
        return np.asarray(np.any([pool.terms.in_order(name) for name in names], axis=0), np.bool_)
    says = np.asarray(has_term.any(axis=1), np.bool_)
    if question.named is not None and not (cues.question_word or cues.question_mark):
        return says | ~(pool.cosine < RELATED_FROM)
    return says if _is_word_or_two(question) and says.any() else every


def _is_word_or_two(question: Question) -> bool:
    """Whether a question is a word or two; one in a script without spaces is a word of many terms."""
    return is_lookup(question.text) and (question.text.isascii() or len({*question.words}) <= LOOKED_UP)


def pool_of(candidates: Candidates, question: Question, query_terms: Sequence[str]) -> tuple[NDArray[np.int64], Pool]:
    """The candidates and their matching neighbors, in the order of their ids (sums over the pool depend on it), and the
    pool of their columns.

    Bounded: two hundred and the tail, with two neighbors each; as many again of a time that the question names.
    """
    rows, meaning, named = candidates.rows, _meaning(candidates, question, query_terms), question.named
    every = [candidates] if named is None else [candidates, candidates.within(named.from_ms, named.to_ms)]
    with span("search by words"):
        said = [] if question.mode == "vector" else [some.by_words(query_terms, CANDIDATES) for some in every]
    with span("search by vectors"):
        near = [some.by_meaning(meaning, CANDIDATES).documents for some in every]
    best = ascending(*(np.array(some, np.int64) for some in said), *near)
    documents = by_id(rows, ascending(best, candidates.beside(best, REACH)))
    pool = Pool(
        terms=rows.terms.rows(documents),
        cosine=cosines_of(rows.vectors, meaning.vector, documents),
        static=cosines_of(rows.static, meaning.static, documents),
        episode=rows.episode.values[documents],
        sequence=rows.sequence.values[documents],
        occurred_ms=rows.occurred_ms.values[documents],
        importance=rows.importance.values[documents],
        author=rows.author.values[documents],
        names=rows.author_terms(documents),
    )
    return documents, pool


def _meaning(candidates: Candidates, question: Question, query_terms: Sequence[str]) -> Meaning:
    table = None if question.mode == "lexical" else candidates.table
    return Meaning(question.query_vector, None if table is None else table.embed_query(query_terms))


def _weigh(
    rows: DocumentColumns, question: Question, relevance: Floats, pool: NDArray[np.int64]
) -> tuple[Floats, dict[str, Floats]]:
    """Relevance (0..1) times a lesson's current confidence and a memory's importance; with recency if asked for.

    `alpha * relevance + (1 - alpha) * exp(-ln 2 / half_life * age)`, memex's formula; age from `occurred_at`.
    """
    stated, renewed_ms = rows.confidence.values[pool], rows.renewed_ms.values[pool]
    is_memory = rows.is_of("mem_", pool)
    confidence = decayed_confidence(stated, np.where(is_memory, 0, renewed_ms), question.now_ms)
    if renewed_ms.any():
        confidence = np.where(is_memory, faded_judgment(stated, renewed_ms, question.now_ms), confidence)
    importance = rows.importance.values[pool].astype(np.float64)
    lift = np.where(is_memory, 1 + IMPORTANCE_LIFT * (importance - 5), 1.0)
    lift = np.where(rows.is_of("sum_", pool), SUMMARY_WEIGHT, lift)
    weighed = relevance * (0.5 + 0.5 * confidence) * lift
    weights = {"confidence": confidence, "importance": importance}
    if question.half_life_days is not None:
        alpha = HALF_LIFE_ALPHA if question.alpha is None else question.alpha
        weights["recency"] = np.exp(-np.log(2) / question.half_life_days * age_days(rows, pool, question.now_ms))
        weighed = alpha * weighed + (1 - alpha) * weights["recency"]
    return weighed, weights


# memex's own constants: its clients expect its order
ALPHA, HALF_LIFE_DAYS = 0.7, 30.0
CANDIDATES_PER_RESULT, MAX_CANDIDATES = 3, 150


def similar(candidates: Candidates, question: Question) -> list[Hit]:
    """`alpha * similarity + (1 - alpha) * exp(-ln 2 / half_life_days * age_days)`, unrounded; equals newest first.

    Candidates are the `min(3 * shown, 150)` most similar by cosine, or as many as are shown, and as many of those that
    have no vector, or what was just written would be lost: these count by the share of the query's words that they say.
    """
    count = max(min(CANDIDATES_PER_RESULT * question.depth, MAX_CANDIDATES), question.depth)
    rows, meaning = candidates.rows, _meaning(candidates, question, question.words)
    near, cosine = candidates.by_meaning(meaning, count)
    unembedded, said = waiting(candidates, question, meaning, count)
    documents = np.concatenate([near, unembedded])
    similarity = np.concatenate([cosine, said])
    half_life = HALF_LIFE_DAYS if question.half_life_days is None else question.half_life_days
    alpha = ALPHA if question.alpha is None else question.alpha
    recency = np.exp(-np.log(2) / half_life * age_days(rows, documents, question.now_ms))
    scores = alpha * similarity + (1 - alpha) * recency
    occurred, ordinals = rows.occurred_ms.values[documents], list[int](documents.tolist())
    names = [rows.ids[ordinal] for ordinal in ordinals]
    order = sorted(zip((-scores).tolist(), (-occurred).tolist(), names, range(len(names)), strict=True))
    best = [place for *_, place in order[: question.limit]]
    return hits(rows, documents, best, scores, {"similarity": similarity, "recency": recency})


def waiting(
    candidates: Candidates, question: Question, meaning: Meaning, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The best `count` of the documents without a cosine, and the share of the query's words each says.

    All of them when the query has no vectors.
    """
    rows, query_words = candidates.rows, list(dict.fromkeys(question.words))
    documents = candidates.without_vectors(meaning, query_words, count)
    said = rows.terms.rows(documents).counts(query_words) > 0
    share = said.sum(axis=1) / max(1, len(query_words))
    best = best_first(rows, documents, share, count)
    return documents[best], share[best]


# agent-memory's own constants
K = 60
PER_RESULT = 2
"""From each list, for each result that is shown."""
WORDS = 10
"""The first of the query, for the text list: a document must say them all."""
RECENCY_DAYS = 10.0


def rrf(candidates: Candidates, question: Question) -> list[Hit]:
    """Sum of `1 / (60 + rank)` over the two lists, ranks from 0, times `1 + exp(-age_days / 10)`; unrounded.

    Vector and lexical mode have one list only, and without `recency_boost` age does not count.
    """
    rows, count = candidates.rows, PER_RESULT * question.depth
    said = [] if question.mode == "vector" else _by_text(candidates, question.text, count)
    lists = {"vector": _near(candidates, question, count, said), "text": said}
    documents = np.fromiter(dict.fromkeys([*lists["vector"], *lists["text"]]), np.int64)
    parts: dict[str, Floats] = {}
    for name, ranked in lists.items():
        ranks = {document: 1 / (K + rank) for rank, document in enumerate(ranked)}
        parts[name] = np.array([ranks.get(document, np.nan) for document in documents.tolist()], np.float64)
    scores = np.nansum(list(parts.values()), axis=0)
    if question.recency_boost:
        parts["recency"] = 1 + np.exp(-age_days(rows, documents, question.now_ms) / RECENCY_DAYS)
        scores = scores * parts["recency"]
    return hits(rows, documents, best_first(rows, documents, scores, question.limit), scores, parts)


def _near(candidates: Candidates, question: Question, count: int, said: Sequence[int]) -> list[int]:
    """The nearest `count`. What the model has not embedded is among them, or what was just written would be lost: by
    its static vector, else by the share of the query's words that it says; unless it says them all, because then the
    text list has it."""
    rows, meaning = candidates.rows, _meaning(candidates, question, question.words)
    near, cosine = candidates.by_meaning(meaning, count)
    if question.mode == "vector" or (meaning.vector is None and meaning.static is None):
        return near.tolist()
    unembedded, share = waiting(candidates, question, meaning, count)
    in_text = np.asarray(said, np.int64)
    joins = (share > 0) & ~np.isin(unembedded, in_text)
    selected = ~(rows.vectors.without(near) & np.isin(near, in_text))
    documents = np.concatenate([near[selected], unembedded[joins]])
    scores = np.concatenate([cosine[selected], share[joins]])
    return documents[best_first(rows, documents, scores, count)].tolist()


def _by_text(candidates: Candidates, text: str, count: int) -> list[int]:
    # BM25 over these alone, so that the others of the filter do not count
    required = required_terms(" ".join(text.split()[:WORDS]))
    rows, query_words = candidates.rows, list(dict.fromkeys(required))[:MAX_QUERY_TERMS]
    documents = np.asarray(candidates.by_words(query_words, count, every=True), np.int64)
    documents = documents[best_first(rows, documents, np.zeros(len(documents)), len(documents))]
    scores = np.asarray(PoolBM25(rows.terms.rows(documents), query_words).get_scores(query_words), np.float64)
    lexical = np.round(scores, 9)
    return documents[best_first(rows, documents, lexical, count)].tolist()


_RANKINGS = {"fused": fused, "similarity": similar, "rrf": rrf}


def search(candidates: Candidates, question: Question) -> list[Hit]:
    """The best documents for a question, best first, at most `limit`; of equal scores the smallest id first.

    Only the terms are taken from the whole text. Cues and identifiers are those of its beginning and end.
    """
    words, text = query_terms_of(question.text), without_middle(question.text)
    distinct_terms = list(dict.fromkeys(words))[:MOST_COUNTED]
    if not is_lookup(text):  # before terms are counted, or those of a prompt that repeats the query would be the rarest
        candidates.leave_out_prompts([*distinct_terms, *single_characters(text)])
    if len(distinct_terms) > MAX_QUERY_TERMS:
        # the rarest, of equally rare ones the first; terms in no document come last, because they find nothing
        frequencies, _ = candidates.frequencies(distinct_terms)
        order: list[int] = np.argsort([frequency or np.inf for frequency in frequencies], kind="stable").tolist()
        distinct_terms = [distinct_terms[place] for place in order[:MAX_QUERY_TERMS]]
    selected = {*distinct_terms}
    question = replace(question, text=text, words=[term for term in words if term in selected])
    return _RANKINGS[question.ranking](candidates, question)
