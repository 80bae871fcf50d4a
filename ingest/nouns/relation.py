"""Relations between documents.

First its events, then its command and the decision on it. Pure.
"""

from typing import Annotated

from msgspec import Meta

from ingest.errors import CommandRejected
from ingest.events.envelope import EventData
from ingest.kinds import RELATION
from ingest.nouns.command import Command, Confidence, Decision, Names, Origin, creating, data_of, decides


class RelationLinked(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """Two documents were related."""

    TYPE = "relation.linked"

    source: str
    target: str
    relation: str
    confidence: float | None = None
    derived_from: list[str] = []


class RelationUnlinked(EventData, frozen=True, kw_only=True, omit_defaults=True):
    """A relation was withdrawn."""

    TYPE = "relation.unlinked"

    source: str
    target: str
    relation: str


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
        raise CommandRejected("the ends and the name of a relation cannot contain NUL", "source")
    data = data_of(RelationUnlinked if command.remove else RelationLinked, command)
    return creating(RELATION, command, origin, data, command.source, command.relation, command.target)
