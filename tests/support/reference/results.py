"""The order of a pool and what explains it, in numpy: the oracle of the compiled results.

Features and evidence are those of the compiled functions, which have an oracle of their own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from reference.pools import Pool, Scores, evidence, score, stretched

from projections.search.candidates import Candidates, DocumentColumns, Meaning
from projections.search.decay import decayed_confidence, faded_judgment
from projections.search.languages import is_english, terms_of_languages
from projections.search.question import Question
from projections.search.ranking import CORRECTED, Floats, idf_of, shipped_weights
from projections.text.cues import BESIDE_TEXT, DATE_TERMS, PROMPT, TOOL_OUTPUT, asks_parts, cues_of, is_lookup
from projections.text.similarity import Distinct, distinct
from projections.text.terms import names_in, terms, wholes
from projections.vectors.columns import hashed
from projections.vectors.static import StaticTable

Mask = NDArray[np.bool_]

# explained by the constants of the same names in projections/kernel/native/src/results.cpp
SUMMARY_WEIGHT = 0.5
IMPORTANCE_LIFT = 0.02
RELATED_FROM = 0.4
FIRST_BY = 2.0
WHOLE_LIFT = 4.0
TOOL_WEIGHT = 0.8
ECHO_FROM, ECHO_WEIGHT = 0.5, 0.5
PARTS_FROM, PARTS_WEIGHT, PARTS_DECAY = 2, 1.2, 0.7
DIGITS, CONFIDENCE_DIGITS = 6, 3
BY_COSINE = (12.0, -5.9)
FIRST, READ = 10, 100
KNOWN_OF_ENGLISH, KNOWN_OF_CODE = 0.53, 0.3
FUNCTION_WORDS_FROM, KINDS_FROM = 0.13, 4

LOOKED_UP = 3
"""Terms of a look-up in a script without spaces."""
ALPHA = 0.7
DAY_MS = 86_400_000


class Results(NamedTuple):
    """The results of a question, best first, each with its repeats: their numbers in the pool."""

    best: list[Distinct]
    parts: dict[str, Floats]
    """(n,) each, of the pool; nan for a part that does not count."""


class _Measured(NamedTuple):
    """What a pool says of a question."""

    pool: Pool
    scores: Scores
    inside: Mask
    """(n,), which are of the time that the question names."""
    counted: Mask
    """(terms,), which do not name that time."""
    terms: list[str]
    idf: Floats
    near: Floats
    in_table: Mask
    evidence: Floats


def results(
    candidates: Candidates,
    question: Question,
    query_terms: Sequence[str],
    meaning: Meaning,
    documents: NDArray[np.int64],
) -> Results:
    """Return the results of a pool, whose `documents` are in the order of their ids."""
    rows, cues = candidates.rows, cues_of(question.text)
    measured = _measured(candidates, question, query_terms, Pool.of(rows, meaning, documents), documents)
    scores, pool = measured.scores, measured.pool
    first_of_time, whole = _time_lift(measured), _whole_lift(question, measured)
    echoes = scores.having(PROMPT) * (scores.said.sum(axis=1) >= ECHO_FROM * (pool.terms.lengths - BESIDE_TEXT))
    parts = {
        "cosine": np.asarray(pool.cosine, np.float64),
        "static": np.asarray(pool.static, np.float64),
        "first_of_time": first_of_time if first_of_time.any() else first_of_time * np.nan,
        "whole": whole if whole.any() else whole * np.nan,
        "relevance": stretched(scores.final + first_of_time + whole),
        "tool": np.where(scores.having(TOOL_OUTPUT) * (not cues.exact), TOOL_WEIGHT, 1.0),
        "echo": np.where(echoes * (not cues.exact), ECHO_WEIGHT, 1.0),
        "confidence": _confidence(rows, question, documents),
        "importance": rows.importance.values[documents].astype(np.float64),
        "recency": np.full(len(documents), np.nan),
    }
    weighed = _weigh(rows, question, parts, documents)
    order: list[int] = np.argsort(-np.round(weighed, DIGITS), kind="stable").tolist()
    matches = _matches(question, query_terms, measured)
    order = [number for number in order if matches[number]]
    if asks_parts(question.text):
        first = order[: PARTS_FROM * question.limit]
        order[: len(first)] = _covering(first, weighed, scores.said > 0, measured.idf)
        weighed[order[: len(first)]] = weighed[first]
    fold = question.fold and not cues.several
    order = order[: None if fold else question.limit]
    answerable = _answerable(candidates, question, order, measured)
    share = _share(np.where(rows.is_of("sum_", documents), _lowered(scores.final), scores.final))
    best = distinct(pool.terms, order, question.limit) if fold else [Distinct(number, []) for number in order]
    sure = {"answers": answerable * share, "answerable": answerable}
    rounded = {name: np.round(part, CONFIDENCE_DIGITS) for name, part in sure.items()}
    return Results(best, {"score": weighed, **rounded, **parts})


def _measured(
    candidates: Candidates, question: Question, query_terms: Sequence[str], pool: Pool, documents: NDArray[np.int64]
) -> _Measured:
    by_meaning_alone, named = question.mode == "vector", question.named
    distinct_terms = [] if by_meaning_alone else list(dict.fromkeys(query_terms))
    of_time = set[str]() if named is None else {*question.words} - {*terms(named.rest)}
    counted = np.array([term not in of_time for term in distinct_terms], np.bool_)
    inside = np.zeros(len(documents), np.bool_)
    if named is not None:
        occurred = candidates.rows.occurred_ms.values[documents]
        dated = [pool.terms.in_order(date, DATE_TERMS) for date in named.dates]
        inside = np.any([(named.from_ms <= occurred) & (occurred < named.to_ms), *dated], axis=0)
    scores = score(query_terms, pool, mode=question.mode, cues=cues_of(question.text), inside=inside)
    idf = idf_of(*candidates.frequencies(distinct_terms)) * (counted | inside.any())
    says_time = inside[:, None] & ~counted
    said, near = np.maximum(scores.said, says_time), np.maximum(scores.near, says_time)
    in_table = np.zeros(len(distinct_terms), np.bool_)
    if candidates.table is not None:
        in_table = candidates.table.knows(hashed(term.encode() for term in distinct_terms))
    trust = np.array([1.0 if term in question.words else CORRECTED for term in distinct_terms])
    speaks = evidence(said, near, idf, np.asarray(pool.static), pool.cosine, in_table, trust)
    return _Measured(pool, scores, inside, counted, distinct_terms, idf, near, in_table, speaks)


def _time_lift(measured: _Measured) -> Floats:
    final, inside = measured.scores.final, measured.inside
    best, best_inside = final.argmax(), np.where(inside, final, -np.inf).argmax()
    said = np.count_nonzero(measured.scores.said[:, measured.counted], axis=1)
    if not inside.any() or said[best_inside] < said[best]:
        return np.zeros(len(final))
    return np.where(inside, final[best] - final[best_inside] + FIRST_BY, 0.0)


def _whole_lift(question: Question, measured: _Measured) -> Floats:
    scores, lift = measured.scores, np.zeros(len(measured.inside))
    identifiers = [] if question.mode == "vector" else wholes(question.text)
    for identifier in identifiers:
        share = min(1.0, sum(map(len, identifiers)) / len({*terms(question.text)}))
        lift += measured.pool.terms.in_order(identifier) * WHOLE_LIFT * share / len(identifiers)
    if is_lookup(question.text) and scores.lexical.any():
        says = scores.lexical > 0
        lift += says * (np.ptp(scores.final) + WHOLE_LIFT * scores.lexical / scores.lexical.max())
    return lift


def _confidence(rows: DocumentColumns, question: Question, documents: NDArray[np.int64]) -> Floats:
    """Return (n,), a lesson's or memory's confidence now."""
    stated, renewed_ms = rows.confidence.values[documents], rows.renewed_ms.values[documents]
    is_memory = rows.is_of("mem_", documents)
    faded = faded_judgment(stated, renewed_ms, question.now_ms)
    decayed = decayed_confidence(stated, renewed_ms, question.now_ms)
    return np.where(renewed_ms == 0, stated, np.where(is_memory, faded, decayed))


def _weigh(rows: DocumentColumns, question: Question, parts: dict[str, Floats], documents: NDArray[np.int64]) -> Floats:
    """Return (n,), relevance with all weights; sets recency if the question has a half-life."""
    lift = np.where(rows.is_of("mem_", documents), 1 + IMPORTANCE_LIFT * (parts["importance"] - 5), 1.0)
    lift = np.where(rows.is_of("sum_", documents), SUMMARY_WEIGHT, lift)
    weighed = parts["relevance"] * parts["tool"] * parts["echo"] * (0.5 + 0.5 * parts["confidence"]) * lift
    if question.half_life_days is None:
        return weighed
    age = np.maximum(0, question.now_ms - rows.occurred_ms.values[documents])
    parts["recency"] = 0.5 ** (age / (question.half_life_days * DAY_MS))
    alpha = ALPHA if question.alpha is None else question.alpha
    return alpha * weighed + (1 - alpha) * parts["recency"]


def _matches(question: Question, query_terms: Sequence[str], measured: _Measured) -> Mask:
    every = np.ones(len(measured.inside), np.bool_)
    if question.mode != "hybrid":
        return every
    if (names := names_in(question.text)) and query_terms == question.words:
        return np.any([measured.pool.terms.in_order(name) for name in names], axis=0)
    says, cues = ((measured.scores.said > 0) & measured.counted).any(axis=1), cues_of(question.text)
    if question.named is not None and not (cues.question_word or cues.question_mark):
        return says | ~(measured.pool.cosine < RELATED_FROM)
    return says if _is_word_or_two(question) and says.any() else every


def _is_word_or_two(question: Question) -> bool:
    return is_lookup(question.text) and (question.text.isascii() or len({*question.words}) <= LOOKED_UP)


def _covering(order: Sequence[int], scores: Floats, says: Mask, idf: Floats) -> list[int]:
    values, says = scores[order], says[order]
    weights = PARTS_WEIGHT * idf[: says.shape[1]] / (idf.sum() or 1.0)
    numbers = [0][: len(order)]
    while len(numbers) < len(order):
        values[numbers[-1]] = -np.inf
        weights = np.where(says[numbers[-1]], PARTS_DECAY * weights, weights)
        numbers.append(int((values + says @ weights).argmax()))
    return [order[number] for number in numbers]


def _answerable(candidates: Candidates, question: Question, order: Sequence[int], measured: _Measured) -> Floats:
    """Return (n,), how likely the question has an answer, as far as each document tells; nan if unknown."""
    table, in_table, cosine = candidates.table, measured.in_table, measured.pool.cosine
    nothing = np.zeros(len(cosine))
    if table is None or question.mode != "hybrid":
        return nothing * np.nan
    if not measured.idf.sum():
        return nothing
    language = language_of(measured.pool, order, table)
    if language == "English" and is_english(question.text, in_table, surely=not table.of_model):
        return _probability(measured.evidence @ shipped_weights().answerable)
    embedded = not np.isnan(cosine).all()
    answers_unknown = in_table.any() and not embedded
    of_other = language == "other" and is_english(question.text, in_table, surely=True)
    if not table.of_model or of_other or answers_unknown:
        return nothing * np.nan
    answerable = nothing if in_table.any() else by_words(measured.terms, measured.near, measured.idf)
    if names_in(question.text) or (_is_word_or_two(question) and not in_table.any()):
        return answerable
    slope, constant = BY_COSINE
    return np.maximum(answerable, _probability(slope * np.fmax.reduce(cosine, initial=-1.0) + constant))


def language_of(pool: Pool, order: Sequence[int], table: StaticTable) -> str:
    """Return the language of most of the first results: English, code or other."""
    hashes, values = terms_of_languages(table)
    known = dict(zip(hashes.tolist(), values.reshape(-1, 2).tolist(), strict=True))
    first = [row.tolist() for row in pool.terms.beginnings(order[:FIRST], DATE_TERMS, READ) if len(row)]
    if not first:
        return "English"
    english, function_words = np.mean([np.mean([known.get(term, (0, 0)) for term in row], axis=0) for row in first], 0)
    kinds = {term for row in first for term in row if known.get(term, (0, 0))[1]}
    if english < KNOWN_OF_CODE or (function_words >= FUNCTION_WORDS_FROM and len(kinds) >= KINDS_FROM):
        return "other"
    return "English" if english >= KNOWN_OF_ENGLISH else "code"


def by_words(terms: Sequence[str], near: Floats, idf: Floats) -> Floats:
    """Return (n,), how likely a question without static vectors has an answer, by what each document says."""
    numbers = np.array([term.isalnum() and any(map(str.isdigit, term)) for term in terms], np.bool_)
    return np.minimum(1.0, 2 * (near > 0) @ idf / idf.sum()) * (near[:, numbers] > 0).all(axis=1)


def _lowered(column: Floats) -> Floats:
    return column.min() + SUMMARY_WEIGHT * (column - column.min())


def _share(final: Floats) -> Floats:
    slope, constant = shipped_weights().share
    return _probability(slope * (final - np.logaddexp.reduce(final)) + constant)


def _probability(log_odds: Floats) -> Floats:
    return 1 / (1 + np.exp(-log_odds))
