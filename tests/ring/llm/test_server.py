"""A running mnemolog that is given a language model: what the model says, what is done without it, what is kept of it.

The model is tests/support/llm_stub.py, a real HTTP server with rules for a mind.
"""

from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from llm_stub import MODEL, LlmStub
from waiting import wait_until

from ingest.log.keys import PartitionKeys
from tests.acceptance.asking import all_pages, names, read, remove, write
from tests.acceptance.running import Server, redis_of, run_job, running

Client = httpx.AsyncClient
Start = Callable[..., Server]

PARTITIONS = 4
LONG = "The build of Atlas failed: error 42 in build/atlas.py\n" + "make: *** [all] Error 2\n" * 20
WORK = [
    "Payments uses Valkey for its queue.",
    "Looked at deploy/ports.py.",
    "We decided that Payments needs Kafka.",
]


@pytest.fixture(scope="module")
def model() -> Iterator[LlmStub]:
    """The model of the server that the tests of this module share."""
    with LlmStub() as stub:
        yield stub


@pytest.fixture(scope="module")
def server(cache_dir: Path, model: LlmStub) -> Iterator[Server]:
    """A server with a model that answers."""
    with running(cache_dir, embedder="none", partitions=PARTITIONS, llm=model.setting, llm_key="sk-s3cret") as started:
        yield started


@pytest.fixture
async def client(server: Server) -> AsyncGenerator[Client]:
    """A client of it."""
    async with server.client() as http:
        yield http


async def lose_cursors(server: Server) -> None:
    """Have the worker forget how far it has looked for something to compress."""
    async with redis_of(server) as redis:
        await redis.delete(*(PartitionKeys(partition).enriched for partition in range(PARTITIONS)))


async def work(client: Client, project: str, session: str, texts: list[str] = WORK) -> None:
    """A session in which something was said."""
    said = [{"type": "observe", "project": project, "session_id": session, "content": text} for text in texts]
    told = await client.post("/v1/events", json=said)
    assert told.json()["accepted"] == len(texts), told.text


async def events(client: Client, project: str, kind: str) -> list[dict[str, Any]]:
    """The events of a type that the log shows of a project."""
    page = await read(client, "/v1/events", project=project, limit=1000)
    return [one for one in page["events"] if one["type"] == kind]


async def relations(client: Client, project: str, after: str) -> list[dict[str, Any]]:
    """The relations of a project as they stand after a position."""
    return (await read(client, "/v1/relations", project=project, after=after))["items"]


def quoting(model: LlmStub, text: str) -> int:
    """How many requests quoted a text."""
    return sum(text in str(request.quoted) for request in model.requests)


async def compressed(server: Server, client: Client, project: str, text: str) -> dict[str, Any]:
    """An observation that the model has compressed."""
    told = await write(client, "/v1/observations", project=project, session_id="s1", content=text)
    await run_job(server, "enrich")
    where = f"/v1/observations/{told['id']}"

    async def shown() -> bool:
        return bool((await read(client, where, after=told["position"]))["model"])

    await wait_until(shown)
    return await read(client, where)


async def test_a_long_observation_is_compressed_by_the_model_once(
    server: Server, client: Client, model: LlmStub, project: str
):
    text = f"{LONG}{project}"
    short = await write(client, "/v1/observations", project=project, session_id="s1", content=f"short {project}")
    seen = await compressed(server, client, project, text)
    assert (seen["model"], seen["prompt_version"]) == (MODEL, "compress/1")
    assert seen["title"] == "The build of Atlas failed: error 42 in build/atlas.py"
    assert seen["narrative"].startswith("It says: The build of Atlas failed")
    assert (seen["importance"], seen["content"]) == (8, text)
    (told,) = await events(client, project, "observation.compressed")
    assert (told["data"]["model"], told["data"]["prompt_version"]) == (MODEL, "compress/1")
    assert (told["data"]["observation"], told["causation"], told["source"]) == (seen["id"], seen["event_id"], "llm")
    await lose_cursors(server)
    await run_job(server, "enrich")
    assert await events(client, project, "observation.compressed") == [told]
    assert quoting(model, project) == 1
    assert (await read(client, f"/v1/observations/{short['id']}"))["model"] == ""
    assert {request.headers["authorization"] for request in model.requests} == {"Bearer sk-s3cret"}
    logged = server.supervisor.worker.log.read_text()
    assert "HTTP Request" not in logged, "httpx tells of every request, unless it is told not to"
    assert "sk-s3cret" not in logged


async def test_what_the_model_made_of_an_observation_is_forgotten_with_it(server: Server, client: Client, project: str):
    seen = await compressed(server, client, project, f"{LONG}{project}")
    gone = await remove(client, f"/v1/observations/{seen['id']}")
    await read(client, "/v1/timeline", project=project, after=gone["position"])
    assert await events(client, project, "observation.compressed") == []
    assert "It says" not in str(await all_pages(client, "/v1/timeline", project=project))


