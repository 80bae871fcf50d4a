"""What is condensed, as it is read, and what the id of an event made of it takes from it."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

from ingest.log.position import partition_of, session_route
from projections.condensing.claims import MADE_TAGS
from projections.condensing.sessions import Digest
from projections.documents.access import Reader, may_read
from projections.documents.memories import Memory
from projections.documents.observations import Observation, session_observations
from projections.documents.sessions import Session, Summary
from projections.queries.documents import DocumentReader

T = TypeVar("T")

OBSERVATIONS_READ = 500
"""Of a session, its newest: what a summary is made of."""
PROJECT_MEMORIES = 500
"""Of a project, its newest memories; as many lessons."""


def fingerprint(*parts: str) -> str:
    """What an event id takes from the evidence."""
    return blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()


def digest_of(told: Summary) -> Digest:
    """A summary as the rules make it."""
    return Digest(
        told.title, told.narrative, told.decisions, told.files, told.concepts, told.observation_count, told.remaining
    )


def is_made(kept: Memory) -> bool:
    """Whether the server made a memory of other documents: it says nothing that those do not."""
    return bool(kept.condensed) or bool(kept.derived_from and MADE_TAGS.intersection(kept.tags))


def readable(found: Sequence[Observation], reader: Reader | None) -> list[Observation]:
    """What the reader may see; everything for a job, which reads for nobody."""
    return [one for one in found if reader is None or may_read(one, reader)]


async def observations_of(documents: DocumentReader, session: Session) -> list[Observation]:
    """The session's newest observations, oldest first."""
    route = session_route(session.tenant, session.project, session.session_id)
    home = [partition_of(route, documents.partitions)]
    page = await documents.page(session_observations(session.id), home, limit=OBSERVATIONS_READ)
    return [one.document for one in reversed(page.documents) if isinstance(one.document, Observation)]


async def newest(documents: DocumentReader, listing: str, kind: type[T], limit: int, reader: Reader) -> list[T]:
    """Of the newest documents of a listing, those of a kind that the reader may see."""
    page = await documents.page(listing, range(documents.partitions), limit=limit)
    return [one.document for one in page.documents if isinstance(one.document, kind) and may_read(one.document, reader)]
