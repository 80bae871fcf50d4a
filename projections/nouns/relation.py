"""Relations: edges between documents, their confidence, and the memories related to one.

The figures are agentmemory's. The walk is a step machine, because edges come from a store one level at a time:

    walk = Walk.start(memory)
    while walk.frontier:
        walk = walk.step(await edges_of(walk.frontier))
"""

from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ingest.events.envelope import Recorded, route_of
from ingest.ids import DocumentId, relation_id
from ingest.kinds import RELATION
from ingest.nouns.relation import RelationLinked, RelationUnlinked
from projections.nouns import rows
from projections.nouns.batch import fold_one

UNKNOWN_CONFIDENCE = 0.5
"""Of a relation or link without a rating; an estimate starts from it."""
SESSION_GAIN = 0.1
MOST_FOR_SESSIONS = 0.3
FRESH_DAYS = 7
STALE_DAYS = 90
AGE_SHIFT = 0.1
"""Gained when both memories are younger than FRESH_DAYS, lost when both are older than STALE_DAYS."""
SHIFT_BY_RELATION = {"supersedes": 0.1, "contradicts": -0.05}
DECIMALS = 3

MAX_HOPS = 5
DEFAULT_HOPS = 2
MAX_VISITED = 500


class Edge(Struct, frozen=True):
    """A relation of one memory to another; `confidence` is None if unknown."""

    source: str
    target: str
    relation: str
    confidence: float | None = None


class RelatedMemory(Struct, frozen=True):
    """A memory that was reached: the confidence is that of the last relation on the path."""

    id: str
    hops: int
    confidence: float
    path: tuple[str, ...]
    """The relations walked along, the start's first."""


class Walk(Struct, frozen=True):
    """A breadth-first walk along relations in both directions. `frontier` is whose edges the next step needs.

    An empty frontier ends it: nothing new was reached, the hops are used up, or enough was visited.
    """

    origin: str
    frontier: tuple[str, ...]
    found: dict[str, RelatedMemory]
    hops: int
    max_hops: int
    max_visited: int

    @classmethod
    def start(cls, origin: str, max_hops: int = DEFAULT_HOPS, max_visited: int = MAX_VISITED) -> "Walk":
        """A walk that has visited its origin only. `max_hops` counts as MAX_HOPS when it is more."""
        hops = max(0, min(MAX_HOPS, max_hops))
        return cls(origin, (origin,) if hops else (), {}, 0, hops, max_visited)

    def step(self, edges: Iterable[Edge]) -> "Walk":
        """The walk one hop further. Edges that do not touch the frontier are ignored.

        Of several that lead to one memory the one with the highest confidence counts; memories are visited in that
        order while there is room.
        """
        reached: dict[str, RelatedMemory] = {}
        here = set(self.frontier)
        for edge in edges:
            for near, far in ((edge.source, edge.target), (edge.target, edge.source)):
                if near in here and far != self.origin and far not in self.found:
                    path = () if near == self.origin else self.found[near].path
                    sure = UNKNOWN_CONFIDENCE if edge.confidence is None else _clamped(edge.confidence)
                    candidate = RelatedMemory(far, self.hops + 1, sure, (*path, edge.relation))
                    reached[far] = min(reached.get(far, candidate), candidate, key=_order)
        room = max(0, self.max_visited - 1 - len(self.found))
        taken = sorted(reached.values(), key=_order)[:room]
        hops = self.hops + 1
        return replace(
            self,
            frontier=tuple(related.id for related in taken) if hops < self.max_hops else (),
            found={**self.found, **{related.id: related for related in taken}},
            hops=hops,
        )

    def related(self, min_confidence: float = 0.0) -> list[RelatedMemory]:
        """What was reached with at least this confidence: highest first, then the nearest, then by id.

        Only the result is filtered, not the path: each memory counts by the last relation on it.
        """
        return sorted((related for related in self.found.values() if related.confidence >= min_confidence), key=_order)


def confidence(given: float | None, relation: str, shared_sessions: int, ages_days: tuple[float, float]) -> float:
    """Returns the confidence of a new relation, 0 to 1: the one given, else an estimate, 3 decimals.

    An estimate rises with the sessions the two memories share and while both are fresh, and falls once both are stale.
    """
    if given is not None:
        return _clamped(given)
    sure = UNKNOWN_CONFIDENCE + min(MOST_FOR_SESSIONS, SESSION_GAIN * max(0, shared_sessions))
    if max(ages_days) < FRESH_DAYS:
        sure += AGE_SHIFT
    elif min(ages_days) > STALE_DAYS:
        sure -= AGE_SHIFT
    return round(_clamped(sure + SHIFT_BY_RELATION.get(relation, 0.0)), DECIMALS)


def _clamped(value: float) -> float:
    return max(0.0, min(1.0, value))


def _order(related: RelatedMemory) -> tuple[float, int, str, tuple[str, ...]]:
    return -related.confidence, related.hops, related.id, related.path


class Relation(rows.Row, index=True):
    """One relation, from `source` to `target`. `occurred_ms` is when it was first said, `created_ms` when that was
    recorded."""

    PREFIX: ClassVar[str] = RELATION

    id: str = ""
    tenant: str = ""
    project: str = ""
    source: str = ""
    target: str = ""
    relation: str = ""
    confidence: float = UNKNOWN_CONFIDENCE
    derived_from: str = ""
    agent_id: str = ""
    user_id: str = ""
    occurred_ms: int = 0
    created_ms: int = 0
    updated_ms: int = 0
    position: str = ""

    @property
    def sources(self) -> list[str]:
        """The documents it was derived from."""
        return rows.split(self.derived_from)

    def listing_members(self) -> set[tuple[str, str]]:
        member = rows.by_position(self.position, self.id)
        return {
            (relations(self.tenant, self.project), member),
            (edges(self.tenant, self.source), self.id),
            (edges(self.tenant, self.target), self.id),
            *((rows.derived(source), self.id) for source in self.sources),
            *rows.in_user_listing(self.tenant, self.user_id, member),
        }


relations = rows.project_listing("relations")
"""Listing of a project's relations, in log order."""
edges = rows.project_listing("edges")
"""Listing of the relations that begin or end at something."""


def id_of(recorded: Recorded, data: RelationLinked | RelationUnlinked) -> DocumentId:
    """The id of the relation that an event is about."""
    return relation_id(route_of(recorded.envelope, data), data.source, data.relation, data.target)


def evolve(relation: Relation | None, recorded: Recorded, data: RelationLinked | RelationUnlinked) -> Relation | None:
    """The relation after it was stated (again: the newer confidence counts); None once it is withdrawn."""
    if isinstance(data, RelationUnlinked):
        return None
    current = relation or Relation(
        **rows.row_origin(recorded),
        id=id_of(recorded, data),
        source=data.source,
        target=data.target,
        relation=data.relation,
        created_ms=recorded.recorded_ms,
    )
    confidence = current.confidence if data.confidence is None else data.confidence
    sources = rows.joined(dict.fromkeys([*current.sources, *data.derived_from]))
    changes = {"confidence": confidence, "derived_from": sources, "updated_ms": recorded.recorded_ms}
    return current.model_copy(update=changes)


fold_one(RelationLinked, RelationUnlinked, of=Relation, subject=id_of, evolve=evolve, drops=True)
