"""What a search is given and what it gives back."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from projections.search.ranking import Mode
from projections.search.replica import IndexReplica

Ranking = Literal["fused", "similarity", "rrf"]
DAY_MS = 86_400_000


class Question(Struct, frozen=True, kw_only=True):
    """What is searched for, and how results are weighed.

    `limit` bounds the hits. `shown` is how many of them the asker shows (None: all), where that decides how deep a
    ranking looks. `ranking` says how they are ordered: `fused` is mnemolog's own; `similarity` is memex's, which
    `alpha` and `half_life_days` tune; `rrf` is agent-memory's, with `recency_boost`. `model` made the
    vector; an index of another refuses the question.
    """

    text: str
    vector: NDArray[np.float32] | None
    model: str = ""
    mode: Mode = "hybrid"
    limit: int = 10
    now_ms: int = 0
    half_life_days: float | None = None
    alpha: float | None = None
    ranking: Ranking = "fused"
    shown: int | None = None
    recency_boost: bool = True

    @property
    def depth(self) -> int:
        """How many results are shown."""
        return self.limit if self.shown is None else self.shown

    @property
    def query_vector(self) -> NDArray[np.float32] | None:
        """The vector, if there is one and the mode uses it."""
        return self.vector if self.mode != "lexical" and self.vector is not None and self.vector.size else None


class Hit(Struct, frozen=True):
    """One found document: where it is, its score, and how the score came about."""

    id: str
    partition: int
    kind: Literal["observation", "memory", "lesson", "summary"]
    score: float
    explain: dict[str, float]


def hits(
    index: IndexReplica,
    documents: NDArray[np.int64],
    places: Iterable[int],
    scores: NDArray[np.float64],
    parts: Mapping[str, NDArray[Any]],
    digits: int | None = None,
) -> list[Hit]:
    """The hits at these places of `documents`, in that order; `parts` explain, nan says nothing and is left out.

    With `digits` all figures are rounded.
    """
    return [
        Hit(
            id=index.ids[ordinal],
            partition=int(index.partition[ordinal]),
            kind=_kind(index.ids[ordinal]),
            score=_figure(scores[place], digits),
            explain={name: _figure(part[place], digits) for name, part in parts.items() if part[place] == part[place]},
        )
        for place, ordinal in ((place, int(documents[place])) for place in places)
    ]


def age_days(index: IndexReplica, documents: NDArray[np.int64], now_ms: int) -> NDArray[np.float64]:
    """Days since each document occurred, `(n,) float64`; 0 for one from the future."""
    return np.maximum(0, now_ms - index.occurred_ms.values[documents]) / DAY_MS


def _figure(value: Any, digits: int | None) -> float:
    return float(value) if digits is None else round(float(value), digits)


def _kind(name: str) -> Literal["observation", "memory", "lesson", "summary"]:
    prefix = name.partition("_")[0]
    return {"obs": "observation", "mem": "memory", "lsn": "lesson"}.get(prefix, "summary")  # type: ignore[return-value]