async def test_a_session_is_summarised_by_the_model(client: Client, model: LlmStub, project: str):
    """Its answer is an event with the model's name and the version of the prompt, and so are the relations it names."""
    await work(client, project, "s1")
    made = await write(client, "/v1/sessions/s1/summary", project=project)
    assert (made["model"], made["fell_back"]) == (MODEL, "")
    assert made["summary"]["title"] == WORK[0]
    assert made["summary"]["decisions"] == [WORK[2]]
    kept = await read(client, "/v1/sessions/s1/summary", project=project, after=made["position"])
    assert (kept["model"], kept["prompt_version"]) == (MODEL, "summarise/1")
    assert {name: kept[name] for name in made["summary"]} == made["summary"]
    (told,) = await events(client, project, "session.summarised")
    assert (told["data"]["model"], told["data"]["prompt_version"]) == (MODEL, "summarise/1")

    edges = await relations(client, project, made["position"])
    assert {(edge["source"], edge["relation"], edge["target"]) for edge in edges} == {
        ("concept:payments", "uses", "concept:valkey"),
        ("concept:payments", "needs", "concept:kafka"),
    }
    for linked in await events(client, project, "relation.linked"):
        assert linked["metadata"] == {"model": MODEL, "prompt_version": "extract/1"}
        assert linked["data"]["derived_from"] == [kept["id"]]

    asked = len(model.requests)
    again = await write(client, "/v1/sessions/s1/summary", project=project)
    assert (again["summary"], again["model"]) == (made["summary"], MODEL)
    assert len(model.requests) == asked, "nothing was observed meanwhile"

    gone = await remove(client, "/v1/sessions/s1", project=project)
    assert await relations(client, project, gone["position"]) == []
    assert "Valkey" not in str(await read(client, "/v1/events", project=project, limit=1000))
    assert await events(client, project, "relation.linked") == []


async def test_a_session_told_of_again_has_its_relations_again(client: Client, project: str):
    """The same words after a forgetting are new evidence."""
    await work(client, project, "s1")
    await write(client, "/v1/sessions/s1/summary", project=project)
    await remove(client, "/v1/sessions/s1", project=project)
    await work(client, project, "s1")
    made = await write(client, "/v1/sessions/s1/summary", project=project)
    assert len(await relations(client, project, made["position"])) == 2


async def test_an_ended_session_is_summarised_by_the_worker(server: Server, client: Client, project: str):
    await work(client, project, "s1")
    ended = await write(client, "/v1/sessions", project=project, session_id="s1", status="ended")
    await read(client, "/v1/sessions/s1", project=project, after=ended["position"])
    await run_job(server, "summarise")

    async def summarised() -> bool:
        return bool((await read(client, "/v1/summaries", project=project))["items"])

    await wait_until(summarised)
    assert names(await read(client, "/v1/summaries", project=project), "model") == [MODEL]


async def test_replaying_asks_nobody_and_keeps_what_the_model_said(
    server: Server, client: Client, model: LlmStub, project: str
):
    """Even while the model is down."""
    seen = await compressed(server, client, project, f"{LONG}{project}")
    await work(client, project, "s2")
    made = await write(client, "/v1/sessions/s2/summary", project=project)

    async def everything() -> list[Any]:
        return [
            await read(client, f"/v1/observations/{seen['id']}", after=made["position"]),
            await read(client, "/v1/sessions/s2/summary", project=project),
            await read(client, "/v1/relations", project=project),
        ]

    async def generations() -> list[int]:
        return [one["generation"] for one in (await read(client, "/v1/admin/projections"))["partitions"]]

    before, old, asked = await everything(), await generations(), len(model.requests)
    model.status = 500
    try:
        answer = await client.post("/v1/admin/projections/rebuild")
        assert answer.json() == {"queued": [*range(PARTITIONS)]}

        async def rebuilt() -> bool:
            return all(new > past for new, past in zip(await generations(), old, strict=True))

        await wait_until(rebuilt)
        assert await everything() == before
        assert (before[0]["model"], before[1]["model"], len(before[2]["items"])) == (MODEL, MODEL, 2)
        await run_job(server, "enrich")
        assert len(model.requests) == asked
    finally:
        model.status = 200


async def test_a_model_that_is_down_is_left_alone_and_the_rules_summarise(client: Client, model: LlmStub, project: str):
    """The last test of this server: its breaker is open for a while."""
    asked, model.status = len(model.requests), 500
    reasons: list[str] = []
    for session in ("s1", "s2", "s3", "s4"):
        await work(client, project, session)
        made = await write(client, f"/v1/sessions/{session}/summary", project=project)
        assert made["model"] == ""
        assert "Payments needs Kafka" in str(made["summary"]["decisions"])
        reasons.append(made["fell_back"])
    assert reasons[0].startswith("unavailable: ")
    assert "HTTP 500" in reasons[0]
    assert {reason.partition(":")[0] for reason in reasons[1:]} == {"breaker open"}
    assert len(model.requests) == asked + 3
    kept = await read(client, "/v1/sessions/s4/summary", project=project, after=made["position"])
    assert (kept["model"], kept["prompt_version"]) == ("", "")
    assert await relations(client, project, made["position"]) == []


async def test_a_tenant_over_its_budget_gets_the_rules(private_server: Start, model: LlmStub, project: str):
    server, asked = private_server(llm=model.setting, llm_daily_tokens="10"), len(model.requests)
    async with server.client() as client:
        await work(client, project, "s1", [*WORK, LONG])
        made = await write(client, "/v1/sessions/s1/summary", project=project)
        assert made["model"] == ""
        assert made["fell_back"].startswith("over budget: the budget is 10 tokens a day")
        await run_job(server, "enrich")
        page = await read(client, "/v1/sessions/s1/observations", project=project)
        assert {*names(page, "model")} == {""}
        assert await events(client, project, "observation.compressed") == []
        assert len(model.requests) == asked
