"""One search of the index: filter, then the ranking that the question names. Runs in the index thread; never waits."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from ingest.platform.tracing import span
from projections.search.candidates import Candidates, DocumentColumns, Meaning, best_first, corrected, cosines_of
from projections.search.columns import TermRows, hashed
from projections.search.cues import (
    DATE_TERMS,
    NO_CUES,
    PROMPT,
    TOOL_OUTPUT_WEIGHT,
    cues_of,
    echo_weight,
    having,
    is_lookup,
    tool_weight,
)
from projections.search.dates import NamedTime
from projections.search.index import decayed_confidence
from projections.search.lexical import MAX_QUERY_TERMS
from projections.search.question import Hit, Question
from projections.search.ranking import (
    CORRECTED,
    Pool,
    Scores,
    confidence,
    confidence_by_words,
    idf_of,
    score,
    stretched,
)
from projections.search.similarity import Distinct, distinct
from projections.search.terms import required_terms, terms, wholes

DAY_MS = 86_400_000


def hits(
    rows: DocumentColumns,
    documents: NDArray[np.int64],
    places: Iterable[int],
    scores: NDArray[np.float64],
    parts: Mapping[str, NDArray[Any]],
    digits: int | None = None,
    sure: NDArray[np.float64] | None = None,
) -> list[Hit]:
    """The hits at these places of `documents`, in that order; `parts` explain, nan says nothing and is left out.

    With `digits` all figures are rounded. `sure` is their confidence.
    """
    return [
        Hit(
            id=rows.ids[ordinal],
            partition=int(rows.partition[ordinal]),
            kind=_kind(rows.ids[ordinal]),
            score=_figure(scores[place], digits),
            explain={name: _figure(part[place], digits) for name, part in parts.items() if part[place] == part[place]},
            confidence=None if sure is None else round(float(sure[place]), CONFIDENCE_DIGITS),
        )
        for place, ordinal in ((place, int(documents[place])) for place in places)
    ]


def age_days(rows: DocumentColumns, documents: NDArray[np.int64], now_ms: int) -> NDArray[np.float64]:
    """Days since each document occurred, `(n,) float64`; 0 for one from the future."""
    return np.maximum(0, now_ms - rows.occurred_ms.values[documents]) / DAY_MS


def _figure(value: Any, digits: int | None) -> float:
    return float(value) if digits is None else round(float(value), digits)


def _kind(name: str) -> Literal["observation", "memory", "lesson", "summary"]:
    prefix = name.partition("_")[0]
    return {"obs": "observation", "mem": "memory", "lsn": "lesson"}.get(prefix, "summary")  # type: ignore[return-value]


Floats = NDArray[np.float64]

CANDIDATES = 100
"""From each leg; measured on LoCoMo: 30 costs 0.5 points of recall@10, more than 100 gives nothing."""
REACH = 1
"""Neighbours that join the pool on either side; two are no better (72.7 against 72.7 recall@5, measured on LoCoMo)."""
HALF_LIFE_ALPHA = 0.7
"""Weight of similarity against recency when a half-life is asked for and no weight is given."""
IMPORTANCE_LIFT = 0.02
"""A step of importance above or below 5 moves a memory by 2 %: among equals it decides, and nothing more. What an
observation's rules guess does not count."""
SUMMARY_WEIGHT = 0.5
"""A summary repeats what was said, of many things: who said it comes first."""
FIRST, READ_FOR_LANGUAGE, KNOWN_FROM = 10, 200, 0.53
"""Results, terms of each, and the share of them that the static table knows on average, from which what it does not
know tells something: of English work and code it knows 0.58 to 0.9, of German and Spanish 0.41 to 0.51."""
NAMED_TIME_LIFT = 2.5
"""In standard deviations of a leg, for what occurred in the time that the question names, or says a date of it. Of the
93 questions of LoCoMo (dev) that name one: recall@5 / @10 83.9 / 95.7 at 0, 86.0 / 96.1 at 1.5, 87.1 / 96.1 from 2 to
2.5, 86.0 / 96.1 at 3, 85.0 / 95.0 at 4."""
FIRST_BY = 0.5
"""Before the best of other times, what says as much and is of the time."""
WHOLE_LIFT = 4.0
"""In the same, for what says an identifier, path, version or address in the order of its parts, when it is all that is
asked; of agent work (dev) recall@5 is 41.9 with it and 40.2 without, over the 29 questions that have one."""
LISTED = 150
"""The newest of a named time, and of those that are IMPORTANT, which are weighed where nothing else is asked for."""
IMPORTANT = 7
CONFIDENCE_DIGITS = 3
DIGITS = 6
"""Scores that differ by less are equal, and equals are ordered by id."""


