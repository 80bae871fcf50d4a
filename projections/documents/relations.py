"""Relations: edges between things that are remembered."""

from ingest.events.envelope import Recorded
from ingest.events.relation import RelationLinked, RelationUnlinked
from ingest.ids import DocumentId, relation_id
from ingest.log.partitions import project_route
from projections.documents.joined import joined, split
from projections.documents.rows import Row

UNKNOWN_CONFIDENCE = 0.5
"""What a relation counts for when nobody said how sure it is, as in agentmemory."""


class Relation(Row, index=True):
    """One relation, from `source` to `target`. `created_ms` is when it was first said."""

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


def id_of(recorded: Recorded, said: RelationLinked | RelationUnlinked) -> DocumentId:
    """The id of the relation that an event is about."""
    route = project_route(recorded.envelope.tenant, recorded.envelope.project)
    return relation_id(route, said.source, said.relation, said.target)


def linked(relation: Relation | None, recorded: Recorded, said: RelationLinked) -> Relation:
    """The relation after it was said (again: the newer confidence counts)."""
    envelope = recorded.envelope
    known = relation or Relation(
        id=id_of(recorded, said),
        tenant=envelope.tenant,
        project=envelope.project,
        source=said.source,
        target=said.target,
        relation=said.relation,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        created_ms=recorded.recorded_ms,
        position=str(recorded.position),
    )
    confidence = known.confidence if said.confidence is None else said.confidence
    sources = joined(dict.fromkeys([*known.sources, *said.derived_from]))
    changes = {"confidence": confidence, "derived_from": sources, "updated_ms": recorded.recorded_ms}
    return known.model_copy(update=changes)
