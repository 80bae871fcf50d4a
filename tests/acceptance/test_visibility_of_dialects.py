"""Who sees a memory through the doors of other systems: the matrix of test_visibility_matrix, for their ways in.

Complete for agentmemory: a test compares the table with the door's list of endpoints.
"""

from collections.abc import Sequence

import httpx

from api.dialects.agentmemory.app import ENDPOINTS
from tests.acceptance.visibility import Planted, Read, faults, get, post

A = "/agentmemory"
BIG = 100_000

READS: tuple[Read, ...] = (
    post(f"{A}/search", query="{word}", limit=100),
    post(f"{A}/search", how="of the project", query="{word}", project="{project}", format="narrative"),
    post(f"{A}/search", how="compact", query="{word}", project="{project}", format="compact", limit=100),
    post(f"{A}/smart-search", query="{word}", limit=100),
    post(f"{A}/smart-search", how="in full", expandIds=["{id}"]),
    post(f"{A}/smart-search", how="in full, as objects", expandIds=[{"obsId": "{id}", "sessionId": "{session}"}]),
    post(f"{A}/context", sessionId="another", project="{project}", budget=BIG),
    post(f"{A}/enrich", sessionId="another", files=["src/heron.py"], terms=[], project="{project}"),
    post(f"{A}/enrich", how="by words", sessionId="another", files=["o.py"], terms=["{word}"], project="{project}"),
    get(f"{A}/memories"),
    get(f"{A}/memories", how="latest", latest="true", limit=5_000),
    get(f"{A}/memories", shows="nothing", how="how many", count="true"),
    get(f"{A}/memories/{{id}}"),
    get(f"{A}/memories/{{id}}", shows="id", of="neighbour"),
    get(f"{A}/export"),
    get(f"{A}/relations", shows="id"),
    get(f"{A}/relations", shows="id", how="of the project", project="{project}"),
    get(f"{A}/profile", shows="public text", project="{project}", refresh="true"),
    get(f"{A}/audit", shows="nothing", limit=500),
    get(f"{A}/graph/stats", shows="nothing"),
    post(f"{A}/mcp/call", name="memory_recall", arguments={"query": "{word}", "limit": 100}),
    post(f"{A}/mcp/call", how="in full", name="memory_smart_search", arguments={"expandIds": ["{id}"]}),
    post(f"{A}/mcp/call", how="everything", name="memory_export", arguments={}),
    post(f"{A}/mcp/tools", name="memory_recall", arguments={"query": "{word}", "project": "{project}"}),
)

CANNOT_SHOW: dict[str, str] = {
    **dict.fromkeys(
        (
            f"GET {A}/livez", f"GET {A}/health", f"GET {A}/config/flags", f"GET {A}/mcp/tools",
            f"GET {A}/diagnostics/followup", f"POST {A}/claude-bridge/sync",
            "GET /", f"GET {A}/viewer", "GET /favicon.svg",
            f"GET {A}/openapi.json", f"GET {A}/docs",
        ),
        "how the server is, counts, and fixed texts",
    ),
    **dict.fromkeys(
        (
            f"POST {A}/session/end", f"POST {A}/observe", f"POST {A}/agent/observe",
            f"DELETE {A}/governance/memories", f"POST {A}/forget", f"POST {A}/replay/import-jsonl",
            f"POST {A}/import", f"POST {A}/antigravity/sync", f"POST {A}/lessons/strengthen",
        ),
        "acknowledges a write",
    ),
    f"POST {A}/remember": "shows what is saved, and a hint at what resembles it; the tool memory_save has its test",
    f"POST {A}/agent/remember": "as above",
    f"POST {A}/evolve": "shows what is saved; who may not see a memory is told that there is none",
    f"POST {A}/relations": "shows what is related; who may not see an end is told that there is none",
    f"POST {A}/session/start": "the context that POST context shows; test_reader_of_ids asks it of others",
    **dict.fromkeys(
        (
            f"GET {A}/sessions", f"POST {A}/session/commit", f"GET {A}/session/by-commit", f"GET {A}/commits",
            f"GET {A}/observations", f"POST {A}/timeline", f"GET {A}/replay/sessions", f"GET {A}/replay/load",
            f"POST {A}/summarize", f"POST {A}/slot/reflect",
        ),
        "sessions, observations and commits only, and what is made of them",
    ),
    **dict.fromkeys(
        (
            f"GET {A}/lessons", f"POST {A}/lessons", f"POST {A}/lessons/search",
        ),
        "lessons only, which are made of public memories",
    ),
    **dict.fromkeys(
        (
            f"GET {A}/slots", f"GET {A}/slot", f"POST {A}/slot", f"DELETE {A}/slot", f"POST {A}/slot/append",
            f"POST {A}/slot/replace",
        ),
        "slots have no visibility",
    ),
    **dict.fromkeys(
        (
            f"GET {A}/actions", f"POST {A}/actions", f"POST {A}/actions/update",
            f"PATCH {A}/actions/{{id}}", f"GET {A}/frontier",
            f"POST {A}/crystals/auto", f"GET {A}/crystals",
        ),
        "actions, and what is made of them",
    ),
    **dict.fromkeys(
        (f"GET {A}/semantic", f"GET {A}/procedural"), "what consolidation made, which takes public memories only"
    ),
    **dict.fromkeys(
        (
            f"POST {A}/consolidate", f"POST {A}/consolidate-pipeline", f"POST {A}/reflect",
            f"POST {A}/auto-forget", f"POST {A}/diagnostics",
        ),
        "counts, and ids of what the reader may see",
    ),
}  # fmt: skip
"""Ways in that cannot show a memory, and why."""


def test_every_endpoint_of_agentmemory_is_in_the_table_or_cannot_show_a_memory():
    ways_in = {f"{one.method} {one.path}" for one in ENDPOINTS}
    shown = {one.path for one in READS}
    assert not shown & CANNOT_SHOW.keys(), "one or the other"
    assert sorted(ways_in - shown - CANNOT_SHOW.keys()) == [], "say what these show, or why they cannot"
    assert sorted((shown | CANNOT_SHOW.keys()) - ways_in) == [], "these are no more"


async def test_everybody_sees_through_agentmemory_what_they_may_and_nothing_else(
    everybody: dict[str, httpx.AsyncClient], planted_memories: Sequence[Planted]
):
    assert not (found := await faults(everybody, planted_memories, READS)), "\n".join(found)
