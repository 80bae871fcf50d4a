"""The order of results: by score, equals by document id, so that every replica of the same documents answers alike."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from projections.search.replica import IndexReplica


def best_first(
    index: IndexReplica, documents: NDArray[np.int64], scores: NDArray[np.floating[Any]], count: int
) -> list[int]:
    """The places in `documents` of the best `count`, best first; of equal scores the smallest id first."""
    places = _kept(index, documents, scores, count) if len(documents) > count else np.arange(len(documents))
    order: list[tuple[float, str, int]] = [
        (-value, index.ids[ordinal], place)
        for value, ordinal, place in zip(
            scores[places].tolist(), documents[places].tolist(), places.tolist(), strict=True
        )
    ]
    return [place for _, _, place in sorted(order)][: max(0, count)]


def _kept(
    index: IndexReplica, documents: NDArray[np.int64], scores: NDArray[np.floating[Any]], count: int
) -> NDArray[np.intp]:
    """The places of a few more than the best `count`: of those equal at the cut, the first by the packed id."""
    if count <= 0:
        return np.empty(0, np.intp)
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    above, equal = np.flatnonzero(scores > least), np.flatnonzero(scores == least)
    wanted = count - len(above)
    if len(equal) > wanted:
        keys = index.id_key.values[documents[equal]]
        equal = equal[keys <= np.partition(keys, wanted - 1)[wanted - 1]]
    return np.concatenate([above, equal])
