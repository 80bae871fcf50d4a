"""Pages of what matches a filter by when it happened, newest first. Runs in the index thread."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from projections.search.filters import ordinals
from projections.search.matching import Filter, matches
from projections.search.replica import IndexReplica

MAX_OF_ONE_MOMENT = 1_000
"""Documents of one millisecond up to which a page is given all of them, so that the asker may order them."""


class Window(NamedTuple):
    """The documents of a page, each as its time in ms and its ordinal; newest first, of one moment the greatest id.

    Before and behind the page itself are the others of the same moments as its ends, `skipped` of them before it. A
    moment of too many is in `crowded`, and not completed. `total` counts what matches.
    """

    found: list[tuple[int, int]]
    skipped: int
    crowded: frozenset[int]
    total: int


def window(index: IndexReplica, allowed: Filter, now_ms: int, offset: int, limit: int) -> Window:
    """The page of `limit` documents from `offset` on; empty behind the end."""
    documents = ordinals(matches(index, allowed, now_ms))
    total, end = len(documents), min(offset + limit, len(documents))
    if offset >= end:
        return Window([], 0, frozenset(), total)
    occurred = index.occurred_ms.values[documents]
    places = [total - end, total - 1 - offset]
    last, first = np.partition(occurred, places)[places].tolist()
    newer = int(np.count_nonzero(occurred > first))
    near = (occurred >= last) & (occurred <= first)
    times: list[int] = occurred[near].tolist()
    kept: list[int] = documents[near].tolist()
    newest_first = sorted(zip(times, [index.ids[one] for one in kept], kept, strict=True), reverse=True)
    many = Counter(at_ms for at_ms in times if at_ms in (first, last))
    crowded = frozenset(at_ms for at_ms, count in many.items() if count > MAX_OF_ONE_MOMENT)
    start = offset - newer if first in crowded else 0
    found = newest_first[start : end - newer if last in crowded else None]
    return Window([(at_ms, one) for at_ms, _, one in found], offset - newer - start, crowded, total)
