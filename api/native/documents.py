"""Documents of any kind: by id, their relations, the graph; and the projects and agents that have documents."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request

from api.http.endpoint import Endpoint
from api.native.common import After, PageLimit, router
from api.services import NativeCall
from ingest.errors import CommandRejected, NotFound
from ingest.kinds import COLLECTIONS, KIND_NAMES
from ingest.nouns.command import Name
from ingest.roles import READ
from projections.nouns.relation import Relation
from projections.queries.graph import Drawing
from projections.queries.views import Page, view
from projections.services import VIEWS

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


def check_collection(request: Request, document_id: str) -> str:
    """Check that an id belongs to the collection in the path; raises NotFound otherwise."""
    collection = request.url.path.split("/")[2]
    if COLLECTIONS.get(document_id.partition("_")[0]) != collection:
        raise NotFound(f"{document_id!r} is not in {collection}")
    return collection


class GraphRequest(After, frozen=True, kw_only=True):
    """Within `depth` steps of `start`, or the newest nodes of a project or of all."""

    project: Name | None = None
    start: Annotated[str, Meta(max_length=1024)] | None = None
    depth: Annotated[int, Meta(ge=1, le=3)] = 1
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


@route("GET /v1/graph", READ)
async def get_graph(call: NativeCall, query: GraphRequest) -> Drawing:
    """Part of the graph of projects, sessions, memories, files and concepts."""
    return await call.queries.graph.query(call.reader(), query.project, query.start, query.depth, query.limit)


async def get_document(call: NativeCall, id: str, query: After, request: Request) -> Any:
    """One document by id, which may be shortened to seven digits or more.

    404 for the id of another collection, and for documents that the reader can't see.
    """
    check_collection(request, id)
    (id,) = await call.whole_ids([id])
    document = (await call.queries.lookup.document(id, call.reader())).document
    if isinstance(document, Relation) and not await call.queries.relations.readable([document], call.reader()):
        raise NotFound(f"there is no document {id!r}")
    return view(document)


for _prefix, _name in COLLECTIONS.items():
    _view = VIEWS[KIND_NAMES[_prefix]]
    route(f"GET /v1/{_name}/{{id}}", READ, summary=f"Get one of the {_name}.", answer=_view)(get_document)


class NamesRequest(After, frozen=True, kw_only=True):
    """A page of names."""

    cursor: str | None = None
    limit: PageLimit = 50


class AgentsRequest(NamesRequest, frozen=True, kw_only=True):
    """A page of the agents of one project, or of all."""

    project: Name | None = None


class ProjectCount(Struct, frozen=True):
    """A project (`""` is the nameless one), and the number of its documents that the reader can see."""

    project: str
    documents: int


class AgentCount(Struct, frozen=True):
    """An agent, and the number of its documents that the reader can see."""

    agent_id: str
    documents: int


@route("GET /v1/projects", READ)
async def list_projects(call: NativeCall, query: NamesRequest) -> Page[ProjectCount]:
    """Projects, by name.

    Those with documents that the reader can see, with the number of documents.
    """
    return _page(ProjectCount, await call.queries.lookup.names(call.reader(), "project"), query)


@route("GET /v1/agents", READ)
async def list_agents(call: NativeCall, query: AgentsRequest) -> Page[AgentCount]:
    """Agents, by name.

    Those with documents that the reader can see, with the number of documents.
    """
    return _page(AgentCount, await call.queries.lookup.names(call.reader(), "agent", query.project), query)


def _page(shape: type[Any], names: Sequence[tuple[str, int]], query: NamesRequest) -> Page[Any]:
    """The names after the cursor."""
    # a cursor begins with `>`: a name may be empty, and an empty cursor means the first page
    if query.cursor and not query.cursor.startswith(">"):
        raise CommandRejected("not a cursor; use the `next` of the previous page", "cursor")
    remaining = [name for name in names if not query.cursor or name[0] > query.cursor.removeprefix(">")]
    page = remaining[: query.limit]
    return Page([shape(*name) for name in page], ">" + page[-1][0] if len(remaining) > len(page) else None)
