"""Relations: what may be asked of them, and what becomes of it."""

from typing import Annotated

from msgspec import Meta

from ingest.commands.command import Command, Confidence, Names
from ingest.commands.decision import Decision, Origin, decides, event_of
from ingest.errors import CommandRejected
from ingest.events.relation import RelationLinked, RelationUnlinked
from ingest.events.routing import route_of
from ingest.ids import relation_id


class Relate(Command, frozen=True, kw_only=True, tag="relation"):
    """Relate two documents, or withdraw that (`remove`)."""

    source: Annotated[str, Meta(min_length=1, max_length=512)]
    target: Annotated[str, Meta(min_length=1, max_length=512)]
    relation: Annotated[str, Meta(min_length=1, max_length=64)]
    confidence: Confidence | None = None
    derived_from: Names = []
    remove: bool = False


@decides(Relate)
def _relate(command: Relate, origin: Origin) -> Decision:
    if "\0" in command.source + command.target + command.relation:
        raise CommandRejected("an end or the name of a relation may not contain NUL", "source")
    data: RelationLinked | RelationUnlinked
    if command.remove:
        data = RelationUnlinked(source=command.source, target=command.target, relation=command.relation)
    else:
        data = RelationLinked(
            source=command.source,
            target=command.target,
            relation=command.relation,
            confidence=command.confidence,
            derived_from=command.derived_from,
        )
    event = event_of(command, origin, data)
    route = route_of(*event)
    return Decision(event, route, relation_id(route, command.source, command.relation, command.target))
