"""Queries of the engine, as text. Values are encoded (see `layout`), so nothing needs escaping. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from projections.search.question import Filter
from projections.search_engine.layout import NO, TERMS, VECTOR, YES, encoded, encoded_term

EF_RUNTIME = 200
"""Of the graph, as in the embedded index."""


def filter_query(allowed: Filter, now_ms: int, *more: str) -> str:
    """The documents that a filter allows, and that match `more`; `embedded` is not looked at."""
    return " ".join([*_clauses(allowed, now_ms, scored=False), *more])


def words_query(allowed: Filter, now_ms: int, terms: Sequence[str]) -> str:
    """Those of them that say all the terms. Only what they say counts for the score."""
    return " ".join([*_clauses(allowed, now_ms, scored=True), said_query(terms)])


def any_word_query(allowed: Filter, now_ms: int, weights: Mapping[str, float]) -> str:
    """Those of them that say any of the terms, each of which counts for the score by its weight."""
    words = "|".join(f"({said_query([term])}=>{{$weight: {weight:.4f}}})" for term, weight in weights.items())
    return " ".join([*_clauses(allowed, now_ms, scored=True), f"({words})"])


def said_query(terms: Sequence[str]) -> str:
    """The documents that say all the terms."""
    return f"@{TERMS}:({' '.join(map(encoded_term, terms))})"


def saying_query(allowed: Filter, now_ms: int, terms: Sequence[str], concept: str) -> str:
    """Those of them that say all the terms, or are about a concept."""
    said = [said_query(terms)] if terms else []
    return filter_query(allowed, now_ms, f"({' | '.join([*said, tag('concept', [concept])])})")


def like_query(allowed: Filter, now_ms: int, term: str, edits: int) -> str:
    """Those of them that say a term so many letters away, of which two swapped ones are two."""
    around = "%" * edits
    return filter_query(allowed, now_ms, f"@{TERMS}:({around}{encoded_term(term)}{around})")


def nearest_query(matching: str, policy: str) -> str:
    """The `$count` of the matching documents that are nearest to the vector `$vector`."""
    return f"({matching})=>[KNN $count @{VECTOR} $vector {policy}]"


def tag(name: str, values: Iterable[str]) -> str:
    """The documents with any of the values of a facet."""
    return f"@{name}:{{{'|'.join(map(encoded, values))}}}"


def written_tag(name: str, written: str) -> str:
    """The documents with one value of a facet, as it is written."""
    return f"@{name}:{{{written}}}"


def between(name: str, low: float | None, high: float | None) -> str:
    """The documents whose number is in a range, its ends included."""
    return f"@{name}:[{'-inf' if low is None else low} {'+inf' if high is None else high}]"


def _clauses(allowed: Filter, now_ms: int, *, scored: bool) -> list[str]:
    having = _unscored if scored else tag
    clauses = [having(name, values) for name, values in allowed.required()]
    if allowed.any_of:
        clauses.append(f"({' | '.join(having(name, [value]) for name, value in allowed.any_of)})")
    clauses += [f"-{tag(name, [value])}" for name, value in allowed.without]
    if allowed.importance_to is not None:
        clauses.append(between("importance", None, allowed.importance_to))
    if allowed.from_ms is not None or allowed.to_ms is not None:
        clauses.append(between("occurred", allowed.from_ms, allowed.to_ms))
    if allowed.retired:
        return [*clauses, having("retired", [YES])]
    if not allowed.operator:
        own = [having("reader", [allowed.reader])] if allowed.reader else []
        clauses.append(f"({' | '.join([having('restricted', [NO]), *own])})")
    as_of = allowed.as_of_ms
    in_use = having("retired", [NO])
    if as_of is not None:
        clauses.append(between("recorded", None, as_of))
        in_use = f"({in_use} | @retired_at:[({as_of} +inf])"
    then_ms = now_ms if as_of is None else as_of
    if allowed.expired:
        return [*clauses, in_use, having("expiring", [YES]), between("expires_at", None, then_ms)]
    return [*clauses, in_use, f"({having('expiring', [NO])} | @expires_at:[({then_ms} +inf])"]


def _unscored(name: str, values: Iterable[str]) -> str:
    """The same; nothing of it is added to a document's score.

    The engine adds how rare the value is, and takes the weight for a tag of several values only: so one is said twice.
    """
    written = list(map(encoded, values))
    return f"@{name}:{{{'|'.join(written if len(written) > 1 else 2 * written)}}}=>{{$weight: 0}}"
