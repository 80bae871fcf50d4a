"""Routes of relations between documents."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct

from api.http.endpoint import Endpoint
from api.native.common import After, ListRequest, router
from api.services import NativeCall
from ingest.commands.decide import Relate
from ingest.commands.handler import Accepted
from ingest.nouns.command import Confidence
from ingest.roles import READ, WRITE
from projections.queries.views import Items, Page, view
from projections.queries.work import RelationView

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class Related(Struct, frozen=True, kw_only=True):
    """A related document with all its fields, and its relation: `path` lists the relations that lead to it."""

    id: str
    hops: int
    confidence: float
    path: Sequence[Any]


class RelatedRequest(After, frozen=True, kw_only=True):
    """How far to follow relations."""

    max_hops: Annotated[int, Meta(ge=1, le=5)] = 2
    min_confidence: Confidence = 0.0


@route("GET /v1/relations", READ)
async def list_relations(call: NativeCall, query: ListRequest) -> Page[RelationView]:
    """A project's relations, newest first.

    Without those of documents that the reader can't see.
    """
    return await call.queries.relations.page(call.reader(), *query.page)


@route("POST /v1/relations", WRITE, 202, faults={404: "One of the two documents was not found."})
async def post_relation(call: NativeCall, body: Relate) -> Accepted:
    """Relate two documents, or remove a relation."""
    return await call.operations.work.relate(body, call.reader(), call.caller())


@route("GET /v1/related/{id}", READ)
async def get_related(call: NativeCall, id: str, query: RelatedRequest) -> Items[Related]:
    """Documents related to a document, directly or through others, highest confidence first."""
    documents = await call.queries.graph.related(call.reader(), id, query.max_hops, query.min_confidence)
    return Items(
        [
            view(document) | {"hops": related.hops, "confidence": related.confidence, "path": related.path}
            for related, document in documents
        ]
    )
