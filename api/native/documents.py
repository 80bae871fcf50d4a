"""Documents of any kind by id."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json
from api.native.common import After, read_request
from api.services import reader, services
from ingest.errors import NotFound
from ingest.roles import READ
from projections.documents.relations import Relation
from projections.queries.actions import ActionView
from projections.queries.commits import CommitView
from projections.queries.lessons import LessonView
from projections.queries.memories import MemoryView
from projections.queries.observations import ObservationView
from projections.queries.relations import RelationView
from projections.queries.summaries import SummaryView
from projections.queries.views import view

PREFIXES = {
    "observations": "obs",
    "memories": "mem",
    "lessons": "lsn",
    "actions": "act",
    "relations": "rel",
    "commits": "cmt",
    "summaries": "sum",
}
SHAPES: dict[str, Any] = {
    "observations": ObservationView,
    "memories": MemoryView,
    "lessons": LessonView,
    "actions": ActionView,
    "relations": RelationView,
    "commits": CommitView,
    "summaries": SummaryView,
}


async def get_document(request: Request) -> Response:
    """One document by id; a relation of what the reader may not see is not there."""
    await read_request(request, After)
    name = request.path_params["id"]
    if name.partition("_")[0] != PREFIXES[request.url.path.split("/")[2]]:
        raise NotFound(f"{name!r} is not in this collection")
    queries, who = services(request).queries, reader(request)
    document = (await queries.lookup.document(name, who)).document
    if isinstance(document, Relation) and not await queries.relations.readable([document], who):
        raise NotFound(f"there is no document {name!r}")
    return Json(view(document))


ENDPOINTS = [
    *(
        Endpoint("GET", f"/v1/{name}/{{id}}", READ, get_document, f"One of the {name}.", query=After,
            answer=SHAPES[name])
        for name in PREFIXES
    ),
]  # fmt: skip
