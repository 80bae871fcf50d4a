"""Compaction: the same index without the removed documents. What they said is in none of the new one's files.

An index only hides what was removed: tantivy keeps it until it merges the segment, hnswlib for ever, and the names of
its sessions and agents stay listed.
"""

from pathlib import Path

import numpy as np

from projections.search.columns import Column
from projections.search.filters import bitmap, lexical_facets, ordinals
from projections.search.replica import COLUMNS, IndexReplica

WORTHWHILE = 0.2
"""Share of dead ordinals from which compacting pays: below, they cost less than building the graph again."""


def is_worthwhile(index: IndexReplica) -> bool:
    """True when more than `WORTHWHILE` of the ordinals are dead."""
    return len(index.ids) - len(index) > WORTHWHILE * len(index.ids)


def compacted(index: IndexReplica, folder: Path, *, without_vectors_for: tuple[str, int] | None = None) -> IndexReplica:
    """A fresh index of the living documents, in the new `folder`; it answers as `index` does, which stays as it is.

    Ordinals are new, in the same order. Needs as much memory again, and a third of a millisecond for each vector.

    With `without_vectors_for` a model and its dimensions, vectors of that one are to be put into it, and no others are.
    """
    kept = ordinals(index.alive)
    places: list[int] = kept.tolist()
    model, dimensions = without_vectors_for or (index.model, index.vectors.dimensions)
    fresh = IndexReplica(folder, dimensions, model)
    fresh.ids = [index.ids[place] for place in places]
    fresh.ordinal_of = {name: ordinal for ordinal, name in enumerate(fresh.ids)}
    fresh.terms = [index.terms[place] for place in places]
    fresh.facets_of = [index.facets_of[place] for place in places]
    fresh.facets = index.facets.renumbered(kept)
    fresh.alive = bitmap(np.arange(len(kept)))
    for name in COLUMNS:
        setattr(fresh, name, Column.of(getattr(index, name).values[kept]))
    _renumber_authors(index, fresh)
    _renumber_episodes(index, fresh)
    if without_vectors_for is None:
        fresh.vectors = index.vectors.renumbered(kept)
    for ordinal, terms in enumerate(fresh.terms):
        fresh.lexical.add(ordinal, terms.decode(), lexical_facets(fresh.facets_of[ordinal]))
    fresh.lexical.commit()
    return fresh


def _renumber_authors(index: IndexReplica, fresh: IndexReplica) -> None:
    known, author = np.unique(fresh.author.values, return_inverse=True)
    fresh.authors = [index.authors[place] for place in known.tolist()]
    fresh.author_of = {name: place for place, name in enumerate(fresh.authors)}
    fresh.author = Column.of(author.astype(np.int32))


def _renumber_episodes(index: IndexReplica, fresh: IndexReplica) -> None:
    """Episodes with anybody left, in their order; sequences have no holes, so they stay."""
    names = list(index.episode_of)
    known = np.unique(fresh.episode.values)
    known = known[known >= 0]
    left: list[int] = known.tolist()
    fresh.episode_of = {names[place]: number for number, place in enumerate(left)}
    fresh.episodes = [[fresh.ordinal_of[index.ids[member]] for member in index.episodes[place]] for place in left]
    outside = fresh.episode.values < 0
    fresh.episode = Column.of(np.where(outside, -1, np.searchsorted(known, fresh.episode.values)).astype(np.int32))
