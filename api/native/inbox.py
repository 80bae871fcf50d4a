"""Routes of the inbox: what the server suggests to remember."""

from api.http.endpoint import Endpoint
from api.native.common import After, ShortLimit, router
from api.services import NativeCall
from ingest.commands.handler import Accepted
from ingest.nouns.command import Name
from ingest.roles import READ, READ_WRITE
from projections.operations.inbox import Decision, Suggestion
from projections.queries.views import Items

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class InboxRequest(After, frozen=True, kw_only=True):
    """Whose suggestions, and how many."""

    project: Name = ""
    limit: ShortLimit = 20


@route("GET /v1/inbox", READ)
async def list_inbox(call: NativeCall, query: InboxRequest) -> Items[Suggestion]:
    """Rules, lessons and memories that the server made, until they are approved or rejected.

    With up to three of the documents that each was made of.
    """
    return Items(await call.operations.inbox.suggestions(call.reader(), query.project, query.limit))


@route("POST /v1/inbox/{id}", READ_WRITE, 202)
async def post_inbox(call: NativeCall, id: str, body: Decision) -> Accepted:
    """Approve a suggestion, with another text or as it is, or reject it.

    What was rejected is hidden, and not suggested again.
    """
    return await call.operations.inbox.decide(id, body, call.reader(body.agent_id), call.caller())