def fused(candidates: Candidates, question: Question) -> list[Hit]:
    """The best by relevance (0..1), sureness and importance; by recency too, when a half-life is given."""
    if question.named is not None and question.named.only:
        return _listed(candidates, question, question.named)
    query_terms = asked = terms(question.text)
    found, pool = pool_of(candidates, question, query_terms)
    understood = corrected(candidates, query_terms, _unsaid(query_terms, pool))
    if understood != query_terms:
        query_terms = understood
        found, pool = pool_of(candidates, question, query_terms)
    if not len(found):
        return []
    with span("rank", {"mnemolog.candidates": len(found)}):
        return _ranked(candidates, question, query_terms, asked, found, pool)


def _ranked(
    candidates: Candidates,
    question: Question,
    query_terms: Sequence[str],
    asked: Sequence[str],
    found: NDArray[np.int64],
    pool: Pool,
) -> list[Hit]:
    """The best of the pool; `query_terms` are those of `asked`, with what was corrected in them."""
    rows, cues = candidates.rows, cues_of(question.text)
    scores = score(query_terms, pool, mode=question.mode, cues=cues)
    counted = _of_other_than_time(question, query_terms)
    inside = np.zeros(len(found), np.bool_)
    if question.named is not None:
        inside = _of_time(rows, found, pool.terms, question.named)
    named, whole = _time_lift(inside, scores, counted), _whole_lift(question, pool.terms)
    relevance = stretched(scores.final + named + whole)
    weight, echo = tool_weight(cues, pool.terms), echo_weight(cues, scores.said, pool.terms)
    weighed, weights = _weigh(rows, question, relevance * weight * echo, found)
    parts = {
        "lexical": scores.lexical,
        "cosine": pool.cosine,
        "static": np.full(len(found), np.nan) if pool.static is None else pool.static,
        "mix": scores.mix,
        "author": scores.author,
        "coverage": scores.coverage,
        "neighbours": scores.neighbours,
        "episode": scores.episode,
        "speaker": scores.speaker,
        "time": scores.time,
        "spread": scores.spread,
        **{name: lift for name, lift in (("named_time", named), ("whole", whole)) if lift.any()},
        "relevance": relevance,
        "tool": weight,
        "echo": echo,
        **weights,
    }
    fold = question.fold and not cues.several  # who counts wants each of them
    order = best_first(rows, found, np.round(weighed, DIGITS), len(found) if fold else question.limit)
    best = distinct(pool.terms, order, question.limit) if fold else [Distinct(place, []) for place in order]
    sure = _sure(candidates, question, query_terms, frozenset(asked), pool, scores, order, counted, inside)
    return _told(rows, found, best, weighed, parts, sure, query_terms)


def _told(
    rows: DocumentColumns,
    found: NDArray[np.int64],
    best: Sequence[Distinct],
    scores: Floats,
    parts: Mapping[str, NDArray[Any]],
    sure: Floats | None,
    query_terms: Sequence[str],
) -> list[Hit]:
    """The hits at the places of `best`, each with those that repeat it."""
    shown = [place for one in best for place in (one.place, *one.repeats)]
    told = dict(zip(shown, hits(rows, found, shown, scores, parts, DIGITS, sure), strict=True))
    return [replace(told[one.place], repeats=[told[place] for place in one.repeats], terms=query_terms) for one in best]


def _of_time(rows: DocumentColumns, found: NDArray[np.int64], said: TermRows, named: NamedTime) -> NDArray[np.bool_]:
    """(n,), whether each occurred in the time, or says a date of it that is not its own."""
    occurred = rows.occurred_ms.values[found]
    occurs = (named.from_ms <= occurred) & (occurred < named.to_ms)
    return np.any([occurs, *(said.in_order(one, DATE_TERMS) for one in named.dates)], axis=0)


def _time_lift(inside: NDArray[np.bool_], scores: Scores, counted: NDArray[np.bool_]) -> Floats:
    """(n,), for what is `inside` the time that the question names.

    Where the best of it says as much of the question as the best of all, it comes before that: a text that is written
    every day would else be lost among all the others that say the same.
    """
    final = scores.final
    if not inside.any():
        return np.zeros(len(final))
    best, best_inside = int(final.argmax()), int(np.where(inside, final, -np.inf).argmax())
    said = np.count_nonzero(scores.said[:, counted[: scores.said.shape[1]]], axis=1)  # by vectors alone: of no terms
    behind = float(final[best] - final[best_inside]) * bool(said[best_inside] >= said[best])
    return np.where(inside, max(NAMED_TIME_LIFT, behind + FIRST_BY), 0.0)


