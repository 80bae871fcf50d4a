"""The order of a pool and what explains it, in numpy: the oracle of the compiled results.

Features and evidence are those of the compiled functions, which have an oracle of their own.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from reference.pools import Pool, Scores, evidence, scored, stretched

from projections.kernel.module import native
from projections.search.candidates import DocumentColumns, cosines_of
from projections.search.ranking import MODES, Criteria, Floats
from projections.text.cues import BESIDE_TEXT, DATE_TERMS, PROMPT, TOOL_OUTPUT, TRAITS
from projections.text.similarity import Distinct, distinct
from projections.vectors.columns import TermRows

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


class Results(NamedTuple):
    """The results of a question, best first, each with its repeats: their numbers in the pool."""

    best: list[Distinct]
    parts: dict[str, Floats]
    """(n,) each, of the pool; nan for a part that does not count."""


def results(rows: DocumentColumns, documents: NDArray[np.int64], confidence: Floats, criteria: Criteria) -> Results:
    """Return what the compiled `results` returns."""
    texts, occurred, author = (
        rows.terms.rows(documents),
        rows.occurred_ms.values[documents],
        rows.author.values[documents],
    )
    pool = Pool(
        texts,
        cosines_of(rows.vectors, criteria.vector if criteria.vector.size else None, documents),
        rows.episode.values[documents],
        rows.sequence.values[documents],
        cosines_of(rows.static, criteria.static_vector if criteria.static_vector.size else None, documents),
        author,
        {number: rows.names[number].tolist() for number in author.tolist()},
        occurred,
        rows.importance.values[documents],
    )
    cosine, static, importance = (np.asarray(it, np.float64) for it in (pool.cosine, pool.static, pool.importance))
    inside = (criteria.from_ms <= occurred) & (occurred < criteria.to_ms)
    inside |= _say(texts, criteria.dates, DATE_TERMS).any(axis=0)
    scores = scored(criteria.terms.tolist(), pool, inside, criteria[:9])
    final, said = scores.final, scores.said
    of_time = inside[:, None] & ~criteria.counted
    idf = criteria.idf * (criteria.counted | inside.any())
    near = np.maximum(scores.near, of_time)
    speaks = evidence(np.maximum(said, of_time), near, idf, static, cosine, criteria.in_table, criteria.trust)
    first_of_time = _time_lift(final, inside, (said[:, criteria.counted] > 0).sum(axis=1))
    whole = _whole_lift(scores, texts, criteria)
    is_tool, is_prompt = (scores.traits[:, TRAITS.index(trait)] for trait in (TOOL_OUTPUT, PROMPT))
    echoes = is_prompt * (said.sum(axis=1) >= ECHO_FROM * (texts.lengths - BESIDE_TEXT))
    age_ms = np.maximum(0, criteria.now_ms - occurred)
    has_half_life = criteria.half_life_ms > 0
    parts = {
        "cosine": cosine,
        "static": static,
        "first_of_time": first_of_time if first_of_time.any() else first_of_time * np.nan,
        "whole": whole if whole.any() else whole * np.nan,
        "relevance": stretched(final + first_of_time + whole),
        "tool": np.where(is_tool * (not criteria.exact), TOOL_WEIGHT, 1.0),
        "echo": np.where(echoes * (not criteria.exact), ECHO_WEIGHT, 1.0),
        "confidence": confidence,
        "importance": importance,
        "recency": 0.5 ** (age_ms / criteria.half_life_ms) if has_half_life else np.full(len(documents), np.nan),
    }
    is_summary = rows.is_of("sum_", documents)
    lift = np.where(rows.is_of("mem_", documents), 1 + IMPORTANCE_LIFT * (importance - 5), 1.0)
    lift = np.where(is_summary, SUMMARY_WEIGHT, lift)
    weighed = parts["relevance"] * parts["tool"] * parts["echo"] * (0.5 + 0.5 * confidence) * lift
    if has_half_life:
        weighed = criteria.alpha * weighed + (1 - criteria.alpha) * parts["recency"]
    matches = _matches(texts, cosine, (said[:, criteria.counted] > 0).any(axis=1), criteria)
    order = [number for number in np.argsort(-np.round(weighed, DIGITS), kind="stable").tolist() if matches[number]]
    if criteria.lists_parts:
        first = order[: PARTS_FROM * criteria.limit]
        order[: len(first)] = _covering(first, weighed, said > 0, idf)
        weighed[order[: len(first)]] = weighed[first]
    order = order[: None if criteria.fold else criteria.limit]
    answerable = _answerable(texts, order, cosine, near, idf, speaks, criteria)
    lowered = final.min() + SUMMARY_WEIGHT * (final - final.min())
    answers = answerable * _share(np.where(is_summary, lowered, final), criteria)
    sure = {"answers": np.round(answers, CONFIDENCE_DIGITS), "answerable": np.round(answerable, CONFIDENCE_DIGITS)}
    best = distinct(texts, order, criteria.limit) if criteria.fold else [Distinct(number, []) for number in order]
    return Results(best, {"score": weighed, **sure, **parts})


def _say(texts: TermRows, phrases: TermRows, without_last: int = 0) -> Mask:
    """Return (phrases, n), whether each document says each of the phrases."""
    each = np.split(phrases.hashes, np.cumsum(phrases.lengths))[:-1]
    rows = [native.in_order(texts.hashes, texts.lengths, phrase, without_last) for phrase in each]
    return np.array(rows, np.bool_).reshape(len(each), len(texts))


def _time_lift(final: Floats, inside: Mask, said: NDArray[np.int64]) -> Floats:
    best, best_inside = final.argmax(), np.where(inside, final, -np.inf).argmax()
    if said[best_inside] < said[best]:
        return np.zeros(len(final))
    return np.where(inside, final[best] - final[best_inside] + FIRST_BY, 0.0)


def _whole_lift(scores: Scores, texts: TermRows, criteria: Criteria) -> Floats:
    say = _say(texts, criteria.identifiers)
    lift = say.sum(axis=0) * WHOLE_LIFT * min(1.0, criteria.identifiers_share) / max(1, len(say))
    if criteria.lookup and (lexical := scores.lexical).any():
        lift += (lexical > 0) * (np.ptp(scores.final) + WHOLE_LIFT * lexical / lexical.max())
    return lift


def _matches(texts: TermRows, cosine: Floats, says: Any, criteria: Criteria) -> Any:
    every = np.ones(len(texts), np.bool_)
    if MODES[criteria.mode] != "hybrid":
        return every
    if len(criteria.names):
        return _say(texts, criteria.names).any(axis=0)
    if criteria.remark:
        return says | ~(cosine < RELATED_FROM)
    return says if criteria.word_or_two and says.any() else every


def _covering(order: Sequence[int], scores: Floats, says: Mask, idf: Floats) -> list[int]:
    values, says, weights = scores[order], says[order], PARTS_WEIGHT * idf / (idf.sum() or 1.0)
    numbers = [0][: len(order)]
    while len(numbers) < len(order):
        values[numbers[-1]] = -np.inf
        weights = np.where(says[numbers[-1]], PARTS_DECAY * weights, weights)
        numbers.append(int((values + says @ weights).argmax()))
    return [order[number] for number in numbers]


def _answerable(
    texts: TermRows,
    order: Sequence[int],
    cosine: Floats,
    near: Floats,
    idf: Floats,
    speaks: Floats,
    criteria: Criteria,
) -> Floats:
    """Return (n,), how likely the question has an answer, as far as each document tells; nan if unknown."""
    nothing, knows_words = np.zeros(len(texts)), criteria.in_table.any()
    if not criteria.confidence_known:
        return nothing * np.nan
    if not idf.sum():
        return nothing
    language = _language(texts, order, criteria)
    if language == "English" and criteria.english:
        return _probability(speaks @ criteria.answerable)
    is_other = language == "other" and criteria.surely_english
    if not criteria.of_model or is_other or (knows_words and np.isnan(cosine).all()):
        return nothing * np.nan
    says = near > 0
    by_words = np.minimum(1.0, 2 * says @ idf / idf.sum()) * says[:, criteria.numbers].all(axis=1)
    answerable = nothing if knows_words else by_words
    slope, constant = BY_COSINE
    by_cosine = _probability(slope * np.fmax.reduce(cosine, initial=-1.0) + constant)
    return answerable if criteria.is_name else np.maximum(answerable, by_cosine)


def _language(texts: TermRows, order: Sequence[int], criteria: Criteria) -> str:
    values = criteria.language_values.reshape(-1, 2).tolist()
    known = dict(zip(criteria.language_terms.tolist(), values, strict=True))
    first = [row.tolist() for row in texts.beginnings(order[:FIRST], DATE_TERMS, READ) if len(row)]
    if not first:
        return "English"
    english, function_words = np.mean([np.mean([known.get(term, (0, 0)) for term in row], axis=0) for row in first], 0)
    kinds = {term for row in first for term in row if known.get(term, (0, 0))[1]}
    if english < KNOWN_OF_CODE or (function_words >= FUNCTION_WORDS_FROM and len(kinds) >= KINDS_FROM):
        return "other"
    return "English" if english >= KNOWN_OF_ENGLISH else "code"


def _share(final: Floats, criteria: Criteria) -> Floats:
    slope, constant = criteria.share
    return _probability(slope * (final - np.logaddexp.reduce(final)) + constant)


def _probability(log_odds: Floats) -> Floats:
    return 1 / (1 + np.exp(-log_odds))
