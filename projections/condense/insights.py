"""Insights: what several documents about one concept amount to.

Guarantee: pure, extractive, and the order of the items only decides between equals. Every insight names the items that
say so, in these words or nearly these.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from projections.condense.sentences import (
    alike_groups,
    best,
    closed,
    distinct,
    leading,
    statements,
    term_set,
)
from projections.lesson_rules import strengthened
from projections.similarity import SIMILAR_ABOVE

MIN_ITEMS = 3
PER_CLUSTER = 5
INSIGHTS = 50

_OVERVIEW_SENTENCES = 3
"""More is a summary, not an insight."""
_CONCEPTS = 5
"""Of an insight, its cluster's included; more than these connects everything with everything."""


class Item(Struct, frozen=True):
    """A document to reflect on: a memory, a lesson, an observation."""

    id: str
    concepts: list[str]
    text: str
    confidence: float


class Insight(Struct, frozen=True):
    """A conclusion. The first concept is that of its cluster; `sources` are ids of items."""

    content: str
    confidence: float
    concepts: list[str]
    sources: list[str]


class _Said(Struct, frozen=True):
    """An item and what it states, never nothing."""

    item: Item
    statements: list[str]


def insights(items: Iterable[Item], max_clusters: int = 10) -> list[Insight]:
    """Returns the insights of the largest concept clusters, at most 5 each and 50 in all; no content twice.

    A cluster first gives an overview, `<concept>: ` and its most central sentences, as sure as its sources on average;
    then what several of its items state alike, the most often said first, surer with each.
    """
    found: dict[str, Insight] = {}
    for concept, members in clusters(items)[:max_clusters]:
        said = [_Said(item, stated) for item in members if (stated := statements(item.text))]
        if said:
            for insight in [_overview(concept, said), *_recurring(concept, said)][:PER_CLUSTER]:
                found.setdefault(insight.content, insight)
    return list(found.values())[:INSIGHTS]


def clusters(items: Iterable[Item]) -> list[tuple[str, list[Item]]]:
    """Returns the lower-cased concepts that at least three items have, with them; largest first, ties by concept."""
    by_concept: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        for concept in _lowered(item) - {""}:
            by_concept[concept].append(item)
    large = [(concept, members) for concept, members in by_concept.items() if len(members) >= MIN_ITEMS]
    return sorted(large, key=lambda one: (-len(one[1]), one[0]))


def _overview(concept: str, said: Sequence[_Said]) -> Insight:
    """The most central sentences, one of an item, so that an overview speaks for several."""
    leads = leading([one.statements for one in said])
    different = distinct([term_set(lead) for _, lead in leads], SIMILAR_ABOVE)
    chosen = [different[place] for place in best([leads[index][0] for index in different], _OVERVIEW_SENTENCES)]
    sources = [said[index].item for index in chosen]
    confidence = round(sum(item.confidence for item in sources) / len(sources), 3)
    content = f"{concept}: {' '.join(closed(leads[index][1]) for index in chosen)}"
    return Insight(content, confidence, _concepts(concept, sources), [item.id for item in sources])


def _recurring(concept: str, said: Sequence[_Said]) -> list[Insight]:
    """What at least two items state alike, in the first wording."""
    stated = [(one.item, text) for one in said for text in one.statements]
    found: list[Insight] = []
    for group in alike_groups([term_set(text) for _, text in stated], SIMILAR_ABOVE):
        sources = list({stated[index][0].id: stated[index][0] for index in group}.values())
        if len(sources) > 1:
            content, ids = closed(stated[group[0]][1]), [item.id for item in sources]
            found.append(Insight(content, _agreed(sources), _concepts(concept, sources), ids))
    return sorted(found, key=lambda one: (-len(one.sources), -one.confidence))


def _agreed(sources: Sequence[Item]) -> float:
    """The surest item's confidence, reinforced by each of the others as a lesson said again is."""
    confidence = max(item.confidence for item in sources)
    for _ in sources[1:]:
        confidence = strengthened(confidence)
    return round(confidence, 3)


def _concepts(concept: str, sources: Iterable[Item]) -> list[str]:
    """The cluster's concept, then those that most sources share with it."""
    counted = Counter(other for item in sources for other in sorted(_lowered(item) - {"", concept}))
    return [concept, *(other for other, _ in counted.most_common(_CONCEPTS - 1))]


def _lowered(item: Item) -> set[str]:
    return {concept.strip().lower() for concept in item.concepts}
