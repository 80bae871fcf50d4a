"""Deletion routes: one document immediately; a session, a user or a project by a job, with a receipt."""

from typing import Annotated, Any, Literal

from msgspec import Meta, to_builtins
from msgspec.structs import replace
from starlette.requests import Request

from api.http.endpoint import Endpoint
from api.native.common import Bounds, Fields, PageLimit, Queued, router
from api.native.documents import check_collection
from api.services import NativeCall
from ingest.commands.handler import Accepted
from ingest.errors import CommandRejected, NotFound, OutsideKeyScope
from ingest.ids import new_event_id
from ingest.kinds import FORGETTABLE
from ingest.names import nfc
from ingest.nouns.command import EventName, Name, ReasonText
from ingest.platform.clock import system_clock, to_ms
from ingest.roles import ADMIN, OPERATOR, WRITE
from ingest.secrets.clean import clean_agent
from ingest.secrets.scrub import scrub_text
from projections.forgetting.forget import Forgotten, user_digest
from projections.queries.views import Page
from projections.store.receipts import Receipt, all_receipts, load_receipt, save_receipt

ENDPOINTS: list[Endpoint] = []
route = router(ENDPOINTS)


class ForgetRequest(Fields, frozen=True, kw_only=True):
    """What to delete: a session (with its project, if several have a session of that id), a user, or a project (`""`
    for the nameless one)."""

    kind: Literal["session", "user", "project"]
    subject: Annotated[str, Meta(max_length=512)]
    project: Name | None = None
    reason: ReasonText = ""


class Deletion(Fields, frozen=True, kw_only=True):
    """The reason for a deletion; the event id makes a retry harmless."""

    reason: ReasonText = ""
    event_id: EventName = ""


class SessionDeletion(Deletion, frozen=True, kw_only=True):
    """Which of the sessions with that id to delete, and the reason."""

    project: Name | None = None


class ReceiptsRequest(Bounds, frozen=True, kw_only=True):
    """A page of receipts, after the receipt `cursor`."""

    cursor: str | None = None
    limit: PageLimit = 50


@route("POST /v1/forget", ADMIN, 202, faults={404: "No such session."})
async def post_forget(call: NativeCall, body: ForgetRequest) -> Receipt:
    """Delete a session, a user or a project.

    202 with the receipt, which lists what was removed. The receipt is durable before the response is sent, so the
    request is carried out even after a crash. Before names were normalized to NFC, a user or project could be stored
    under another form of the name: that form gets a separate receipt.
    """
    name, project = body.subject, body.project or ""
    if not name and body.kind != "project":
        raise CommandRejected(f"the name of a {body.kind} cannot be empty", "subject")
    if "\0" in name:
        raise CommandRejected("a name cannot contain NUL", "subject")
    if body.kind == "session":
        name = nfc(name)
        project = (await call.operations.current.session(name, body.project, call.reader())).project
    elif body.project is not None:
        raise CommandRejected(f"a {body.kind} does not belong to a project: leave `project` out", "project")
    elif body.kind == "user":
        call.key_scope.check_whole()
    elif not call.key_scope.allows(nfc(name)):
        raise OutsideKeyScope("project", name, "subject")
    receipts: list[Receipt] = []
    for form in dict.fromkeys((name, nfc(name))):
        receipt = Receipt(
            id=str(new_event_id()),
            tenant=call.tenant,
            kind=body.kind,
            subject=user_digest(call.tenant, form) if body.kind == "user" else form,
            name=form,
            nameless=not form,
            project=project,
            reason=scrub_text(body.reason),
            agent_id=clean_agent(call.caller().agent_id, "replace"),
            requested_at=system_clock(),
        )
        await save_receipt(call.redis, receipt)
        await call.jobs.enqueue("forget", job_id=f"forget:{receipt.id}")
        receipts.append(receipt)
    return _public(receipts[-1])


@route("GET /v1/forget", ADMIN)
async def list_receipts(call: NativeCall, query: ReceiptsRequest) -> Page[Receipt]:
    """Receipts of deletion requests, newest first.

    With what was removed, and the results of a search afterward.
    """
    readable = [receipt for receipt in await all_receipts(call.redis) if _may_see(receipt, call)][::-1]
    receipts = [receipt for receipt in readable if query.times.has(*[to_ms(receipt.requested_at)] * 2)]
    ids = [receipt.id for receipt in receipts]
    if query.cursor is not None and query.cursor not in ids:
        raise CommandRejected(f"there is no receipt {query.cursor!r} to continue after", "cursor")
    start = 0 if query.cursor is None else ids.index(query.cursor) + 1
    page = receipts[start : start + query.limit]
    return Page([_public(receipt) for receipt in page], page[-1].id if start + len(page) < len(receipts) else None)


@route("GET /v1/forget/{id}", ADMIN)
async def get_receipt(call: NativeCall, id: str) -> Receipt:
    """The result of a deletion request.

    With what was removed from each store, and the results of a search for it.
    """
    receipt = await load_receipt(call.redis, id)
    if receipt is None or not _may_see(receipt, call):
        raise NotFound(f"there is no receipt {id!r}")
    return _public(receipt)


async def delete_document(call: NativeCall, id: str, query: Deletion, request: Request) -> Accepted:
    """Delete one document.

    Removes its content from the documents, the index and the log; 404 if it does not exist.
    """
    check_collection(request, id)
    forgetting = call.operations.forgetting
    forgotten = await forgetting.document(
        id, call.reader(), call.caller(), reason=query.reason, event_id=query.event_id
    )
    return Accepted(id, forgotten.event_id, forgotten.position, False, forgotten.durability)


for _name in FORGETTABLE.values():
    route(
        f"DELETE /v1/{_name}/{{id}}", WRITE, 202, summary=f"Permanently delete one of the {_name}.",
        faults={403: "Only the document's creator or owner can do this."},
    )(delete_document)  # fmt: skip


@route("DELETE /v1/sessions/{id:path}", WRITE, 202)
async def delete_session(call: NativeCall, id: str, query: SessionDeletion) -> Forgotten:
    """Delete a session with its observations and its summary.

    Returns the number of deleted documents.
    """
    session = await call.operations.current.session(id, query.project, call.reader())
    forgetting = call.operations.forgetting
    return await forgetting.session(session, call.caller(), reason=query.reason, event_id=query.event_id)


@route("POST /v1/admin/purge", OPERATOR, 202)
async def post_purge(call: NativeCall) -> Queued:
    """Remove deleted documents from index files now.

    202 with whether a job was queued.
    """
    return Queued(queued=await call.jobs.enqueue("purge", True, job_id="purge-now"))


def _may_see(receipt: Receipt, call: NativeCall) -> bool:
    project = receipt.name if receipt.kind == "project" else receipt.project
    whole = not call.key_scope.projects
    return receipt.tenant == call.tenant and (whole or (receipt.kind != "user" and call.key_scope.allows(project)))


def _public(receipt: Receipt) -> Any:
    """A receipt for clients: a user's name is replaced by a digest."""
    return to_builtins(replace(receipt, name="") if receipt.kind == "user" else receipt)
