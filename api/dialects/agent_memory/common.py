"""What the endpoints share: the context of a request, its body, and the numbers of documents."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request

from api.dialects import detail
from api.dialects.agent_memory.answers import Numbered
from api.dialects.detail import Unprocessable
from api.services import READER_HEADER, services
from mcp_gateway.tools.tool import ToolContext
from projections.queries.listed import Listed
from projections.queries.numbers import Noun

M = TypeVar("M", bound=BaseModel)

SOURCE = "agent-memory"
"""Where an event came from, as events name it."""
HOOKS = "agent-memory's hooks"
"""Whose last writes those of the queue are. Few reads wait for them: hooks do not read what others report."""


def context_of(request: Request) -> ToolContext:
    """The context of a request, for the agent that its header names; agent-memory's own clients name none."""
    return services(request).door(SOURCE, request.headers.get(READER_HEADER, ""))


def listed(request: Request) -> Listed:
    """The lists."""
    at_hand = services(request)
    return Listed(at_hand.replica, at_hand.operations.current.documents)


async def read_body(request: Request, model: type[M]) -> M:
    """The body. Raises Unprocessable, or RequestTooLarge."""
    return await detail.read_body(model, request, "application/json")


def unprocessable(message: str, *where: str, given: object = None) -> Unprocessable:
    """A fault that no type tells, as one of the body's values would be told."""
    return Unprocessable(
        [{"type": "value_error", "loc": ["body", *where], "msg": f"Value error, {message}", "input": given}]
    )


async def numbers(context: ToolContext, noun: Noun, names: Sequence[str]) -> list[int]:
    """The numbers of some things, in the order asked for."""
    return await context.queries.numbers(context.tenant, noun).numbers(names)


async def numbered(context: ToolContext, found: Sequence[tuple[str, str, str]]) -> list[Numbered]:
    """What observations go by, of each its id, its session and its project."""
    nouns: tuple[Noun, ...] = ("observation", "session", "project")
    columns = await asyncio.gather(
        *(numbers(context, noun, [one[place] for one in found]) for place, noun in enumerate(nouns))
    )
    return [Numbered(*row) for row in zip(*columns, strict=True)]
