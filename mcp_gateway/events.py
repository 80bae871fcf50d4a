"""MCP's Events extension (SEP-3415) over the log: what a client can subscribe to, by poll, push and webhook.

The events are the event types of the log, and patterns of them: `action.*`, and `*` for all. The arguments are filters
of `GET /v1/events`. A cursor is a position of the log, so every event can be replayed, also from the archive. Events
that the reader can't see are left out. The names of the extension are here and in `projections.webhooks`.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeAlias

import mcp.types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from pydantic import Field

from ingest.commands.parse import parse_object
from ingest.errors import AccessDenied, CommandRejected, Overloaded
from ingest.log.position import Token
from ingest.nouns.registry import EVENT_TYPES
from ingest.platform.clock import from_ms, system_clock, to_ms
from mcp_gateway.tools.tool import Call, schema_of
from projections.queries.log_events import Criteria, EventFilter
from projections.webhooks.sending import REVOKED, CallbackFailed
from projections.webhooks.subscriptions import Subscription, begin, occurrence

NOT_FOUND, FORBIDDEN, EXHAUSTED, CALLBACK = -32023, -32024, -32025, -32027
STREAM = "events/stream"
NEXT_POLL_MS = 1_000
MAX_EVENTS = 1_000
SHORTEST_MS, LONGEST_MS = 60_000, 24 * 3_600_000
"""The lifetimes of a webhook that has one."""
Context: TypeAlias = ServerRequestContext[Any]
Answer: TypeAlias = dict[str, Any]


class Requested(types.RequestParams):
    """An event with its arguments, and where to begin; for a webhook also where to send it, and for how long."""

    name: str
    arguments: dict[str, Any] = Field({})
    cursor: str | None = None
    max_age_ms: int | None = Field(None, ge=0)
    max_events: int = Field(100, ge=1)


class RequestedWebhook(Requested):
    """The same with a webhook; `ttl_ms` None asks for no expiry."""

    class Delivery(types.RequestParams):
        """Where to send it."""

        url: str
        mode: Literal["webhook"] = "webhook"
        secret: str = ""

    delivery: Delivery
    ttl_ms: int | None = LONGEST_MS


_FAMILIES = {f"{family}.*": f"Any {family} event." for family in (name.partition(".")[0] for name in EVENT_TYPES)}
EVENTS = {
    name: {
        "name": name,
        "description": about.partition("\n")[0],
        "delivery": ["poll", "push", "webhook"],
        "inputSchema": schema_of(Criteria),
        "payloadSchema": {
            "type": "object",
            "description": "An event as in GET /v1/events; `documents` are the ids of documents that it is about.",
        },
    }
    for name, about in {
        "*": "Any event.",
        **_FAMILIES,
        **{name: event.__doc__ or "" for name, event in EVENT_TYPES.items()},
    }.items()
}


class Opened(NamedTuple):
    """A subscription that is possible: the events after `at`."""

    call: Call
    chosen: EventFilter
    criteria: Criteria
    at: Token
    truncated: bool


class Events:
    """The handlers of the methods, for the servers of a gateway."""

    def __init__(self, call_for: Callable[[Context], Call]) -> None:
        self._call_for = call_for

    def register(self, server: Server[Any]) -> None:
        """Serve the methods, and declare them."""
        server.extensions["io.modelcontextprotocol/events"] = {}
        server.middleware.append(declare)
        server.add_request_handler("events/list", types.PaginatedRequestParams, _listed)
        server.add_request_handler("events/poll", Requested, self._poll)
        server.add_request_handler(STREAM, Requested, self._stream)
        server.add_request_handler("events/subscribe", RequestedWebhook, self._subscribe)
        server.add_request_handler("events/unsubscribe", RequestedWebhook, self._unsubscribe)

    async def _poll(self, context: Context, params: Requested) -> Answer:
        call, chosen, _, at, truncated = await self._opened(context, params)
        log = call.queries.log
        events = await log.newly_applied(chosen, at, min(params.max_events, MAX_EVENTS), log.applied())
        for event in events:
            del event["after"]  # the cursor of a poll is that of its answer
        return {
            "events": [occurrence(event, "", params.name) for event in events],
            "cursor": str(at),
            "truncated": truncated,
            "hasMore": not log.applied().covered_by(at),
            "nextPollMs": NEXT_POLL_MS,
        }

    async def _stream(self, context: Context, params: Requested) -> Answer:
        """Send events as notifications until the client disconnects or its access ends."""
        call, chosen, _, at, truncated = await self._opened(context, params)
        meta = {SUBSCRIPTION_ID_META_KEY: context.request_id}

        async def send(kind: str, **fields: Any) -> None:
            notification: Any = types.Notification[Answer, str](
                method=f"notifications/events/{kind}", params={**fields, "_meta": meta}
            )
            await context.session.send_notification(notification, context.request_id)

        with _refusals():
            pages = call.queries.log.follow(chosen, at, 100)
        await send("active", cursor=str(at), truncated=truncated)
        async for page in pages:
            if call.holds is not None and not await call.holds():
                await send("terminated", error=REVOKED)
                break
            for event in page:
                await send("event", **occurrence(event, event.pop("after"), params.name))
            if not page:
                await send("heartbeat", cursor=str(at))
        return {"_meta": meta}

    async def _subscribe(self, context: Context, params: RequestedWebhook) -> Answer:
        opened = await self._opened(context, params)
        requested = _webhook(opened, params)
        with _refusals():
            if not params.delivery.secret:
                raise CommandRejected("is required", "delivery.secret")
            webhook, progress, is_new = await opened.call.operations.webhooks.subscribe(
                requested, opened.at, verify=True
            )
        return {
            "id": webhook.id,
            "refreshBefore": webhook.expires_at and webhook.expires_at.isoformat(),
            "cursor": progress.cursor,
            "truncated": is_new and opened.truncated,
            "deliveryStatus": {"active": not progress.disabled, "lastError": progress.error or None},
        }

    async def _unsubscribe(self, context: Context, params: RequestedWebhook) -> Answer:
        opened = await self._opened(context, params)
        if not await opened.call.operations.webhooks.remove(_webhook(opened, params).id):
            raise MCPError(NOT_FOUND, "there is no such webhook", {"kind": "subscription"})
        return {}

    async def _opened(self, context: Context, params: Requested) -> Opened:
        """Where a subscription begins; raises MCPError for one that is not possible."""
        if params.name not in EVENTS:
            raise MCPError(NOT_FOUND, f"there is no event {params.name!r}", {"kind": "event"})
        call = self._call_for(context)
        with _refusals():
            await call.admits()
            criteria, reader = parse_object(params.arguments, Criteria), call.reader()
            if criteria.project is not None and not reader.key_scope.allows(criteria.project):
                raise AccessDenied(f"this key does not cover the project {criteria.project!r}")
            at, truncated = await begin(call.queries.log, params.cursor, call.queries.log.applied(), params.max_age_ms)
        return Opened(call, criteria.of(reader, params.name), criteria, at, truncated)


def _webhook(opened: Opened, params: RequestedWebhook) -> Subscription:
    owner, now = opened.call.owner, system_clock()
    if owner is None:
        raise MCPError(FORBIDDEN, "a webhook needs a caller with a key")
    ttl_ms = params.ttl_ms
    granted = [] if ttl_ms is None else [to_ms(now) + max(SHORTEST_MS, min(LONGEST_MS, ttl_ms))]
    ends = min([*granted, *filter(None, [owner.expires_ms])], default=0)
    return Subscription(
        owner=owner._replace(agent=opened.chosen.reader.agent_id),
        url=params.delivery.url,
        type=params.name,
        criteria=opened.criteria,
        mcp=True,
        secrets=[params.delivery.secret],
        refreshed_at=now,
        expires_at=from_ms(ends) if ends else None,
    )


@contextmanager
def _refusals() -> Generator[None]:
    """Turn errors into those of the extension."""
    try:
        yield
    except CallbackFailed as error:
        raise MCPError(CALLBACK, str(error), {"reason": error.reason}) from None
    except AccessDenied as error:
        raise MCPError(FORBIDDEN, str(error)) from None
    except Overloaded as error:
        raise MCPError(EXHAUSTED, str(error)) from None
    except CommandRejected as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None


async def _listed(context: Context, params: types.PaginatedRequestParams) -> Answer:
    return {"events": list(EVENTS.values())}


async def declare(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Declare the extension also as the capability `events`, which ChatGPT and the AI SDK look for.

    The SDK's model of capabilities drops names that it does not have.
    """
    result = await call_next(ctx)
    if isinstance(result, dict) and "capabilities" in result:
        result["capabilities"]["events"] = {}
    return result