def _of_other_than_time(question: Question, query_terms: Sequence[str]) -> NDArray[np.bool_]:
    """(distinct terms,), whether an answer should say each: it need not say the time that the question names."""
    named = set[str]() if question.named is None else {*terms(question.text)} - {*terms(question.named.rest)}
    return np.array([term not in named for term in dict.fromkeys(query_terms)], np.bool_)


def _whole_lift(question: Question, said: TermRows) -> Floats:
    """(n,), of WHOLE_LIFT the share that identifiers, paths, versions and addresses are of the question, for what says
    the parts of all of them in order."""
    asked = [] if question.mode == "vector" else wholes(question.text)
    if not asked:
        return np.zeros(len(said))
    share = sum(map(len, asked)) / len({*terms(question.text)})
    said_whole = np.sum([said.in_order(one) for one in asked], axis=0).astype(np.float64)
    return said_whole * (WHOLE_LIFT * min(1.0, share) / len(asked))


def _listed(candidates: Candidates, question: Question, named: NamedTime) -> list[Hit]:
    """The most important of a time, statements before prompts and the output of tools, newest first."""
    rows, inside = candidates.rows, candidates.within(named.from_ms, named.to_ms)
    dated = [ordinal for one in named.dates for ordinal in candidates.by_words(one, LISTED, every=True)]
    found = np.unique(np.array([*inside.newest(LISTED), *inside.newest(LISTED, IMPORTANT), *dated], np.int64))
    said = rows.terms.rows(found)
    kept = _of_time(rows, found, said, named)
    found, said = found[kept], rows.terms.rows(found[kept])
    importance = rows.importance.values[found].astype(np.float64) / 10
    tool = np.where(having(said, PROMPT), TOOL_OUTPUT_WEIGHT, tool_weight(NO_CUES, said))
    scores = np.round(importance * tool, DIGITS)
    newest = np.array(best_first(rows, found, rows.occurred_ms.values[found].astype(np.float64), len(found)), np.int64)
    order: list[int] = newest[np.argsort(-scores[newest], kind="stable")].tolist()
    best = distinct(said, order, question.limit) if question.fold else [Distinct(place, []) for place in order]
    best = best[: question.limit]
    return _told(rows, found, best, scores, {"importance": importance, "tool": tool}, None, [])


def _unsaid(query_terms: Sequence[str], pool: Pool) -> list[str]:
    """The terms that no candidate says."""
    distinct_terms = list(dict.fromkeys(query_terms))[:MAX_QUERY_TERMS]
    said = pool.terms.counts(distinct_terms).sum(axis=0)
    return [term for term, times in zip(distinct_terms, said, strict=True) if not times]


def _sure(
    candidates: Candidates,
    question: Question,
    query_terms: Sequence[str],
    asked: Set[str],
    pool: Pool,
    scores: Scores,
    order: Sequence[int],
    counted: NDArray[np.bool_],
    inside: NDArray[np.bool_],
) -> Floats | None:
    """How sure each of the pool is an answer; None where that is not known: without both words and static vectors, and
    where the first results are in a language that no static vector knows. Without words, as of punctuation, it is 0.

    What is `inside` the time that the question names says the words for it; where nothing is, they do not count.
    """
    distinct, table = list(dict.fromkeys(query_terms)), candidates.table
    if table is None or question.mode != "hybrid":
        return None
    if not distinct:
        return np.zeros(len(pool.terms))
    said, near = scores.said, scores.near
    idf = idf_of(*candidates.frequencies(distinct))
    if inside.any():
        of_time = inside[:, None] & ~counted
        said, near = np.maximum(said, of_time), np.maximum(near, of_time)
    else:
        idf = idf * counted
    known = table.knows(hashed(term.encode() for term in distinct))
    if not known.any():
        return confidence_by_words(distinct, near, idf)
    first = [pool.terms.beginning(place, DATE_TERMS, READ_FOR_LANGUAGE) for place in order[:FIRST]]
    shares = [table.knows(one).mean() for one in first if len(one)]
    if shares and np.mean(shares) < KNOWN_FROM:
        return None
    static = np.full(len(pool.terms), np.nan) if pool.static is None else pool.static
    trust = np.array([1.0 if term in asked else CORRECTED for term in distinct])
    return confidence(said, near, idf, static, pool.cosine, known, trust)


