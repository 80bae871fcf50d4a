"""Alert rules and panels as Prometheus reads them; and what an expression gives for one scrape.

Evaluated are selectors, min, max and sum, arithmetic, comparisons and `and`. What needs a history (`rate`) is not.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families

Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = dict[Labels, float]
NONE: Labels = frozenset()

_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {"min": min, "max": max, "sum": sum}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}


class NeedsHistory(Exception):
    """The expression is about a time, not a moment."""


class Used(NamedTuple):
    """A series that an expression asks for, and labels that it relies on."""

    metric: str
    labels: frozenset[str]


def scraped(text: str) -> dict[str, Vector]:
    """Every series of a scrape."""
    results: dict[str, Vector] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            results.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return results


def used(expression: str) -> list[Used]:
    """What an expression asks for: each series with the labels by which it is selected and grouped."""
    return list(_used(promql.parse(expression), frozenset()))


def _used(expr: promql.Expr, grouped: frozenset[str]) -> Iterator[Used]:
    match expr:
        case promql.VectorSelector():
            yield Used(cast(str, expr.name), grouped | {matcher.name for matcher in expr.matchers.matchers})
        case promql.MatrixSelector():
            yield from _used(expr.vector_selector, grouped)
        case promql.AggregateExpr():
            yield from _used(expr.expr, grouped | frozenset(_labels(expr)))
        case promql.BinaryExpr():
            yield from _used(expr.lhs, grouped)
            yield from _used(expr.rhs, grouped)
        case promql.ParenExpr():
            yield from _used(expr.expr, grouped)
        case promql.Call():
            for arg in expr.args:
                yield from _used(arg, grouped)
        case _:
            return


def evaluated(expression: str, scrape: Mapping[str, Vector]) -> Vector:
    """The series that an expression gives; an alert fires for each. Raises NeedsHistory."""
    results = _evaluated(promql.parse(expression), scrape)
    return results if isinstance(results, dict) else {NONE: results}


def _evaluated(expr: promql.Expr, scrape: Mapping[str, Vector]) -> Vector | float:
    match expr:
        case promql.NumberLiteral():
            return expr.val
        case promql.VectorSelector():
            selected = scrape.get(cast(str, expr.name), {})
            return {labels: value for labels, value in selected.items() if _matches(dict(labels), expr)}
        case promql.AggregateExpr():
            groups: dict[Labels, list[float]] = {}
            by = _labels(expr)
            for labels, value in cast(Vector, _evaluated(expr.expr, scrape)).items():
                groups.setdefault(frozenset(label for label in labels if label[0] in by), []).append(value)
            return {labels: _AGGREGATES[str(expr.op)](values) for labels, values in groups.items()}
        case promql.BinaryExpr():
            return _combined(str(expr.op), _evaluated(expr.lhs, scrape), _evaluated(expr.rhs, scrape))
        case _:
            raise NeedsHistory(expr.prettify())


def _combined(op: str, left: Vector | float, right: Vector | float) -> Vector:
    assert isinstance(left, dict)
    others = right if isinstance(right, dict) else dict.fromkeys(left, right)
    pairs = [(labels, value, others[labels]) for labels, value in left.items() if labels in others]
    if op == "and":
        return {labels: value for labels, value, _ in pairs}
    if op == "/":
        return {labels: value / other for labels, value, other in pairs}
    return {labels: value for labels, value, other in pairs if _COMPARISONS[op](value, other)}


def _matches(labels: Mapping[str, str], selector: promql.VectorSelector) -> bool:
    for matcher in selector.matchers.matchers:
        assert matcher.op in (promql.MatchOp.Equal, promql.MatchOp.Re)
        pattern = matcher.value if matcher.op == promql.MatchOp.Re else re.escape(matcher.value)
        if not re.fullmatch(pattern, labels.get(matcher.name, "")):
            return False
    return True


def _labels(expr: promql.AggregateExpr) -> Sequence[str]:
    return () if expr.modifier is None else expr.modifier.labels
