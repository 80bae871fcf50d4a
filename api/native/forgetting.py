"""Routes that forget: one document at once; a session, a user or a project by a job, with a receipt."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.http import Json, asked_for, query
from api.native.common import Bounds, PageLimit, Queued
from api.native.documents import PREFIXES
from api.services import Services, caller, reader, services
from ingest.commands.command import EventName, Name
from ingest.commands.handler import Accepted
from ingest.errors import CommandRejected, NotFound, OutsideKeyScope
from ingest.ids import new_event_id
from ingest.names import nfc
from ingest.platform.clock import system_clock, to_ms
from ingest.roles import ADMIN, OPERATOR, WRITE
from ingest.secrets.clean import clean_agent
from ingest.secrets.scrub import scrub_text
from projections.forgetting.forget import Forgotten, user_digest
from projections.forgetting.receipts import Receipt, all_receipts, load_receipt, save_receipt
from projections.queries.views import Page, Record

DOCUMENTS = [name for name in PREFIXES if name != "summaries"]


class ForgetRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to forget: a session (of a project, where several have it), a user, or a project (`""`: the nameless)."""

    kind: Literal["session", "user", "project"]
    subject: Annotated[str, Meta(max_length=512)]
    project: Name | None = None
    reason: Annotated[str, Meta(max_length=512)] = ""


class Deletion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why something is forgotten; the event id makes a retry harmless."""

    reason: Annotated[str, Meta(max_length=512)] = ""
    event_id: EventName = ""


class SessionDeletion(Deletion, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which of the sessions of that id to forget, and why."""

    project: Name | None = None