def pool_of(candidates: Candidates, question: Question, query_terms: Sequence[str]) -> tuple[NDArray[np.int64], Pool]:
    """The candidates, in the order of their ids, and what is known of them."""
    rows, meaning = candidates.rows, _meaning(candidates, question, query_terms)
    found = _pool(candidates, question, query_terms, meaning)
    pool = Pool(
        terms=rows.terms.rows(found),
        cosine=cosines_of(rows.vectors, meaning.vector, found),
        static=cosines_of(rows.static, meaning.static, found),
        episode=rows.episode.values[found],
        sequence=rows.sequence.values[found],
        author=rows.author.values[found],
        names=rows.author_terms(found),
    )
    return found, pool


def _meaning(candidates: Candidates, question: Question, query_terms: Sequence[str]) -> Meaning:
    table = None if question.mode == "lexical" else candidates.table
    return Meaning(question.query_vector, None if table is None else table.embed_query(query_terms))


def _pool(
    candidates: Candidates, question: Question, query_terms: Sequence[str], meaning: Meaning
) -> NDArray[np.int64]:
    """The candidates and their matching neighbours, in the order of their ids: sums over the pool depend on it.

    Bounded: two hundred and the tail, with two neighbours each; as many again of a time that the question names.
    """
    named = question.named
    every = [candidates] if named is None else [candidates, candidates.within(named.from_ms, named.to_ms)]
    with span("search by words"):
        said = [] if question.mode == "vector" else [one.by_words(query_terms, CANDIDATES) for one in every]
    with span("search by vectors"):
        near = [one.by_meaning(meaning, CANDIDATES).documents for one in every]
    found = np.unique(np.concatenate([*(np.array(some, np.int64) for some in said), *near]))
    places: list[int] = np.union1d(found, candidates.beside(found, REACH)).tolist()
    return np.array(sorted(places, key=candidates.rows.ids.__getitem__), np.int64)


def _weigh(
    rows: DocumentColumns, question: Question, relevance: Floats, pool: NDArray[np.int64]
) -> tuple[Floats, dict[str, Floats]]:
    """Relevance (0..1) times how sure a lesson still is and how important a memory was called; with recency if asked.

    `alpha * relevance + (1 - alpha) * exp(-ln 2 / half_life * age)`, memex's formula; age from `occurred_at`.
    """
    confidence = decayed_confidence(rows.confidence.values[pool], rows.renewed_ms.values[pool], question.now_ms)
    importance = rows.importance.values[pool].astype(np.float64)
    lift = np.where(rows.is_of("mem_", pool), 1 + IMPORTANCE_LIFT * (importance - 5), 1.0)
    lift = np.where(rows.is_of("sum_", pool), SUMMARY_WEIGHT, lift)
    weighed = relevance * (0.5 + 0.5 * confidence) * lift
    weights = {"confidence": confidence, "importance": importance}
    if question.half_life_days is not None:
        alpha = HALF_LIFE_ALPHA if question.alpha is None else question.alpha
        weights["recency"] = np.exp(-np.log(2) / question.half_life_days * age_days(rows, pool, question.now_ms))
        weighed = alpha * weighed + (1 - alpha) * weights["recency"]
    return weighed, weights


ALPHA = 0.7
HALF_LIFE_DAYS = 30.0
CANDIDATES_PER_RESULT, MAX_CANDIDATES = 3, 150


def similar(candidates: Candidates, question: Question) -> list[Hit]:
    """`alpha * similarity + (1 - alpha) * exp(-ln 2 / half_life_days * age_days)`, unrounded; equals newest first.

    Candidates are the `min(3 * shown, 150)` most similar by cosine, or as many as are shown. Beside them stand as many
    of those that have no vector, or what was just written would be lost: theirs is the share of the query's words
    that they say.
    """
    count = max(min(CANDIDATES_PER_RESULT * question.depth, MAX_CANDIDATES), question.depth)
    rows, meaning = candidates.rows, _meaning(candidates, question, terms(question.text))
    near, cosine = candidates.by_meaning(meaning, count)
    unembedded, said = waiting(candidates, question, meaning, count)
    documents = np.concatenate([near, unembedded])
    similarity = np.concatenate([cosine, said])
    half_life = HALF_LIFE_DAYS if question.half_life_days is None else question.half_life_days
    alpha = ALPHA if question.alpha is None else question.alpha
    recency = np.exp(-np.log(2) / half_life * age_days(rows, documents, question.now_ms))
    scores = alpha * similarity + (1 - alpha) * recency
    falling: list[float] = (-scores).tolist()
    ageing: list[int] = (-rows.occurred_ms.values[documents]).tolist()
    places: list[int] = documents.tolist()
    names = [rows.ids[place] for place in places]
    order = sorted(zip(falling, ageing, names, range(len(names)), strict=True))
    best = [place for *_, place in order[: question.limit]]
    parts = {"similarity": similarity, "recency": recency}
    return hits(rows, documents, best, scores, parts)


