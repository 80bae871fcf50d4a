"""Relations: edges between things that are remembered."""

from typing import ClassVar

from ingest.events.envelope import Recorded
from ingest.events.memory import RelationLinked, RelationUnlinked
from ingest.ids import RELATION, DocumentId, relation_id
from ingest.log.partitions import project_route
from projections.documents.listings import by_position, derived, in_user_listing
from projections.documents.relation_rules import UNKNOWN_CONFIDENCE
from projections.documents.rows import Row, joined, split


class Relation(Row, index=True):
    """One relation, from `source` to `target`. `created_ms` is when it was first said."""

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
    created_ms: int = 0
    updated_ms: int = 0
    position: str = ""

    @property
    def sources(self) -> list[str]:
        """The documents it was derived from."""
        return split(self.derived_from)

    def listing_members(self) -> set[tuple[str, str]]:
        """The `(listing, member)` pairs it stands for."""
        member = by_position(self.position, self.id)
        return {
            (relations(self.tenant, self.project), member),
            (edges(self.tenant, self.source), self.id),
            (edges(self.tenant, self.target), self.id),
            *((derived(source), self.id) for source in self.sources),
            *in_user_listing(self.tenant, self.user_id, member),
        }


def relations(tenant: str, project: str) -> str:
    """Listing of a project's relations, in log order."""
    return f"relations:{tenant}\0{project}"


def edges(tenant: str, end: str) -> str:
    """Listing of the relations that begin or end at something."""
    return f"edges:{tenant}\0{end}"


def id_of(recorded: Recorded, data: RelationLinked | RelationUnlinked) -> DocumentId:
    """The id of the relation that an event is about."""
    route = project_route(recorded.envelope.tenant, recorded.envelope.project)
    return relation_id(route, data.source, data.relation, data.target)


def linked(relation: Relation | None, recorded: Recorded, data: RelationLinked) -> Relation:
    """The relation after it was said (again: the newer confidence counts)."""
    envelope = recorded.envelope
    known = relation or Relation(
        id=id_of(recorded, data),
        tenant=envelope.tenant,
        project=envelope.project,
        source=data.source,
        target=data.target,
        relation=data.relation,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        created_ms=recorded.recorded_ms,
        position=str(recorded.position),
    )
    confidence = known.confidence if data.confidence is None else data.confidence
    sources = joined(dict.fromkeys([*known.sources, *data.derived_from]))
    changes = {"confidence": confidence, "derived_from": sources, "updated_ms": recorded.recorded_ms}
    return known.model_copy(update=changes)
