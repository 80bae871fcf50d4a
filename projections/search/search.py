"""One search of the index, by the ranking that the question names. Runs in the index thread; never waits.

`fused` has four stages: candidates (`pool_of`), features (`score`, and lifts by time and identifiers), weights
(`_weigh`), and order (`best_first`, then folding of repeats).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ingest.kinds import SEARCHED_BY_PREFIX
from ingest.platform.tracing import span
from projections.kernel.module import native
from projections.search.candidates import (
    Candidates,
    DocumentColumns,
    Meaning,
    best_first,
    corrected,
    nearest_first,
)
from projections.search.decay import decayed_confidence, faded_judgment
from projections.search.languages import is_english, terms_of_languages
from projections.search.question import MAX_QUERY_TERMS, MOST_COUNTED, Hit, Question
from projections.search.ranking import CORRECTED, CUES, MODES, Criteria, PoolBM25, groups_of, idf_of, shipped_weights
from projections.text.cues import (
    DATE_TERMS,
    NO_CUES,
    PROMPT,
    TOOL_OUTPUT,
    TOOL_OUTPUT_WEIGHT,
    TRAITS,
    asks_parts,
    cues_of,
    having,
    is_lookup,
    months,
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
from projections.vectors.columns import TermRows, hashed

Floats = NDArray[np.float64]
DAY_MS = 86_400_000


PARTS = (
    "cosine", "static", "first_of_time", "whole", "relevance", "tool", "echo", "confidence", "importance", "recency",
)  # fmt: skip
"""What explains a result of `native.results`, after its score and confidences; the groups of features come third."""
_NO_VECTOR = np.empty(0, np.float32)
_NO_LANGUAGE = np.empty(0, np.uint32), np.empty(0, np.int64)
_TRAITS = hashed(trait.encode() for trait in TRAITS)


def hit_of(
    rows: DocumentColumns, ordinal: int, score: float, explain: Iterable[tuple[str, float]], **fields: Any
) -> Hit:
    """The hit of a document; what explains it is left out where it is nan. `fields` are other fields of the hit."""
    name = rows.ids[ordinal]
    return Hit(
        id=name,
        partition=int(rows.partition[ordinal]),
        kind=SEARCHED_BY_PREFIX[name.partition("_")[0]],
        score=score,
        explain={part: value for part, value in explain if value == value},
        **fields,
    )


def hits(
    rows: DocumentColumns,
    documents: NDArray[np.int64],
    places: Iterable[int],
    scores: Floats,
    parts: Mapping[str, NDArray[Any]],
) -> list[Hit]:
    """The hits at these places of `documents`, in that order; `parts` explain, nan is left out."""
    chosen = np.fromiter(places, np.int64)
    ordinals: list[int] = documents[chosen].tolist()
    figures = np.array([scores[chosen], *(part[chosen] for part in parts.values())], np.float64).T
    return [
        hit_of(rows, ordinal, score, zip(parts, explain, strict=True))
        for ordinal, (score, *explain) in zip(ordinals, figures.tolist(), strict=True)
    ]


def age_days(rows: DocumentColumns, documents: NDArray[np.int64], now_ms: int) -> NDArray[np.float64]:
    """Days since each document occurred, `(n,) float64`; 0 for one from the future."""
    return np.maximum(0, now_ms - rows.occurred_ms.values[documents]) / DAY_MS


CANDIDATES = 100
"""Documents from each leg. Measured on LoCoMo: 30 costs 0.5 points of recall@10, more than 100 gains nothing."""
HALF_LIFE_ALPHA = 0.7
"""Weight of similarity against recency when a question has a half-life and no weight."""
LOOKED_UP = 3
"""Terms of a look-up in a script without spaces, at most: four characters have three bigrams."""
LISTED = 150
"""The newest documents of a named time, and the newest IMPORTANT ones, that are weighed if only a time is named."""
IMPORTANT = 7
"""Of 10: what an agent called important, above the default of 5."""
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
    distinct_terms = list(dict.fromkeys(query_words))
    frequencies, _ = candidates.frequencies(distinct_terms)
    unsaid = [term for term, documents_saying in zip(distinct_terms, frequencies, strict=True) if not documents_saying]
    query_terms = corrected(candidates, query_words, unsaid)
    meaning = _meaning(candidates, question, query_terms)
    documents = pool_of(candidates, question, query_terms, meaning)
    if not len(documents):
        return []
    with span("rank", {"mnemolog.candidates": len(documents)}):
        results = results_of(candidates, question, query_terms, meaning, documents)
        return _to_hits(candidates.rows, documents, results, query_terms, explain=question.explain)


def _to_hits(
    rows: DocumentColumns,
    documents: NDArray[np.int64],
    results: native.Results,
    query_terms: Sequence[str],
    *,
    explain: bool,
) -> list[Hit]:
    """The results of a pool, each with those that repeat it; with `explain` also what each group of features adds."""
    groups = groups_of(results) if explain else {}
    names = [*PARTS[:2], *groups, *PARTS[2:]]
    hits: list[Hit] = []
    repeats: dict[int, list[Hit]] = {}
    rows_of_parts = zip(results.places.tolist(), results.numbers.tolist(), results.parts.tolist(), strict=True)
    for place, number, (score, answers, answerable, cosine, static, *others) in rows_of_parts:
        parts = [cosine, static, *(round(float(adds[place]), DIGITS) for adds in groups.values()), *others]
        is_repeat = number < len(hits)
        hit = hit_of(
            rows,
            int(documents[place]),
            score,
            zip(names, parts, strict=True),
            confidence=_or_none(answers),
            answerable=_or_none(answerable),
            terms=() if is_repeat else query_terms,
        )
        if is_repeat:
            repeats.setdefault(number, []).append(hit)
        else:
            hits.append(hit)
    return [replace(hit, repeats=repeats[number]) if number in repeats else hit for number, hit in enumerate(hits)]


def _or_none(figure: float) -> float | None:
    return None if figure != figure else figure


def results_of(
    candidates: Candidates,
    question: Question,
    query_terms: Sequence[str],
    meaning: Meaning,
    documents: NDArray[np.int64],
) -> native.Results:
    """The order of a pool, its scores, and what explains them; `documents` (n,) are its, in the order of their ids.

    `query_terms` are the question's words with their spelling corrected.
    """
    rows = candidates.rows
    stated, renewed_ms = rows.confidence.values[documents], rows.renewed_ms.values[documents]
    confidence = stated
    if renewed_ms.any():  # of lessons and memories
        is_memory = rows.is_of("mem_", documents)
        faded = decayed_confidence(stated, np.where(is_memory, 0, renewed_ms), question.now_ms)
        confidence = np.where(is_memory, faded_judgment(stated, renewed_ms, question.now_ms), faded)
    criteria = criteria_of(candidates, question, query_terms, meaning)
    return native.results(rows, documents, confidence, criteria)


def criteria_of(candidates: Candidates, question: Question, query_terms: Sequence[str], meaning: Meaning) -> Criteria:
    """What decides between the documents of a pool."""
    text, table, named, weights = question.text, candidates.table, question.named, shipped_weights()
    by_meaning_alone = question.mode == "vector"
    times = Counter(() if by_meaning_alone else query_terms)
    distinct_terms, cues = [*times], NO_CUES if by_meaning_alone else cues_of(text)
    hashes = hashed(term.encode() for term in distinct_terms)
    # an answer need not say the words that name the time
    of_time = set[str]() if named is None else {*question.words} - {*terms(named.rest)}
    in_table = np.zeros(len(hashes), np.bool_) if table is None else table.knows(hashes)
    identifiers = [] if by_meaning_alone else wholes(text)
    names = names_in(text)
    language_terms, language_values = _NO_LANGUAGE if table is None else terms_of_languages(table)
    half_life_days = question.half_life_days
    said_cues = cues_of(text)
    return Criteria(
        mode=MODES.index(question.mode),
        terms=hashes,
        times=np.array([*times.values()], np.float64),
        months=hashed(term.encode() for term in months(distinct_terms)),
        words=float(len(query_terms)),
        cues=np.array([getattr(cues, name) for name in CUES], np.float64),
        traits=_TRAITS,
        features=weights.features,
        kind=weights.kind,
        answerable=weights.answerable,
        share=weights.share,
        vector=_NO_VECTOR if meaning.vector is None else meaning.vector,
        static_vector=_NO_VECTOR if meaning.static is None else meaning.static,
        idf=idf_of(*candidates.frequencies(distinct_terms)),
        in_table=in_table,
        trust=np.array([1.0 if term in question.words else CORRECTED for term in distinct_terms]),
        counted=np.array([term not in of_time for term in distinct_terms], np.bool_),
        numbers=np.array([term.isalnum() and any(map(str.isdigit, term)) for term in distinct_terms], np.bool_),
        from_ms=0 if named is None else named.from_ms,
        to_ms=0 if named is None else named.to_ms,
        dates=_phrases(() if named is None else named.dates),
        identifiers=_phrases(identifiers),
        identifiers_share=sum(map(len, identifiers)) / max(1, len({*terms(text)})) if identifiers else 0.0,
        names=_phrases(names if query_terms == question.words else ()),
        exact=said_cues.exact,
        lookup=is_lookup(text),
        word_or_two=_is_word_or_two(question),
        remark=named is not None and not (said_cues.question_word or said_cues.question_mark),
        lists_parts=asks_parts(text) is not None,
        fold=question.fold and not said_cues.several,  # a question that counts needs each of them
        limit=question.limit,
        half_life_ms=0.0 if half_life_days is None else half_life_days * DAY_MS,
        alpha=HALF_LIFE_ALPHA if question.alpha is None else question.alpha,
        now_ms=question.now_ms,
        confidence_known=table is not None and question.mode == "hybrid",
        english=len(hashes) > 0 and is_english(text, in_table, surely=table is not None and not table.of_model),
        surely_english=len(hashes) > 0 and is_english(text, in_table, surely=True),
        of_model=table is not None and table.of_model,
        is_name=bool(names) or (_is_word_or_two(question) and not in_table.any()),
        language_terms=language_terms,
        language_values=language_values,
    )


def _phrases(phrases: Sequence[Sequence[str]]) -> TermRows:
    return TermRows.of(" ".join(phrase) for phrase in phrases)


def _of_time(
    rows: DocumentColumns, documents: NDArray[np.int64], said: TermRows, named: NamedTime
) -> NDArray[np.bool_]:
    """(n,), whether each occurred in the named time, or says a date of it other than its own."""
    occurred = rows.occurred_ms.values[documents]
    occurs = (named.from_ms <= occurred) & (occurred < named.to_ms)
    return np.any([occurs, *(said.in_order(date, DATE_TERMS) for date in named.dates)], axis=0)


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
    parts = {"importance": np.round(importance, DIGITS), "tool": tool}

    def at(chosen: Sequence[int]) -> list[Hit]:
        return hits(rows, documents, chosen, scores, parts)

    return [replace(at([result.place])[0], repeats=at(result.repeats)) for result in best[: question.limit]]


def _is_word_or_two(question: Question) -> bool:
    """Whether a question is a word or two; one in a script without spaces is a word of many terms."""
    return is_lookup(question.text) and (question.text.isascii() or len({*question.words}) <= LOOKED_UP)


def pool_of(
    candidates: Candidates, question: Question, query_terms: Sequence[str], meaning: Meaning
) -> NDArray[np.int64]:
    """(n,), the candidates and their matching neighbors, in the order of their ids: sums over the pool depend on it.

    Bounded: two hundred and the tail, with two neighbors each; as many again of a time that the question names.
    """
    named = question.named
    within = [] if named is None else [candidates.within(named.from_ms, named.to_ms)]
    words: Sequence[str] = [] if question.mode == "vector" else query_terms
    with span("candidates"):
        return candidates.pool(words, meaning, CANDIDATES, within)


def _meaning(candidates: Candidates, question: Question, query_terms: Sequence[str]) -> Meaning:
    table = None if question.mode == "lexical" else candidates.table
    return Meaning(question.query_vector, None if table is None else table.embed_query(query_terms))


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
    near, cosine = nearest_first(rows, meaning, candidates.by_meaning(meaning, count), count)
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
    near, cosine = nearest_first(rows, meaning, candidates.by_meaning(meaning, count), count)
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
