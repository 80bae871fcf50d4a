"""How far a reader reaches into the index: the filter that goes with it, and the newest of what it lets through."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ingest.ids import DocumentId
from projections.documents.access import Reader
from projections.search.filters import facet
from projections.search.order import best_first
from projections.search.replica import IndexReplica
from projections.search.search import Filter, matches

Place: TypeAlias = tuple[int, DocumentId]
"""Where a document is: its partition and its id."""


def reach(reader: Reader, project: str | None = None, **narrowing: Any) -> Filter:
    """The filter for what a reader may find, narrowed as a Filter can be."""
    return Filter(
        tenant=reader.tenant,
        reader=reader.agent_id,
        only_agent=reader.only_agent,
        operator=reader.operator,
        within=reader.reach.projects,
        project=project,
        **narrowing,
    )


def newest(index: IndexReplica, documents: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The `count` documents recorded last, newest first; of equals the smallest id. Runs in the index thread."""
    recorded = index.recorded_ms.values[documents].astype(np.float64)
    return documents[best_first(index, documents, recorded, count)]


def projects(index: IndexReplica, allowed: Filter, now_ms: int) -> list[str]:
    """The projects of the documents that a filter allows, by name. Runs in the index thread."""
    matching = matches(index, allowed, now_ms)
    return sorted(
        name for name in index.facets.values("project") if matching.intersect(index.facets.of(facet("project", name)))
    )


def places(index: IndexReplica, documents: NDArray[np.int64] | Sequence[int]) -> list[Place]:
    """Where these documents are, in the order given. Runs in the index thread."""
    return [(int(index.partition[ordinal]), DocumentId(index.ids[ordinal])) for ordinal in map(int, documents)]