def waiting(
    candidates: Candidates, question: Question, meaning: Meaning, count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The best `count` of the documents without a cosine, and the share of the query's words each says.

    All of them when the query has no vectors.
    """
    rows, asked = candidates.rows, list(dict.fromkeys(terms(question.text)))
    found = candidates.without_vectors(meaning, asked, count)
    share = rows.said(found, asked).sum(axis=1) / max(1, len(asked))
    best = best_first(rows, found, share, count)
    return found[best], share[best]


K = 60
PER_RESULT = 2
"""From each list, for each result that is shown."""
WORDS = 10
"""Of the query, from its beginning, that the text list looks for: a document must say them all."""
RECENCY_DAYS = 10.0


def rrf(candidates: Candidates, question: Question) -> list[Hit]:
    """Sum of `1 / (60 + rank)` over the two lists, ranks from 0, times `1 + exp(-age_days / 10)`; unrounded.

    Vector and lexical mode have one list only, and without `recency_boost` age does not count.
    """
    rows, count = candidates.rows, PER_RESULT * question.depth
    said = [] if question.mode == "vector" else _by_text(candidates, question.text, count)
    lists = {"vector": _near(candidates, question, count, said), "text": said}
    documents = np.fromiter(dict.fromkeys([*lists["vector"], *lists["text"]]), np.int64)
    parts = {name: _reciprocal_ranks(ranked, documents) for name, ranked in lists.items()}
    scores = np.nansum(list(parts.values()), axis=0)
    if question.recency_boost:
        parts["recency"] = 1 + np.exp(-age_days(rows, documents, question.now_ms) / RECENCY_DAYS)
        scores = scores * parts["recency"]
    return hits(rows, documents, best_first(rows, documents, scores, question.limit), scores, parts)


def _near(candidates: Candidates, question: Question, count: int, said: Sequence[int]) -> list[int]:
    """The nearest `count`. What the model has not embedded stands among them, or what was just written would be lost:
    by its static vector, else by the share of the query's words that it says; unless it says them all, for then the
    text list has it.
    """
    rows, meaning = candidates.rows, _meaning(candidates, question, terms(question.text))
    near, cosine = candidates.by_meaning(meaning, count)
    if question.mode == "vector" or (meaning.vector is None and meaning.static is None):
        return near.tolist()
    unembedded, share = waiting(candidates, question, meaning, count)
    in_text = np.asarray(said, np.int64)
    joins = (share > 0) & ~np.isin(unembedded, in_text)
    kept = ~(rows.vectors.without(near) & np.isin(near, in_text))
    documents = np.concatenate([near[kept], unembedded[joins]])
    scores = np.concatenate([cosine[kept], share[joins]])
    return documents[best_first(rows, documents, scores, count)].tolist()


def _by_text(candidates: Candidates, text: str, count: int) -> list[int]:
    """The best `count` that say all the words. BM25 over just these: the tail has no place in tantivy's order yet."""
    rows, asked = candidates.rows, list(dict.fromkeys(required_terms(" ".join(text.split()[:WORDS]))))
    found = np.asarray(candidates.by_words(asked, count, every=True), np.int64)
    found = found[best_first(rows, found, np.zeros(len(found)), len(found))]
    alone = np.full(len(found), -1, np.int32)
    pool = Pool(rows.terms.rows(found), np.full(len(found), np.nan), alone, np.zeros_like(alone))
    lexical = np.round(score(asked, pool, mode="lexical").lexical, 9)
    return found[best_first(rows, found, lexical, count)].tolist()


def _reciprocal_ranks(ranked: Sequence[int], documents: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a list gives each document; nan for one that is not in it."""
    given = {document: 1 / (K + rank) for rank, document in enumerate(ranked)}
    return np.array([given.get(document, np.nan) for document in documents.tolist()], np.float64)


_RANKINGS = {"fused": fused, "similarity": similar, "rrf": rrf}


def search(candidates: Candidates, question: Question) -> list[Hit]:
    """The best documents for a question, best first, at most `limit`; of equal scores the smallest id first."""
    if not is_lookup(question.text):
        candidates.leave_out_prompts(list(dict.fromkeys(terms(question.text))))
    return _RANKINGS[question.ranking](candidates, question)
