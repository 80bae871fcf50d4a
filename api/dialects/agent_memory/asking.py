"""What every endpoint of this door needs: what it reaches through, what it was asked, and the numbers of things."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request

from api.dialects.agent_memory.answers import Numbered
from api.dialects.detail import Unprocessable, asked_for
from api.services import READER_HEADER, services
from mcp_gateway.tools.tool import Door
from projections.queries.listed import Listed
from projections.queries.numbers import Noun

M = TypeVar("M", bound=BaseModel)

SOURCE = "agent-memory"
"""The door, as events name it."""
HOOKS = "agent-memory's hooks"
"""Whose last writes those of the queue are. Few reads wait for them: hooks do not read what others report."""


def door(request: Request) -> Door:
    """What the endpoints reach through, for the agent that the header names, if any: clients of their own name none."""
    return services(request).door(SOURCE, request.headers.get(READER_HEADER, ""))


def listed(request: Request) -> Listed:
    """The lists."""
    at_hand = services(request)
    return Listed(at_hand.replica, at_hand.operations.current.documents)


async def asked(request: Request, model: type[M]) -> M:
    """The body. Raises Unprocessable, or RequestTooLarge."""
    return await asked_for(model, request, "application/json")


def unprocessable(message: str, *where: str, given: object = None) -> Unprocessable:
    """A fault that no type tells, as one of the body's values would be told."""
    return Unprocessable(
        [{"type": "value_error", "loc": ["body", *where], "msg": f"Value error, {message}", "input": given}]
    )


async def numbers(through: Door, noun: Noun, names: Sequence[str]) -> list[int]:
    """The numbers of some things, in the order asked for."""
    return await through.queries.browse.numbers(through.tenant, noun).numbers(names)


async def numbered(through: Door, found: Sequence[tuple[str, str, str]]) -> list[Numbered]:
    """What observations go by, of each its id, its session and its project."""
    nouns: tuple[Noun, ...] = ("observation", "session", "project")
    columns = await asyncio.gather(
        *(numbers(through, noun, [one[place] for one in found]) for place, noun in enumerate(nouns))
    )
    return [Numbered(*row) for row in zip(*columns, strict=True)]
