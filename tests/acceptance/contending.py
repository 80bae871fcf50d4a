"""Fleets that contend for work: rounds in which all agents claim one action, and a queue that all work off."""

import asyncio
import os
import signal
from collections import Counter
from itertools import cycle
from uuid import uuid4

import httpx

from ingest.log.position import Position
from tests.acceptance.running import Server

LEASE_S = 3


async def insist(client: httpx.AsyncClient, method: str, path: str, **sent: object) -> httpx.Response:
    """The answer of a client that repeats a request with its event id until the server decides it."""
    body = {"event_id": uuid4().hex, **sent}
    for _ in range(400):
        try:
            answer = await client.request(method, path, json=body)
            if answer.status_code < 500 and answer.status_code != 429:
                return answer
        except httpx.HTTPError:
            pass  # the server was killed
        await asyncio.sleep(0.25)
    raise AssertionError(f"{method} {path} was not decided")


async def claim_rounds(
    server: Server, project: str, *, agents: int, rounds: int, kill_every: int = 0
) -> list[list[Position]]:
    """The tokens that each round gave out: all agents claim the action at once, and the winner releases it.

    In every `kill_every`th round, one of the server's processes is killed while the agents wait.
    """
    victims = cycle(("api", "worker", "valkey"))
    clients = [server.client(f"agent-{number}") for number in range(agents)]
    given: list[list[Position]] = []
    try:
        created = await insist(clients[0], "POST", "/v1/actions", project=project, title="Hold the lamp")
        path = f"/v1/actions/{created.json()['id']}"
        for number in range(rounds):
            asked = [
                asyncio.create_task(insist(client, "POST", f"{path}/claim", lease_seconds=3600)) for client in clients
            ]
            if kill_every and number % kill_every == 0:
                await asyncio.sleep(0.02)
                kill(server, next(victims))
            answers = await _watching(server, asyncio.gather(*asked))
            won = [answer.json() for answer in answers if answer.status_code == 200]
            assert {answer.status_code for answer in answers} <= {200, 409}
            given.append([Position.parse(claim["token"]) for claim in won])
            for claim in won:
                assert (await insist(clients[0], "POST", f"{path}/release", token=claim["token"])).status_code == 200
    finally:
        await asyncio.gather(*(client.aclose() for client in clients))
    return given


async def work_off(
    server: Server, project: str, *, actions: int, agents: int, leaving: int
) -> tuple[Counter[str], int]:
    """How often each action of a queue was completed, and how many claims were left behind.

    The first `leaving` agents claim once and are never heard of again.
    """
    async with server.client("lead") as lead:
        queue = [
            {"type": "action", "project": project, "title": f"Task {n}", "priority": n % 7} for n in range(actions)
        ]
        batch = await lead.post("/v1/events", json=queue)
        assert batch.json()["accepted"] == actions
    done: Counter[str] = Counter()
    expired = 0

    async def work(number: int) -> None:
        nonlocal expired
        async with server.client(f"worker-{number}") as client:
            while len(done) < actions:
                claim = await insist(client, "POST", "/v1/actions/claim_next", project=project, lease_seconds=LEASE_S)
                if claim.status_code == 404:
                    await asyncio.sleep(0.2)
                    continue
                assert claim.status_code == 200, claim.text
                if number < leaving:
                    expired += 1
                    return
                held = claim.json()
                finished = await insist(client, "POST", f"/v1/actions/{held['id']}/complete", token=held["token"])
                if finished.status_code == 200:
                    done[held["id"]] += 1
                else:  # the server was so slow that the lease ended
                    assert finished.json()["code"] == "stale_token"

    await asyncio.wait_for(asyncio.gather(*map(work, range(agents))), 600)
    return done, expired


async def _watching(server: Server, answers: "asyncio.Future[list[httpx.Response]]") -> list[httpx.Response]:
    """The answers; meanwhile, what was killed is started again."""
    while not answers.done():
        await asyncio.to_thread(server.supervisor.watch)
        await asyncio.wait([answers], timeout=0.2)
    return answers.result()


def kill(server: Server, name: str) -> None:
    """Kill one of the server's processes outright; its supervisor starts it again."""
    child = getattr(server.supervisor, name)
    if child is not None and child.pid is not None:
        os.kill(child.pid, signal.SIGKILL)
