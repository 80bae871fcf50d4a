"""Who sees a memory: every way of reading x every visibility x every reader, natively and through the dialects.

The table READS is complete: a test compares it with the routes of the application and with the tools, resources and
prompts of every MCP profile. A route in neither READS nor CANNOT_SHOW fails it. The planted mark is in every text of
the memory: no byte of an answer to a reader without access contains it, every answer to a reader with access does.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.routing import Route
from waiting import wait_until

from api.app import create_listeners
from api.dialects.agentmemory.app import ENDPOINTS
from api.dialects.profiles import PROFILES
from ingest.platform.settings import Settings
from tests.acceptance.asking import run_job
from tests.acceptance.running import Server, frozen
from tests.acceptance.visibility import (
    CREATOR,
    FRIEND,
    NOBODY,
    OWNER,
    STRANGER,
    VISIBILITIES,
    Planted,
    Read,
    Visibility,
    faults,
    get,
    mcp,
    opened,
    plant,
    post,
    prompt,
    resource,
    tool,
    write,
)

READS: tuple[Read, ...] = (
    get("/v1/memories/{id}"),
    get("/v1/memories/{id}/history"),
    get("/v1/memories", project="{project}", limit=1000),
    get("/v1/memories", how="latest", project="{project}", latest="true"),
    *(
        post("/v1/recall", how=f"{ranking}, {mode}", query="{word}", project="{project}", ranking=ranking, mode=mode,
             limit=200)
        for ranking, mode in itertools.product(("fused", "similarity", "rrf"), ("hybrid", "lexical", "vector"))
    ),
    post("/v1/recall", how="narrowed to its creator", query="{word}", agent_id=CREATOR, limit=200),
    post("/v1/recall", how="narrowed to its user and its tags", query="{word}", user_id="kim", tags=["bug"], limit=200),
    post("/v1/recall", how="as of later", query="{word}", as_of="2190-01-01T00:00:00Z", project="{project}", limit=200),
    post("/v1/recall", how="explained", query="{word}", project="{project}", explain=True, limit=200),
    post("/v1/context", how="with a query", project="{project}", query="{word}", token_budget=100_000),
    get("/v1/events", project="{project}", limit=1000, after="{before}", partition="{partition}"),
    get("/v1/events", how="by type", type="memory.recorded", limit=1000),
    get("/v1/live", project="{project}", after="{before}", type="memory.recorded", limit=1),
    get("/v1/export", project="{project}"),
    get("/v1/export", how="all projects"),
    get("/v1/graph", project="{project}", limit=500),
    get("/v1/graph", how="around the memory", start="{id}", depth=3),
    get("/v1/graph", how="around its session", start="session:{session}", depth=3),
    get("/v1/graph", how="around a concept", start="concept:heron", depth=3, limit=500),
    get("/v1/related/{id}", of="neighbour"),
    get("/v1/related/{id}", shows="nothing", how="what is related to it is its neighbour"),
    get("/v1/relations", shows="id", project="{project}"),
    get("/v1/relations/{id}", shows="id", of="relation"),
    get("/v1/profile", shows="public text", project="{project}", user_id="kim", refresh="true"),
    get("/v1/profile", shows="public text", how="kept for others", project="{project}", user_id="kim"),
    post("/v1/context", how="without a query", project="{project}", user_id="kim", token_budget=100_000),
    get("/v1/audit", shows="nothing", how="says to all in the tenant which documents were written, not what they say",
        project="{project}", operation="*"),
    get("/v1/inbox", shows="nothing", project="{project}"),
    tool("inbox", shows="nothing", project="{project}"),
    # MCP, native
    tool("recall", query="{word}", project="{project}", limit=200),
    tool("recall", how="whole", query="{word}", project="{project}", limit=200, full=True),
    tool("recall", how="by id", ids=["{id}"]),
    tool("context", project="{project}", query="{word}", token_budget=100_000),
    resource("mnemolog://projects/{project}/context"),
    resource("mnemolog://documents/{id}"),
    prompt("catch-up", project="{project}"),
    prompt("recall", topic="{word}", project="{project}"),
    tool("memory", command="view", path="/memories", project="{project}"),
    # agentmemory
    tool("memory_recall", query="{word}", limit=100),
    tool("memory_recall", how="of the project", query="{word}", project="{project}", format="narrative"),
    tool("memory_smart_search", query="{word}", limit=100),
    tool("memory_smart_search", how="in full", query="{word}", expandIds=["{id}"]),
    tool("memory_profile", shows="public text", project="{project}", refresh=True),
    tool("memory_export"),
)  # fmt: skip

CANNOT_SHOW: dict[str, str] = {
    "GET /openapi.json": "what there is, and nothing of anybody",
    "GET /docs": "what there is, and nothing of anybody",
    "GET /viewer": "a page that is the same for everybody",
    "GET /viewer/{name}": "its files",
    # what is no memory, and takes nothing from memories that only some may read
    "POST /v1/inbox/{id}": "repeats an id, of what it can read",
    "POST /v1/confirm": "repeats ids; see the test of what may be confirmed",
    "POST /v1/feedback": "repeats ids; what an agent was not given is unknown to it",
    "GET /v1/reads": "who was given a document whose id the administrator names, without its text",
    **dict.fromkeys((
        "POST /v1/actions/{id}/claim", "POST /v1/actions/claim_next", "POST /v1/actions/{id}/renew",
        "POST /v1/actions/{id}/release", "POST /v1/actions/{id}/complete",
    ), "shows an action, which has no visibility"),
    "tool confirm": "the same",
    "GET /v1/observations/{id}": "observations have no visibility",
    "GET /v1/lessons/{id}": "lessons have no visibility; those made of memories are made of public ones",
    "GET /v1/lessons": "as above; see the test of what is made of memories",
    "GET /v1/lessons/match": "lessons only",
    "GET /v1/lessons/surest": "lessons only",
    "POST /v1/lessons/search": "lessons only",
    "GET /v1/actions/{id}": "actions have no visibility",
    "GET /v1/actions": "actions have no visibility",
    "GET /v1/frontier": "actions have no visibility",
    "tool claim": "actions have no visibility",
    "POST /v1/actions/claim_next": "actions have no visibility",
    **{
        f"POST /v1/actions/{{id}}/{way}": "actions have no visibility"
        for way in ("claim", "renew", "release", "complete")
    },
    "GET /v1/commits/{id}": "commits have no visibility",
    "GET /v1/commits": "commits have no visibility",
    "GET /v1/summaries/{id}": "made of observations",
    "GET /v1/summaries": "made of observations",
    "GET /v1/sessions/{id:path}/story": "made of observations",
    "GET /v1/sessions/{id:path}/summary": "made of observations",
    "POST /v1/sessions/{id:path}/summary": "made of observations",
    "GET /v1/sessions": "sessions have no visibility",
    "GET /v1/sessions/{id:path}": "sessions have no visibility",
    "GET /v1/sessions/{id:path}/observations": "observations have no visibility",
    "GET /v1/timeline": "observations only",
    "GET /v1/slots": "slots have no visibility",
    "GET /v1/slots/{label}": "slots have no visibility",
    "POST /v1/sessions/{id:path}/reflect": "counts; slots from observations",
    "GET /v1/projects": "names and counts; see test_names",
    "GET /v1/agents": "the same",
    "GET /v1/webhooks": "addresses and filters; see test_events",
    "DELETE /v1/webhooks/{id}": "nothing",
    "POST /v1/webhooks": "the same; test_events looks at what is delivered",
    "GET /v1/webhooks/{id}/dead-letters": "positions and types",
    "POST /v1/webhooks/{id}/dead-letters/retry": "positions and types",
    "GET /v1/diagnose": "counts, and ids of what the reader may see",
    # operators: whoever has the secret; not limited to what an agent may see
    "GET /v1/admin/projections": "operator: counts",
    "GET /v1/admin/dead-letters": "operator: events that could not be applied, shown as GET /v1/events shows them",
    "GET /v1/admin/dead-letters/{position}": "operator: one of those",
    "POST /v1/admin/dead-letters/redrive": "operator: positions",
    "POST /v1/admin/dead-letters/discard": "operator: positions",
    "GET /v1/admin/keys": "operator: keys, without their secrets",
    "POST /v1/admin/keys": "operator: a new key with its secret",
    "POST /v1/admin/keys/{id}/rotate": "operator: its successor with its secret",
    "DELETE /v1/admin/keys/{id}": "operator: the revoked key",
    "GET /v1/admin/reconcile": "operator: counts and ids",
    "POST /v1/admin/reconcile": "operator: whether one was queued",
    "GET /v1/admin/export": "operator: everything, on purpose",
    "POST /v1/admin/import": "operator: counts",
    "GET /v1/admin/rebuilds": "operator: counts, and ids of documents that differ",
    "GET /v1/admin/rebuilds/{id}": "operator: counts, and ids of documents that differ",
    "POST /v1/admin/rebuilds": "operator: counts",
    "POST /v1/admin/rebuilds/{id}/switch": "operator: counts, and ids of documents that differ",
    "POST /v1/admin/rebuilds/{id}/rollback": "operator: counts, and ids of documents that differ",
    "POST /v1/admin/rebuilds/{id}/cancel": "operator: counts, and ids of documents that differ",
    "POST /v1/admin/snapshots": "operator: whether one was queued",
    "POST /v1/admin/purge": "operator: whether one was queued",
    "POST /v1/admin/quarantine": "operator: acknowledges a write",
    "GET /v1/admin/quarantine": "operator: what is in quarantine, on purpose",
    # writes acknowledge with ids
    **dict.fromkeys(
        (
            "POST /v1/events", "POST /v1/traces", "POST /v1/logs",
            "POST /v1/observations", "POST /v1/memories", "POST /v1/lessons", "POST /v1/sessions",
            "PATCH /v1/memories/{id}", "PATCH /v1/lessons/{id}", "POST /v1/lessons/{id}/reinforce",
            "POST /v1/lessons/{id}/trigger", "POST /v1/slots", "DELETE /v1/slots/{label}", "POST /v1/actions",
            "PATCH /v1/actions/{id}", "POST /v1/relations", "POST /v1/commits", "DELETE /v1/observations/{id}",
            "DELETE /v1/memories/{id}", "DELETE /v1/lessons/{id}", "DELETE /v1/actions/{id}",
            "DELETE /v1/relations/{id}", "DELETE /v1/commits/{id}", "DELETE /v1/sessions/{id:path}",
        ),
        "acknowledges a write",
    ),
    "POST /v1/crystals": "made of actions",
    "POST /v1/consolidate": "counts; what it makes has a test here",
    "POST /v1/reflect": "counts; what it makes has a test here",
    "GET /v1/jobs/{id}": "counts",
    "POST /v1/forget": "a receipt: ids and counts",
    "GET /v1/forget": "receipts: ids and counts",
    "GET /v1/forget/{id}": "a receipt: ids and counts",
    # processes
    "GET /livez": "says ok",
    "GET /readyz": "counts",
    "GET /metrics": "counts",
    "POST /mcp": "its tools, resources and prompts are listed one by one",
    # MCP
    **dict.fromkeys(
        (
            "tool remember", "tool observe", "tool lesson", "tool revise", "tool forget", "tool agent_observe",
            "tool memory_lesson_save", "tool memory_forget", "tool memory_action_create",
            "tool memory_action_update", "tool store_memory", "tool delete_memory", "tool save_memory",
            "tool create_lesson", "tool memory_governance_delete", "tool memory_lesson_delete",
        ),
        "acknowledges a write",
    ),
    "tool agent_remember": "shows what is saved, and a hint at what resembles it; see the test of the hint",
    "tool memory_save": "shows what is saved, and a hint at what resembles it; see the test of the hint",
    **dict.fromkeys(
        (
            "tool slots", "tool memory_slot_list", "tool memory_slot_get", "tool memory_slot_create",
            "tool memory_slot_append", "tool memory_slot_replace", "tool memory_slot_delete",
        ),
        "slots have no visibility",
    ),
    **dict.fromkeys(
        (
            "tool memory_lessons", "tool memory_lesson_recall", "tool memory_lesson_search", "tool search_lessons",
        ),
        "lessons only",
    ),
    **dict.fromkeys(
        (
            "tool memory_sessions", "tool memory_sessions_list", "tool memory_timeline", "tool memory_observations",
            "tool search", "tool timeline", "tool get_observations", "tool memory_antigravity_sync",
            "tool memory_antigravity_sync_all",
            "tool memory_commits", "tool memory_commit_lookup",
        ),
        "sessions and observations only",
    ),
    "tool memory_frontier": "actions only",
    "tool memory_crystallize": "made of actions, or of a session's observations",
    "tool memory_consolidate": "counts; what it makes has a test here",
    "tool memory_reflect": "counts; what it makes has a test here",
    "tool memory_diagnose": "counts, and ids of what the reader may see",
    "tool search_memories": "shows what the agent that it names remembers itself; see its test",
    "tool count_memories": "a number: of the memories that the reader may see",
    "tool memory_search_guide": "a fixed text",
    "resource mnemolog://projects": "names of projects with sessions, which have no visibility",
    "resource mnemolog://sessions/{session_id}/summary{?project}": "made of observations",
    "prompt remember-session": "a fixed text",
}  # fmt: skip
"""Ways in that cannot show a memory, and why."""


# the table is complete


def ways_in() -> set[str]:
    """Every route with its method, every tool, resource and prompt of every profile."""
    app = create_listeners(Settings(redis_url="redis://localhost:1", data_dir=Path("-"), cache_dir=Path("-"))).native
    routes = [route for route in app.routes if isinstance(route, Route)]
    assert len(routes) == len(app.routes), "mounted applications are not looked into"
    found = {f"{method} {route.path}" for route in routes for method in sorted((route.methods or set()) - {"HEAD"})}
    found |= {f"tool {tool.name}" for profile in PROFILES.values() for tool in profile.tools}
    attached = PROFILES.offer(tuple(PROFILES)).attachments
    found |= {f"resource {resource.uri}" for resource in (*attached.resources, *attached.templates)}
    return found | {f"prompt {prompt.name}" for prompt in attached.prompts}


def test_every_way_in_is_in_the_table_or_cannot_show_a_memory():
    listed = {one.path for one in READS} | CANNOT_SHOW.keys()
    assert not {one.path for one in READS} & CANNOT_SHOW.keys(), "one or the other"
    assert sorted(ways_in() - listed) == [], "say what these show: in READS, or in CANNOT_SHOW with the reason"
    assert sorted(listed - ways_in()) == [], "these are no more"


async def test_everybody_sees_what_they_may_and_nothing_else(
    everybody: dict[str, httpx.AsyncClient], planted_memories: list[Planted]
):
    assert not (found := await faults(everybody, planted_memories, READS)), "\n".join(found)


async def test_the_matrix_follows_when_it_is_decided_anew_who_may_read(
    everybody: dict[str, httpx.AsyncClient], planted_memories: list[Planted]
):
    """private becomes shared with the stranger, shared becomes public, public becomes private."""
    public, shared, private = planted_memories
    changed = [
        private._replace(visibility="shared", friends=(STRANGER,)),
        shared._replace(visibility="public"),
        public._replace(visibility="private"),
    ]
    await _decide(everybody[OWNER], changed)
    assert not (found := await faults(everybody, changed, READS)), "\n".join(found)
    await _decide(everybody[OWNER], planted_memories)


async def _decide(owner: httpx.AsyncClient, memories: Sequence[Planted]) -> None:
    """Let those read the memories who may; returns when it is projected."""
    for memory in memories:
        changes = {"visibility": memory.visibility, "shared_with": list(memory.friends)}
        told = await write(owner, f"/v1/memories/{memory.id}", **changes)
        answer = await owner.get("/v1/memories", params={"after": told["position"]})
        assert answer.status_code == 200, answer.text


async def test_what_is_made_of_memories_is_made_of_public_ones(matrix_server: Server):
    """Consolidating and reflecting, by the creator itself, of private, shared and public memories that are alike."""
    async with opened(matrix_server) as clients:
        carol = clients[CREATOR]
        projects: dict[Visibility, str] = {one: f"made-{one}-{uuid4().hex[:8]}" for one in VISIBILITIES}
        for visibility, project in projects.items():
            for name in ("rounding", "parsing", "caching", "queueing", "locking"):
                await write(
                    carol, "/v1/memories", project=project, visibility=visibility, shared_with=[FRIEND], owner=OWNER,
                    content=f"The outage zqmade{visibility} after {name} ends when the {name} table is cleared. "
                    f"Every outage of zqmade{visibility} restarts the worker.",
                    concepts=["outage", "worker"], tags=["outage"], memory_type="procedural", keep_duplicates=True,
                )  # fmt: skip
                await write(
                    carol, "/v1/observations", project=project, session_id=f"{project}-s",
                    content=f"The outage of the worker began when {name} failed.",
                )  # fmt: skip
            await run_job(carol, "/v1/consolidate", project=project)
            reflected = await run_job(carol, "/v1/reflect", project=project)
            if visibility == "public":
                assert reflected["insights"] > 0, "the test would prove nothing"
            else:
                assert reflected["items"] == 0
            after = reflected["position"]
            made = b""
            for path in ("/v1/lessons", "/v1/memories", "/v1/summaries", "/v1/slots"):
                params = {"project": project, **({"after": after} if after else {})}
                made += (await clients[NOBODY].get(path, params=params)).content
            assert (f"zqmade{visibility}".encode() in made) == (visibility == "public")


@pytest.mark.parametrize("name", ["memory_save", "agent_remember"])
async def test_the_hint_at_what_resembles_a_new_memory_is_of_what_the_saver_may_see(matrix_server: Server, name: str):
    """Words enough are shared to be told of a public memory, or of one's own private one; not of somebody else's."""
    async with opened(matrix_server) as clients:
        for agent, seen in ((STRANGER, False), (NOBODY, False), (CREATOR, True)):
            project = f"hint-{uuid4().hex[:8]}"
            text = "the heron stands in the reeds beside the old mill and waits for silver fish"
            told = await write(
                clients[CREATOR], "/v1/memories", project=project, visibility="private", title="zqhintmark",
                content=f"{text} zqhintmark", keep_duplicates=True,
            )  # fmt: skip
            await clients[CREATOR].get("/v1/memories", params={"after": told["position"]})
            arguments = {"content": f"{text} every single morning before anybody wakes", "project": project}
            answer = await mcp(clients[agent], "tools/call", {"name": name, "arguments": arguments})
            assert '\\"success\\":true' in answer.text
            assert ("zqhintmark" in answer.text, told["id"] in answer.text) == (seen, seen), answer.text


async def test_memex_finds_what_the_agent_that_it_names_remembers_itself_and_nothing_else(matrix_server: Server):
    """Also what is shared with the named agent is not its own memory. Who the agent is, memex takes on trust."""
    async with opened(matrix_server) as clients:
        told: dict[str, Any] = {}
        for visibility in VISIBILITIES:
            told = await write(
                clients[CREATOR], "/v1/memories", project="memex", user_id="kim", owner=OWNER, visibility=visibility,
                shared_with=[FRIEND], content=f"zqmemex{visibility} likes herons", keep_duplicates=True,
            )  # fmt: skip
        await clients[CREATOR].get("/v1/memories", params={"after": told["position"]})
        for agent in (CREATOR, OWNER, FRIEND, STRANGER):
            arguments = {"agent_id": agent, "user_id": "kim", "query": "herons", "top_k": 50}
            answer = await mcp(clients[agent], "tools/call", {"name": "search_memories", "arguments": arguments})
            assert answer.json()["result"]["isError"] is False
            shown = [one for one in VISIBILITIES if f"zqmemex{one}" in answer.text]
            assert shown == (list(VISIBILITIES) if agent == CREATOR else []), agent


A = "/agentmemory"
BIG = 100_000

READS_OF_DIALECTS: tuple[Read, ...] = (
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

DIALECTS_CANNOT_SHOW: dict[str, str] = {
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
    shown = {one.path for one in READS_OF_DIALECTS}
    assert not shown & DIALECTS_CANNOT_SHOW.keys(), "one or the other"
    assert sorted(ways_in - shown - DIALECTS_CANNOT_SHOW.keys()) == [], "say what these show, or why they cannot"
    assert sorted((shown | DIALECTS_CANNOT_SHOW.keys()) - ways_in) == [], "these are no more"


async def test_everybody_sees_through_agentmemory_what_they_may_and_nothing_else(
    everybody: dict[str, httpx.AsyncClient], planted_memories: Sequence[Planted]
):
    assert not (found := await faults(everybody, planted_memories, READS_OF_DIALECTS)), "\n".join(found)


async def test_an_expired_memory_is_shown_to_nobody_before_upkeep_deletes_it(
    matrix_server: Server, everybody: dict[str, httpx.AsyncClient]
):
    expired = await plant(everybody, "public", ttl_days=4 / 86_400)
    reads = [read._replace(shows="nothing") for read in (*READS, *READS_OF_DIALECTS)]
    worker, creator = matrix_server.supervisor.worker, everybody[CREATOR]
    assert worker is not None
    await wait_until(lambda: _is_projected(creator))
    with frozen(worker.pid):
        await wait_until(lambda: _is_missing(creator, expired.id))
        assert not (found := await faults(everybody, [expired], reads)), "\n".join(found)


async def _is_missing(client: httpx.AsyncClient, name: str) -> bool:
    return (await client.get(f"/v1/memories/{name}")).status_code == 404


async def _is_projected(client: httpx.AsyncClient) -> bool:
    return not any((await client.get("/readyz")).json()["lag"].values())
