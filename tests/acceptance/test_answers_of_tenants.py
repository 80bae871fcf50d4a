"""What a tenant is answered does not depend on what another tenant writes, with the real model and default settings."""

from uuid import uuid4

import httpx
import pytest
from waiting import wait_until

from tests.acceptance.running import Server, Tenant, new_tenant

FACTS = {
    "which port does the checkout service listen on?": "The checkout service listens on port 8443.",
    "who approves database migrations?": "Database migrations are approved by Ingrid.",
    "why did we leave MongoDB?": "We left MongoDB because its aggregation queries took minutes.",
    "how often are invoices sent?": "Invoices are sent on the first Monday of each month.",
    "what is the timeout of the payment gateway?": "The payment gateway gives up after 30 seconds.",
    "where are the backups stored?": "Backups are stored in the bucket frankfurt-cold.",
    "which browser breaks the date picker?": "The date picker breaks in Safari 15.",
    "what did the load test show?": "The load test showed that the session cache is the bottleneck.",
}
SETTLED_S = 240
BATCH = 250

Answers = dict[str, tuple[list[str], float | None]]


async def answers(client: httpx.AsyncClient) -> Answers:
    """For each question the results and the confidence of the first, to three digits."""
    found: Answers = {}
    for question in FACTS:
        answer = (await client.post("/v1/recall", json={"query": question, "project": "shop"})).json()
        confidence = answer["confidence"]
        found[question] = [one["content"] for one in answer["results"]], confidence and round(confidence, 3)
    return found


async def embedded(tenant: Tenant) -> None:
    async with tenant.server.client() as operator:

        async def settled() -> bool:
            vitals = (await operator.get("/readyz")).json()["vitals"]
            return not vitals["to_embed"]

        await wait_until(settled, SETTLED_S)


async def write_the_words_of_the_questions(tenant: Tenant, count: int) -> None:
    """Private memories of an agent, each with all words of a question."""
    questions = list(FACTS)
    async with tenant.client("mallory") as client:
        position = ""
        for start in range(0, count, BATCH):
            batch = [
                {"type": "remember", "project": "shop", "visibility": "private", "keep_duplicates": True,
                 "content": f"{questions[n % len(questions)]} nothing {uuid4().hex}"}
                for n in range(start, min(count, start + BATCH))
            ]  # fmt: skip
            written = await client.post("/v1/events", json=batch)
            assert written.status_code == 202, written.text
            position = written.json()["position"]

        async def readable() -> bool:
            asked = {"query": questions[0], "project": "shop", "after": position}
            return (await client.post("/v1/recall", json=asked)).status_code == 200

        await wait_until(readable, SETTLED_S)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("counts", [(1, 2, 10, 50, 500), pytest.param((1_000, 4_000), marks=pytest.mark.nightly)])
async def test_a_tenants_answers_stay_while_another_writes_the_words_of_its_questions(
    server: Server, counts: tuple[int, ...]
):
    own, other = [await new_tenant(server, f"{name}-{uuid4().hex[:8]}") for name in ("own", "other")]
    async with own.client("ada") as client:
        for fact in FACTS.values():
            assert (await client.post("/v1/memories", json={"content": fact, "project": "shop"})).status_code < 300
        await embedded(own)
        before = await answers(client)
        assert {question: texts[:1] for question, (texts, _) in before.items()} == {
            question: [fact] for question, fact in FACTS.items()
        }
        for count in counts:
            await write_the_words_of_the_questions(other, count)
            assert await answers(client) == before
