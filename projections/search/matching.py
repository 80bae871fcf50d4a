"""Which documents a search may find: the filter, answered by bitmaps and columns."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from projections.search.filters import BitMap, bitmap, facet, ordinals
from projections.search.replica import IndexReplica


class Filter(Struct, frozen=True, kw_only=True):
    """Which documents may be found; empty sequences and None do not restrict. Times are ms since the epoch.

    All `tags` are needed, and one each of `any_tags`, `kinds`, `types`, `files` and `concepts`. `reader` is who asks:
    memories for some readers only are found by those alone. `within` are the projects that the reader's key is for.
    `visibility` lets through the memories that have it.
    """

    tenant: str
    project: str | None = None
    projects: Sequence[str] = ()
    agent_id: str = ""
    session_id: str = ""
    user_id: str = ""
    kinds: Sequence[str] = ()
    tags: Sequence[str] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    as_of_ms: int | None = None
    reader: str = ""
    only_agent: str = ""
    within: Sequence[str] = ()
    operator: bool = False
    types: Sequence[str] = ()
    files: Sequence[str] = ()
    concepts: Sequence[str] = ()
    any_tags: Sequence[str] = ()
    visibility: str = ""


def matches(index: IndexReplica, allowed: Filter, now_ms: int) -> BitMap:
    """The documents that a filter allows."""
    matching = index.alive.copy()
    for keys in [*lexical_groups(allowed), *_other_groups(allowed)]:
        matching &= index.facets.any_of(keys)
    restricted = BitMap() if allowed.operator else index.facets.of(facet("restricted", "yes"))
    matching -= restricted - index.facets.of(facet("reader", allowed.reader)) if allowed.reader else restricted
    as_of = allowed.as_of_ms
    if as_of is None:
        matching -= index.facets.of(facet("retired", "yes"))
    else:
        _drop(matching, matching, index.recorded_ms.values, above=as_of)
        retired = matching & index.facets.of(facet("retired", "yes"))
        _drop(matching, retired, index.retired_ms.values, below=as_of + 1)
    expiring = matching & index.facets.of(facet("expiring", "yes"))
    _drop(matching, expiring, index.expires_ms.values, below=(now_ms if as_of is None else as_of) + 1)
    if allowed.from_ms is not None or allowed.to_ms is not None:
        _drop(matching, matching, index.occurred_ms.values, below=allowed.from_ms, above=allowed.to_ms)
    return matching


def lexical_groups(allowed: Filter) -> list[list[str]]:
    """Facet groups of which a document must have one value each, as far as the lexical index knows them."""
    wanted: list[tuple[str, Sequence[str]]] = [
        ("tenant", [allowed.tenant]),
        ("project", [] if allowed.project is None else [allowed.project]),
        ("project", allowed.projects),
        ("project", allowed.within),
        ("agent", [allowed.agent_id] if allowed.agent_id else []),
        ("agent", [allowed.only_agent] if allowed.only_agent else []),
        ("session", [allowed.session_id] if allowed.session_id else []),
        ("user", [allowed.user_id] if allowed.user_id else []),
        ("kind", allowed.kinds),
        ("tag", allowed.any_tags),
    ]
    return [_group(name, values) for name, values in wanted if values] + [_group("tag", [tag]) for tag in allowed.tags]


def _other_groups(allowed: Filter) -> list[list[str]]:
    visibility = [allowed.visibility] if allowed.visibility else []
    wanted = (
        ("type", allowed.types),
        ("file", allowed.files),
        ("concept", allowed.concepts),
        ("visibility", visibility),
    )
    return [_group(name, values) for name, values in wanted if values]


def _group(name: str, values: Sequence[str]) -> list[str]:
    return [facet(name, value) for value in values]


def _drop(
    matching: BitMap, among: BitMap, column: NDArray[np.int64], *, below: int | None = None, above: int | None = None
) -> None:
    """Take those of `among` out of `matching` whose value is under `below` or over `above`."""
    if not among:
        return
    members = ordinals(among)
    values = column[members]
    out = np.zeros(len(members), bool)
    if below is not None:
        out |= values < below
    if above is not None:
        out |= values > above
    matching -= bitmap(members[out])
