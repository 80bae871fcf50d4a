"""Insights: what several documents about one concept amount to.

Guarantee: pure, extractive, and the order of the items only decides between equals. Every insight names the items that
say so, in these words or nearly these; what is told as agreed was said in at least two places that do not know of each
other.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from projections.compression.sentences import best, closed, distinct, leading, term_set
from projections.condensing.claims import SAME_CLAIM, claim_groups, claims_in
from projections.condensing.topics import mentions, topics_of
from projections.documents.lessons import strengthened
from projections.search.similarity import SIMILAR_ABOVE

MIN_ITEMS = 3
MIN_ORIGINS = 2
PER_CLUSTER = 5
INSIGHTS = 50

_OVERVIEW_SENTENCES = 3
"""More is a summary, not an insight."""
_CONCEPTS = 5
"""Of an insight, its cluster's included; more than these connects everything with everything."""


class Item(Struct, frozen=True):
    """A document to reflect on: a memory, a lesson, an observation.

    `origin` is where it was said, a session for instance; items of one origin do not confirm each other. An empty one
    is the item itself.
    """

    id: str
    concepts: list[str]
    text: str
    confidence: float
    origin: str = ""


class Insight(Struct, frozen=True):
    """A conclusion. The first concept is that of its cluster; `sources` are ids of items."""

    content: str
    confidence: float
    concepts: list[str]
    sources: list[str]


class _ItemStatements(Struct, frozen=True):
    """An item and what it states, never nothing."""

    item: Item
    statements: list[str]


def insights(items: Iterable[Item], max_clusters: int = 10) -> list[Insight]:
    """Returns the insights of the largest concept clusters, at most 5 each and 50 in all; none is nearly another.

    A cluster gives what items of several origins state alike, the most often said first, surer with each origin. One
    in which nothing is, gives an overview: `<concept>: ` and the most central sentences that say it, as sure as their
    sources on average.
    """
    found: list[Insight] = []
    for concept, members in clusters(items)[:max_clusters]:
        said = [_ItemStatements(item, stated) for item in members if (stated := claims_in(item.text))]
        if len({_origin(one.item) for one in said}) >= MIN_ORIGINS:
            found += _recurring(concept, said)[:PER_CLUSTER] or _overview(concept, said)
    different = claim_groups([insight.content for insight in found], SAME_CLAIM)
    return [found[group[0]] for group in different][:INSIGHTS]


def clusters(items: Iterable[Item]) -> list[tuple[str, list[Item]]]:
    """Returns the topics that at least three items have, with them; largest first, ties by topic."""
    by_concept: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        for concept in topics_of(item.concepts):
            by_concept[concept].append(item)
    large = [(concept, members) for concept, members in by_concept.items() if len(members) >= MIN_ITEMS]
    return sorted(large, key=lambda one: (-len(one[1]), one[0]))


def _origin(item: Item) -> str:
    return item.origin or item.id


def _overview(concept: str, said: Sequence[_ItemStatements]) -> list[Insight]:
    """The most central sentences with the concept, one of an item, so that an overview speaks for several; none where
    they are alike, nor where a tag such as "decision" is all that they have in common.
    """
    saying = [(one.item, [text for text in one.statements if mentions(text, concept)]) for one in said]
    saying = [(item, stated) for item, stated in saying if stated]
    leads = leading([stated for _, stated in saying])
    different = distinct([term_set(lead) for _, lead in leads], SIMILAR_ABOVE)
    chosen = [different[place] for place in best([leads[index][0] for index in different], _OVERVIEW_SENTENCES)]
    sources = [saying[index][0] for index in chosen]
    if len({_origin(item) for item in sources}) < MIN_ORIGINS:
        return []
    confidence = round(sum(item.confidence for item in sources) / len(sources), 3)
    content = f"{concept}: {' '.join(closed(leads[index][1]) for index in chosen)}"
    return [Insight(content, confidence, _concepts(concept, sources), [item.id for item in sources])]


def _recurring(concept: str, said: Sequence[_ItemStatements]) -> list[Insight]:
    """What items of at least two origins state alike, in the first wording."""
    stated = [(one.item, text) for one in said for text in one.statements]
    found: list[tuple[int, Insight]] = []
    for group in claim_groups([text for _, text in stated], SAME_CLAIM):
        sources = list({stated[index][0].id: stated[index][0] for index in group}.values())
        origins = len({_origin(item) for item in sources})
        if origins >= MIN_ORIGINS:
            content, ids = closed(stated[group[0]][1]), [item.id for item in sources]
            found.append((origins, Insight(content, _agreed(sources, origins), _concepts(concept, sources), ids)))
    found.sort(key=lambda one: (-one[0], -one[1].confidence))
    return [insight for _, insight in found]


def _agreed(sources: Sequence[Item], origins: int) -> float:
    """The surest item's confidence, reinforced by each other origin as a lesson said again is."""
    confidence = max(item.confidence for item in sources)
    for _ in range(origins - 1):
        confidence = strengthened(confidence)
    return round(confidence, 3)


def _concepts(concept: str, sources: Iterable[Item]) -> list[str]:
    """The cluster's concept, then those that most sources share with it."""
    counted = Counter(other for item in sources for other in sorted(topics_of(item.concepts) - {concept}))
    return [concept, *(other for other, _ in counted.most_common(_CONCEPTS - 1))]
