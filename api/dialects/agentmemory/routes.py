"""The endpoints of agentmemory: the lists of the modules, in the order in which the contract tells of them.

Every module has its ENDPOINTS; a path that holds a parameter comes after those it would take.
"""

from collections.abc import Mapping
from functools import partial

from api.dialects.agentmemory import (
    actions,
    antigravity,
    auditing,
    claude_code,
    commits,
    condensing,
    contexts,
    exporting,
    health,
    knowledge,
    lessons,
    maintenance,
    memories,
    notes,
    observing,
    pages,
    relations,
    replay,
    searching,
    sessions,
    slots,
    tools,
    transfer,
)
from api.dialects.agentmemory.shapes import FAULT
from api.dialects.faults import usual
from api.http.endpoint import Endpoint, Header
from api.http.openapi import About, documented

_DESCRIBED: list[Endpoint] = [
    *health.ENDPOINTS,
    *sessions.ENDPOINTS,
    *commits.ENDPOINTS,
    *observing.ENDPOINTS,
    *contexts.ENDPOINTS,
    *searching.ENDPOINTS,
    *memories.ENDPOINTS,
    *exporting.ENDPOINTS,
    *auditing.ENDPOINTS,
    *claude_code.ENDPOINTS,
    *condensing.ENDPOINTS,
    *tools.ENDPOINTS,
    *pages.ENDPOINTS,
    *replay.ENDPOINTS,
    *maintenance.ENDPOINTS,
    *lessons.ENDPOINTS,
    *slots.ENDPOINTS,
    *relations.ENDPOINTS,
    *actions.ENDPOINTS,
    *knowledge.ENDPOINTS,
    *transfer.ENDPOINTS,
    *antigravity.ENDPOINTS,
    *auditing.COMMIT_ENDPOINTS,
    *notes.ENDPOINTS,
]


def _headers(one: Endpoint) -> Mapping[str, Header]:
    return {"X-Agent-Id": Header("Which agent asks, where the request does not name one.")}


ABOUT = About(
    "agentmemory",
    health.version(),
    "Shared memory for coding agents. mnemolog answers as agentmemory's server does. Bodies are read leniently: a "
    "number may be text, null is absent, unknown keys are passed over.",
    FAULT,
    partial(usual, invalid=400),
    _headers,
    below="/agentmemory",
)
ENDPOINTS = documented(ABOUT, [*_DESCRIBED, *pages.descriptions(_DESCRIBED)])