class ReceiptsRequest(Bounds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of receipts, behind the one that `cursor` names."""

    cursor: str | None = None
    limit: PageLimit = 50


async def delete_document(request: Request) -> Response:
    """Forget one document: its content leaves the documents, the index and the log; 404 when it is not there."""
    collection, name = request.url.path.split("/")[2], request.path_params["id"]
    if name.partition("_")[0] != PREFIXES[collection]:
        raise NotFound(f"{name!r} is not one of the {collection}")
    wanted = query(request, Deletion)
    forgotten = await services(request).operations.forgetting.document(
        name, reader(request), caller(request), reason=wanted.reason, event_id=wanted.event_id
    )
    return Json(Accepted(name, forgotten.event_id, forgotten.position, False, forgotten.durability), 202)


async def delete_session(request: Request) -> Response:
    """Forget a session with its observations and its summary; answers how many documents went."""
    wanted = query(request, SessionDeletion)
    operations = services(request).operations
    session = await operations.current.session(request.path_params["id"], wanted.project, reader(request))
    forgotten = operations.forgetting.session(session, caller(request), reason=wanted.reason, event_id=wanted.event_id)
    return Json(await forgotten, 202)


async def post_forget(request: Request) -> Response:
    """Ask for a session, a user or a project to be forgotten; 202 with the receipt, which says what became of it.

    The receipt is durable before this answers: the request is carried out whatever crashes. A user or project may have
    been stored under another form of the name, before names were in NFC: a receipt of its own forgets that one too.
    """
    wanted = await asked_for(request, ForgetRequest)
    at_hand, who = services(request), caller(request)
    name, project = wanted.subject, wanted.project or ""
    if not name and wanted.kind != "project":
        raise CommandRejected(f"the name of a {wanted.kind} has 1 character or more", "subject")
    if "\0" in name:
        raise CommandRejected("a name may not contain NUL", "subject")
    if wanted.kind == "session":
        name = nfc(name)
        project = (await at_hand.operations.current.session(name, wanted.project, reader(request))).project
    elif wanted.project is not None:
        raise CommandRejected(f"a {wanted.kind} is not of a project", "project")
    elif wanted.kind == "user":
        at_hand.key_scope.check_whole()
    elif not at_hand.key_scope.allows(nfc(name)):
        raise OutsideKeyScope("project", name, "subject")
    for form in dict.fromkeys((name, nfc(name))):
        receipt = Receipt(
            id=str(new_event_id()),
            tenant=at_hand.tenant,
            kind=wanted.kind,
            subject=user_digest(at_hand.tenant, form) if wanted.kind == "user" else form,
            name=form,
            nameless=not form,
            project=project,
            reason=scrub_text(wanted.reason),
            agent_id=clean_agent(who.agent_id, "replace"),
            requested_at=system_clock(),
        )
        await save_receipt(at_hand.redis, receipt)
        await at_hand.jobs.enqueue("forget", job_id=f"forget:{receipt.id}")
    return Json(_shown(receipt), 202)  # pyright: ignore[reportPossiblyUnboundVariable]


async def list_receipts(request: Request) -> Response:
    """The receipts of what was asked to be forgotten: what was removed, and what a search found afterwards."""
    wanted, at_hand = query(request, ReceiptsRequest), services(request)
    readable = [one for one in await all_receipts(at_hand.redis) if _may_see(one, at_hand)][::-1]
    receipts = [one for one in readable if wanted.times.has(*[to_ms(one.requested_at)] * 2)]
    ids = [one.id for one in receipts]
    if wanted.cursor is not None and wanted.cursor not in ids:
        raise CommandRejected(f"there is no receipt {wanted.cursor!r} to go on behind", "cursor")
    start = 0 if wanted.cursor is None else ids.index(wanted.cursor) + 1
    page = receipts[start : start + wanted.limit]
    return Json(Page[Record]([_shown(one) for one in page], page[-1].id if start + len(page) < len(receipts) else None))


async def get_receipt(request: Request) -> Response:
    """What became of a request to forget: what was removed from each store, and what a search for it found."""
    at_hand = services(request)
    receipt = await load_receipt(at_hand.redis, request.path_params["id"])
    if receipt is None or not _may_see(receipt, at_hand):
        raise NotFound(f"there is no receipt {request.path_params['id']!r}")
    return Json(_shown(receipt))


async def post_purge(request: Request) -> Response:
    """Rid index files of what was forgotten now; 202 with whether that was queued."""
    return Json({"queued": await services(request).jobs.enqueue("purge", True, job_id="purge-now")}, 202)


def _may_see(receipt: Receipt, at_hand: Services) -> bool:
    """Whether what was forgotten is of the tenant, and of a project that the key is for."""
    project = receipt.name if receipt.kind == "project" else receipt.project
    whole = not at_hand.key_scope.projects
    return receipt.tenant == at_hand.tenant and (
        whole or (receipt.kind != "user" and at_hand.key_scope.allows(project))
    )


def _shown(receipt: Receipt) -> dict[str, Any]:
    """A receipt as it is answered: without the name of a user, who is there as a digest."""
    return to_builtins(replace(receipt, name="") if receipt.kind == "user" else receipt)


ENDPOINTS = [
    Endpoint("POST", "/v1/forget", ADMIN, post_forget, "Have a session, a user or a project forgotten.", status=202,
        body=ForgetRequest, answer=Receipt, faults={404: "There is no such session."}),
    Endpoint("GET", "/v1/forget", ADMIN, list_receipts, "The receipts of what was asked to be forgotten, newest first.",
        query=ReceiptsRequest, answer=Page[Receipt]),
    Endpoint("GET", "/v1/forget/{id}", ADMIN, get_receipt, "What became of a request to forget.", answer=Receipt),
    *(
        Endpoint("DELETE", f"/v1/{name}/{{id}}", WRITE, delete_document, f"Forget one of the {name}, for good.",
            status=202, query=Deletion, answer=Accepted,
            faults={403: "It is somebody else's: its creator or its owner may do that."})
        for name in DOCUMENTS
    ),
    Endpoint("DELETE", "/v1/sessions/{id:path}", WRITE, delete_session, "Forget a session with all that is of it.",
        status=202, query=SessionDeletion, answer=Forgotten),
    Endpoint("POST", "/v1/admin/purge", OPERATOR, post_purge, "Rid index files of what was forgotten now.", status=202,
        answer=Queued),
]  # fmt: skip
